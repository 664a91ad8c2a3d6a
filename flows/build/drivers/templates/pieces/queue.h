/* Look how a job is: PENDING, OK or how it has ended. Jobs finish in the order of submission. */
int @name@_poll(const @name@_device *device, uint32_t ticket);

/* Poll until the job has ended, at most `polls` times more than once. */
int @name@_wait(const @name@_device *device, uint32_t ticket, uint32_t polls);

/* End all unfinished jobs. They have ended when `@name@_wait` says so. */
void @name@_abort(const @name@_device *device);

/* Return a counter; `low` is the offset of its lower word, for example @NAME@_BUSY_LOW. */
uint64_t @name@_counter(const @name@_device *device, uint32_t low);
