static inline $code ${name}_special(int negative, int kind, lowprec_saturation saturation)
{
    static const uint32_t zero[2] = $zeros;
    static const uint32_t nan[2] = $nan;
    static const uint32_t infinity[3][2] = $infinity;

    return ($code)(kind == 0 ? zero[negative] : kind == 1 ? infinity[saturation][negative] : nan[negative]);
}
