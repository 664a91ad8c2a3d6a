/* Return a status in words. */
const char *@name@_message(int status);

@include close.h@
