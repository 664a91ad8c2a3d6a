/* SPDX-License-Identifier: Apache-2.0 */
/*% block bits_of %*/
static int64_t bits_of(double x)
{
    int64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/*% endblock %*/
/*% block double_of %*/
static double double_of(int64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/*% endblock %*/
/*% block polynomial %*/
static double polynomial(const double *factors, size_t count, double x)
{
    double found = factors[0];
    size_t i;

    for (i = 1; i < count; i++)
        found = found * x + factors[i];
    return found;
}

/*% endblock %*/
