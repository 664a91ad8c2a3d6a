    const @name@_device *device;
    void *context;
    void (*load)(void *context, uint64_t address, void *data, uint32_t bytes);
    void (*store)(void *context, uint64_t address, const void *data, uint32_t bytes);
