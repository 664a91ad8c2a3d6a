/* What the functions return beside the statuses of the driver. */
enum {
    @NAME@_STOPPED = 2,      /* on_token wanted no more */
    @NAME@_E_PROMPT = -100,  /* the prompt is empty, or does not fit with the tokens asked for */
    @NAME@_E_TOKEN = -101    /* a token that the model does not know */
};
