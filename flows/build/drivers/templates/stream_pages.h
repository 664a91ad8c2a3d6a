
/* The same, or pages: of these `place` has where entries count from, their bytes, and in `blocks`
 * how many there are. */
typedef struct {
    @name@_place place;
    uint64_t table; /* address of 32 bits for each page: beats behind `address`; 0: no pages */
    uint32_t skip;  /* bytes that are skipped of the first page */
    uint32_t last;  /* bytes of the last page up to which it is read */
} @name@_pages;
