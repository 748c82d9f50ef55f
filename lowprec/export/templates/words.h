#ifndef LOWPREC_WORDS
#define LOWPREC_WORDS

#include <stdint.h>

/* Shifts by any number of bits, read as unsigned. */
static inline uint64_t lowprec_up(uint64_t word, uint64_t by)
{
    return by < 64 ? word << by : 0;
}

static inline uint64_t lowprec_down(uint64_t word, uint64_t by)
{
    return by < 64 ? word >> by : 0;
}

/* A shift of a two's complement by at most 63 bits, and the order of two of them. */
static inline uint64_t lowprec_halved(uint64_t word, uint64_t by)
{
    return word >> 63 ? ~(~word >> by) : word >> by;
}

static inline uint64_t lowprec_less(uint64_t x, uint64_t y)
{
    return (x ^ UINT64_C(1) << 63) < (y ^ UINT64_C(1) << 63);
}

/* Bits up to the leading one; 0 for 0. */
static inline uint64_t lowprec_bits(uint64_t word)
{
    uint64_t length = 0;

    for (; word != 0; word >>= 1)
        length++;
    return length;
}

/* x * 2^50 / y, rounded down; both have bit 52 as their leading one. */
static inline uint64_t lowprec_quotient(uint64_t x, uint64_t y)
{
    uint64_t made = 0;
    int i;

    for (i = 0; i <= 50; i++, x <<= 1) {
        made <<= 1;
        if (x >= y) {
            made |= 1;
            x -= y;
        }
    }
    return made;
}

/* The square root of x * 2^(48 + uneven), rounded down; x has bit 52 as its leading one. */
static inline uint64_t lowprec_root(uint64_t x, uint64_t uneven)
{
    uint64_t made = 0, rest = 0;
    int place = 100;

    for (x <<= uneven; place >= 0; place -= 2) {
        rest = rest << 2 | (place >= 48 ? x >> (place - 48) & 3 : 0);
        made <<= 1;
        if (rest > made << 1) {
            rest -= made << 1 | 1;
            made |= 1;
        }
    }
    return made;
}

#endif
