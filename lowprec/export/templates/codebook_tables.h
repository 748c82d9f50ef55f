/* By mode, sign and parity as above, with the ties of $fmt itself. */
static const uint64_t ${name}_limits[$modes][2][2] = {
    $own_limits
};

/* By sign, from zero outward: the magnitudes of values as binary64 bits (-1: a value of the other
   sign), the first magnitude at or above the threshold that follows, and codes. Above a code: bit 16
   its own parity, bit 17 the threshold is that magnitude, bit 18 nothing overflows. */
static const uint64_t ${name}_sizes0[] = {
    $sizes0
};
static const uint64_t ${name}_steps0[] = {
    $steps0
};
static const uint32_t ${name}_codes0[] = {
    $codes0
};
static const uint64_t ${name}_sizes1[] = {
    $sizes1
};
static const uint64_t ${name}_steps1[] = {
    $steps1
};
static const uint32_t ${name}_codes1[] = {
    $codes1
};
