static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double exponential(double x)
{
    static const double factors[] = {
@FACTORS@
    };
    double power, rest, found, scale;
    uint64_t bits;
    size_t i;

    x = larger(x, -@MOST_EXPONENT@);
    x = x < @MOST_EXPONENT@ ? x : @MOST_EXPONENT@;
    power = (x * @LOG2_E@ + ROUND) - ROUND;
    rest = (x - power * @LOG_2_HIGH@) - power * @LOG_2_LOW@;
    found = factors[0];
    for (i = 1; i < sizeof factors / sizeof factors[0]; i++)
        found = found * rest + factors[i];
    bits = (uint64_t)((int64_t)power + 1023) << 52;
    memcpy(&scale, &bits, sizeof scale);
    return found * scale;
}
