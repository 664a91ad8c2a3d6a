static double inverse_root(double x)
{
    double y;
    uint64_t bits;
    int i;

    memcpy(&bits, &x, sizeof bits);
    bits = UINT64_C(@INVERSE_ROOT@) - (bits >> 1);
    memcpy(&y, &bits, sizeof y);
    for (i = 0; i < @ROOT_STEPS@; i++)
        y = y * (1.5 - 0.5 * x * y * y);
    return y;
}
