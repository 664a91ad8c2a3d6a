/* What the functions return: 0, or one of these; negative is an error. */
enum {
/*% for line, text in statuses.lines %*/
@ "%-*s"|format(statuses.width, line) @ /* @ text @ */
/*% endfor %*/
};

/* Look whether the engine that this driver was generated for is there. */
int @name@_probe(const @name@_device *device);
