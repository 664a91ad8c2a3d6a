const char *@name@_message(int status)
{
    switch (status) {
@MESSAGES@
    default:
        return "unknown status";
    }
}
