
static int check_pages(const @name@_pages *pages)
{
    const @name@_place *place = &pages->place;
    uint64_t last = UINT64_MAX >> (64 - @NAME@_ADDRESS_BITS);
    uint32_t begins = place->blocks == 1u ? pages->skip : 0u;

    if (pages->table == 0u || place->row_bytes == 0u)
        return check(place);
    if (place->row_bytes > LARGEST || place->blocks == 0u || place->blocks > MOST_PAGES ||
        pages->skip >= place->row_bytes || pages->last > place->row_bytes ||
        pages->last <= begins)
        return @NAME@_E_SIZE;
    if (place->address > last || pages->table % ENTRY != 0u || pages->table > last ||
        ENTRY * place->blocks - 1u > last - pages->table)
        return @NAME@_E_ADDRESS;
    return @NAME@_OK;
}

/* Write the registers of a port whose rows may lie in pages. */
static void put_pages(const @name@_device *device, uint32_t offset, const @name@_pages *pages)
{
    @name@_place place = pages->place;
    int paged = pages->table != 0u;

    if (paged)
        place.rows = 1u; /* a page is a row */
    put_place(device, offset, &place);
    put_wide(device, offset + 28u, pages->table);
    put(device, offset + 36u, paged ? pages->skip : 0u);
    put(device, offset + 40u, paged ? pages->last : 0u);
}
