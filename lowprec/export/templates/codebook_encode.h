/* The code of a finite magnitude, given as binary64 bits, and its sign. */
static inline $code ${name}_round(
    int negative, uint64_t magnitude, lowprec_rounding rounding, lowprec_saturation saturation)
{
    static const int counts[2] = $counts;
    static const uint32_t overflow[3][2] = $overflow;
    const uint64_t *sizes, *steps;
    const uint32_t *codes;
    uint64_t tail, size;
    int low = 0, high;

$zero    sizes = negative ? ${name}_sizes1 : ${name}_sizes0;
    steps = negative ? ${name}_steps1 : ${name}_steps0;
    codes = negative ? ${name}_codes1 : ${name}_codes0;
    high = counts[negative];
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (sizes[middle] <= magnitude)
            low = middle;
        else
            high = middle;
    }
    size = sizes[low];
    if (size == magnitude || (codes[low] >> 18 & 1) || (size > magnitude && !(size >> 63)))
        return ($code)(codes[low] & $mask);
    /* In units of 2^-64, with the threshold in the middle. */
    tail = magnitude < steps[low] ? UINT64_C(1) << 62 : UINT64_C(3) << 62;
    if (magnitude == steps[low] && (codes[low] >> 17 & 1))
        tail = UINT64_C(1) << 63;
    if (tail > ${name}_limits[rounding][negative][codes[low] >> 16 & 1])
        low++;
    if (low == counts[negative])
        return ($code)overflow[saturation][negative];
    return ($code)(codes[low] & $mask);
}

/* The code of a binary64, given as its bits. */
static inline $code ${name}_encode64(
    uint64_t binary64, lowprec_rounding rounding, lowprec_saturation saturation)
{
    int negative = (int)(binary64 >> 63);
    uint64_t magnitude = binary64 & UINT64_C(0x7fffffffffffffff);

    if (magnitude >= UINT64_C(0x7ff0000000000000))
        return ${name}_special(negative, magnitude > UINT64_C(0x7ff0000000000000) ? 2 : 1, saturation);
    return ${name}_round(negative, magnitude, rounding, saturation);
}

/* The code of a binary32, given as its bits. */
static inline $code ${name}_encode(
    uint32_t binary32, lowprec_rounding rounding, lowprec_saturation saturation)
{
    int negative = (int)(binary32 >> 31);
    int field = (int)(binary32 >> 23 & 0xff);
    uint64_t trailing = binary32 & 0x7fffff;

    if (field == 0xff)
        return ${name}_special(negative, trailing ? 2 : 1, saturation);
    if (field == 0 && trailing != 0) {
        for (field = 1; !(trailing >> 23); field--)
            trailing <<= 1;
        trailing &= 0x7fffff;
    } else if (field == 0)
        field = -896;
    return ${name}_round(negative, (uint64_t)(field + 896) << 52 | trailing << 29, rounding, saturation);
}
