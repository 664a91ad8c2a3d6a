const char *@name@_message(int status)
{
    switch (status) {
/*% for status, text in statuses.messages %*/
    case @NAME@_@status@:
        return "@text@";
/*% endfor %*/
    default:
        return "unknown status";
    }
}
