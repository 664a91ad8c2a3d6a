/* Return a status in words. */
const char *@name@_message(int status);

/*% include "pieces/close.h" %*/
