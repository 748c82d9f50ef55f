/* The code of (-1)^negative * significand * 2^exponent; significand is not zero. */
static inline $code ${name}_round(
    int negative, uint64_t significand, int exponent, lowprec_rounding rounding, lowprec_saturation saturation)
{
    static const uint32_t last[2] = $last;
    static const uint32_t base[2] = $base;
    static const uint32_t step[2] = $step;
    static const uint32_t rounded_zero[2] = $rounded_zero;
    static const uint32_t overflow[3][2] = $overflow;
    uint64_t magnitude = last[negative];
    uint64_t tail = UINT64_MAX;
    int lead = exponent - 1;
    uint64_t rest;

    for (rest = significand; rest != 0; rest >>= 1)
        lead++;
    if (lead <= $top) {
        /* The nearest code not farther from zero, on the grid continued past the largest value. */
        int binade = lead > $emin ? lead : $emin;
        int shift;
        uint64_t kept;
        shift = binade - $trailing_bits - exponent;
        if (shift <= 0) {
            kept = significand << -shift;
            tail = 0;
        } else if (shift < 64) {
            kept = significand >> shift;
            tail = significand << (64 - shift);
        } else {
            int below = shift - 64 < 63 ? shift - 64 : 63;
            kept = 0;
            tail = significand >> below;
            if (tail << below != significand)
                tail |= 1;
        }
        magnitude = kept + ((uint64_t)(binade - ($emin)) << $trailing_bits);
$hidden        if (magnitude > last[negative]) {
            magnitude = last[negative];
            tail = UINT64_MAX;
        }
    }
    if (tail > lowprec_limits[rounding][negative][magnitude & 1])
        magnitude++;
    if (magnitude > last[negative])
        return ($code)overflow[saturation][negative];
    if (magnitude == 0)
        return ($code)rounded_zero[negative];
    return ($code)((base[negative] + step[negative] * (uint32_t)magnitude) & $mask);
}
