/* $provenance

   Decode and encode $fmt, bit for bit as lowprec does: no heap, no floating point.$nan_note */

#ifndef $guard
#define $guard

#include <stdint.h>

#ifndef LOWPREC_MODES
#define LOWPREC_MODES

typedef enum {
    $rounding
} lowprec_rounding;

typedef enum {
    $saturation
} lowprec_saturation;

/* By mode, sign and parity of the nearer code: the farther code is taken where the tail, in units
   of 2^-64 of the gap between the two, is above the limit. */
static const uint64_t lowprec_limits[$modes][2][2] = {
    $limits
};

#endif

/* The value of every code, as $value_name bits. */
static const $value ${name}_values[$count] = {
    $values
};

static inline $value ${name}_decode($code code)
{
    return ${name}_values[code & $mask];
}
