void @name@_prepare(const @name@_host *host, const void *image)
{
    const uint8_t *data = (const uint8_t *)image;
    uint64_t at;

    for (at = 0; at < @NAME@_MODEL_IMAGE_BYTES; at += PIECE) {
        uint64_t left = @NAME@_MODEL_IMAGE_BYTES - at;

        host->store(host->context, @NAME@_MODEL_BASE + at, data + at,
                    left < PIECE ? (uint32_t)left : (uint32_t)PIECE);
    }
}
