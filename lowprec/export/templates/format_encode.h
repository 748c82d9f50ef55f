/* The code of a binary32, given as its bits. */
static inline $code ${name}_encode(
    uint32_t binary32, lowprec_rounding rounding, lowprec_saturation saturation)
{
    int negative = (int)(binary32 >> 31);
    int field = (int)(binary32 >> 23 & 0xff);
    uint32_t trailing = binary32 & 0x7fffff;

    if (field == 0xff)
        return ${name}_special(negative, trailing ? 2 : 1, saturation);
    if (field == 0 && trailing == 0)
        return ${name}_special(negative, 0, saturation);
    if (field == 0)
        return ${name}_round(negative, trailing, -149, rounding, saturation);
    return ${name}_round(negative, trailing | 0x800000, field - 150, rounding, saturation);
}

/* The code of a binary64, given as its bits: rounded once. */
static inline $code ${name}_encode64(
    uint64_t binary64, lowprec_rounding rounding, lowprec_saturation saturation)
{
    int negative = (int)(binary64 >> 63);
    int field = (int)(binary64 >> 52 & 0x7ff);
    uint64_t trailing = binary64 & UINT64_C(0xfffffffffffff);

    if (field == 0x7ff)
        return ${name}_special(negative, trailing ? 2 : 1, saturation);
    if (field == 0 && trailing == 0)
        return ${name}_special(negative, 0, saturation);
    if (field == 0)
        return ${name}_round(negative, trailing, -1074, rounding, saturation);
    return ${name}_round(negative, trailing | UINT64_C(0x10000000000000), field - 1075, rounding, saturation);
}
