/* Return a status in words. */
const char *@name@_message(int status);

#ifdef __cplusplus
}
#endif

#endif
