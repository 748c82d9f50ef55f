/* A device under test in software: binary32 operands in, `operand result` out.
 *
 *     convert [ROUNDING [SATURATION]] < operands > results
 *
 * Operands are hexadecimal words, one a line, as `lowprec vectors ... --operands` prints them; what
 * comes out is what `lowprec compare` reads. Put the conversion that you want to test in the place
 * of the call of lowprec_e4m3fn_encode.
 *
 * -DTIES_AWAY plants a bug on purpose: nearest_even is asked for and ties go away from zero.
 *
 * Exit codes: 0, or 2 for bad input or usage. C99.
 */

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lowprec_e4m3fn.h"

#ifdef TIES_AWAY
#define FOR_NEAREST_EVEN LOWPREC_NEAREST_AWAY
#else
#define FOR_NEAREST_EVEN LOWPREC_NEAREST_EVEN
#endif

static const struct {
    const char *name;
    lowprec_rounding value;
} roundings[] = {
    {"nearest_even", FOR_NEAREST_EVEN},
    {"nearest_away", LOWPREC_NEAREST_AWAY},
    {"nearest_zero", LOWPREC_NEAREST_ZERO},
    {"toward_zero", LOWPREC_TOWARD_ZERO},
    {"toward_positive", LOWPREC_TOWARD_POSITIVE},
    {"toward_negative", LOWPREC_TOWARD_NEGATIVE},
    {"away_from_zero", LOWPREC_AWAY_FROM_ZERO},
    {"to_odd", LOWPREC_TO_ODD},
};

static const struct {
    const char *name;
    lowprec_saturation value;
} saturations[] = {
    {"none", LOWPREC_SATURATE_NONE},
    {"finite", LOWPREC_SATURATE_FINITE},
    {"propagate", LOWPREC_SATURATE_PROPAGATE},
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

int main(int argc, char **argv)
{
    const char *rounding_name = argc > 1 ? argv[1] : "nearest_even";
    const char *saturation_name = argc > 2 ? argv[2] : "none";
    size_t rounding = 0;
    size_t saturation = 0;
    char line[64];
    unsigned long number = 0;

    while (rounding < COUNT(roundings) && strcmp(rounding_name, roundings[rounding].name) != 0)
        rounding++;
    while (saturation < COUNT(saturations) && strcmp(saturation_name, saturations[saturation].name) != 0)
        saturation++;
    if (argc > 3 || rounding == COUNT(roundings) || saturation == COUNT(saturations)) {
        fprintf(stderr, "usage: convert [ROUNDING [SATURATION]], named as lowprec names them\n");
        return 2;
    }

    while (fgets(line, sizeof line, stdin) != NULL) {
        uint32_t operand;
        int used = 0;

        /* A damaged operand that was skipped or guessed would only be noticed as a wrong result. */
        number++;
        if (sscanf(line, "%8" SCNx32 " %n", &operand, &used) != 1 || line[used] != '\0') {
            fprintf(stderr, "line %lu is no hexadecimal word of at most 32 bits\n", number);
            return 2;
        }
        printf("%08" PRIx32 " %02x\n", operand,
               (unsigned)lowprec_e4m3fn_encode(operand, roundings[rounding].value, saturations[saturation].value));
    }
    /* A write error, such as a full disk, shows at the latest when the buffer is flushed. */
    if (ferror(stdin) || fflush(stdout) != 0) {
        fprintf(stderr, "cannot read the operands or write the results\n");
        return 2;
    }
    return 0;
}
