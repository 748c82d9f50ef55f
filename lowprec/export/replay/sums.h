#ifndef LOWPREC_SUMS
#define LOWPREC_SUMS

#include <stddef.h>
#include <stdint.h>

/* How to read the codes of a format. */
typedef struct {
    uint64_t mask, sign, complement, not_a_zero, max_magnitude, infinity, keeps_nan_sign;
    uint64_t trailing_bits, field_mask, lowest;
    int exponent; /* of the last bit of the significand, less the field */
    int cut;      /* lower bits of a register that are not read, but for what they make a NaN */
} lowprec_source;

/* Codes of one sign. The farther is taken where the tail, in units of 2^-64 of the gap, is above
   the limit. */
typedef struct {
    uint64_t max_magnitude, limit_even, limit_odd, base, step, rounded_zero, zero, overflow, infinity, nan;
} lowprec_side;

/* Where numbers are rounded to, and how its codes are read back. */
typedef struct {
    uint64_t mask, trailing_bits, hidden;
    int emin, top;
    int by_exponent; /* 1 where numbers from 2^top on overflow in every mode */
    lowprec_side sides[2];
    lowprec_source source;
    int emax, downward;
} lowprec_target;

/* How products are summed; see lowprec's Accumulation and Window. */
typedef struct {
    size_t step;
    int fraction_bits, lowest_exponent, cut, alternate_pairs;
    size_t group;
    int negative_zero, rounds_products;
    size_t chunk;
    int pairwise, addend_last;
} lowprec_sum;

enum { LOWPREC_NUMBER, LOWPREC_INFINITE, LOWPREC_NAN };

/* (-1)^negative * significand * 2^exponent; `place` is the exponent that its format writes it with. The NaN
   of an invalid operation yields to those of operands. */
typedef struct {
    int kind, negative, yields;
    uint64_t significand;
    int exponent, place;
} lowprec_number;

static inline lowprec_number lowprec_read(uint64_t code, const lowprec_source *source)
{
    lowprec_number made = {LOWPREC_NUMBER, 0, 0, 0, 0, 0};
    uint64_t magnitude, field, below = code & ((UINT64_C(1) << source->cut) - 1);

    code = code >> source->cut & source->mask;
    made.negative = (code & source->sign) != 0;
    magnitude = code & ~source->sign;
    if (code == source->sign && (source->sign & source->not_a_zero)) {
        made.kind = LOWPREC_NAN;
        made.negative = 0;
        return made;
    }
    if (made.negative && source->complement)
        magnitude = (UINT64_C(0) - code) & source->mask;
    if (magnitude > source->max_magnitude) {
        made.kind = magnitude == source->infinity && below == 0 ? LOWPREC_INFINITE : LOWPREC_NAN;
        if (made.kind == LOWPREC_NAN && !source->keeps_nan_sign)
            made.negative = 0;
        return made;
    }
    field = (magnitude >> source->trailing_bits) & source->field_mask;
    field = field > source->lowest ? field : source->lowest;
    made.significand = magnitude - ((field - 1) << source->trailing_bits);
    made.exponent = source->exponent + (int)field;
    made.place = made.exponent + (int)source->trailing_bits;
    return made;
}

static inline int lowprec_length(uint64_t word)
{
    int length = 0;

    for (; word != 0; word >>= 1)
        length++;
    return length;
}

/* The code of a number in a format. */
static inline uint64_t lowprec_place(lowprec_number x, const lowprec_target *to)
{
    const lowprec_side *side = &to->sides[x.negative];
    uint64_t magnitude = side->max_magnitude, tail = UINT64_MAX, kept;
    int lead, binade, shift;

    if (x.kind == LOWPREC_NAN)
        return side->nan;
    if (x.kind == LOWPREC_INFINITE)
        return side->infinity;
    if (x.significand == 0)
        return side->zero;
    lead = x.exponent + lowprec_length(x.significand) - 1;
    if (to->by_exponent && lead >= to->top)
        return side->overflow;
    if (lead <= to->top) {
        binade = lead > to->emin ? lead : to->emin;
        shift = binade - (int)to->trailing_bits - x.exponent;
        if (shift <= 0) {
            kept = x.significand << -shift;
            tail = 0;
        } else if (shift < 64) {
            kept = x.significand >> shift;
            tail = x.significand << (64 - shift);
        } else {
            int below = shift - 64 < 63 ? shift - 64 : 63;
            kept = 0;
            tail = x.significand >> below;
            if (tail << below != x.significand)
                tail |= 1;
        }
        magnitude = kept + ((uint64_t)(binade - to->emin) << to->trailing_bits);
        if (to->hidden) {
            if (kept < to->hidden) {
                magnitude = to->hidden;
                tail = 0;
            }
            magnitude -= to->hidden;
        }
        if (magnitude > side->max_magnitude) {
            magnitude = side->max_magnitude;
            tail = UINT64_MAX;
        }
    }
    if (tail > (magnitude & 1 ? side->limit_odd : side->limit_even))
        magnitude++;
    if (magnitude > side->max_magnitude)
        return side->overflow;
    if (magnitude == 0)
        return side->rounded_zero;
    return (side->base + side->step * magnitude) & to->mask;
}

/* The NaN of an invalid operation. */
static inline lowprec_number lowprec_nan(void)
{
    lowprec_number made = {LOWPREC_NAN, 0, 1, 0, 0, 0};

    return made;
}

static inline lowprec_number lowprec_product(lowprec_number x, lowprec_number y)
{
    lowprec_number made = x;

    if (x.kind == LOWPREC_NAN || y.kind == LOWPREC_NAN) {
        if (x.kind != LOWPREC_NAN || (x.yields && y.kind == LOWPREC_NAN && !y.yields))
            made = y;
        return made;
    }
    made.negative = x.negative != y.negative;
    made.place = x.place + y.place;
    if (x.kind == LOWPREC_INFINITE || y.kind == LOWPREC_INFINITE) {
        if ((x.kind == LOWPREC_NUMBER && x.significand == 0)
            || (y.kind == LOWPREC_NUMBER && y.significand == 0))
            return lowprec_nan();
        made.kind = LOWPREC_INFINITE;
        return made;
    }
    made.significand = x.significand * y.significand;
    made.exponent = x.exponent + y.exponent;
    return made;
}

/* NaN and infinities of a sum so far and one more term; 1 where the sum is decided by them. */
static inline int lowprec_special(lowprec_number *sum, lowprec_number term)
{
    if (sum->kind == LOWPREC_NAN || term.kind == LOWPREC_NAN) {
        if (sum->kind != LOWPREC_NAN || (sum->yields && term.kind == LOWPREC_NAN && !term.yields))
            *sum = term;
        return 1;
    }
    if (sum->kind == LOWPREC_INFINITE && term.kind == LOWPREC_INFINITE && sum->negative != term.negative)
        *sum = lowprec_nan();
    else if (term.kind == LOWPREC_INFINITE)
        *sum = term;
    return sum->kind != LOWPREC_NUMBER;
}

/* The sum of two numbers of at most 53 bits; its last bit is set where anything below it is lost. */
static inline lowprec_number lowprec_added(lowprec_number x, lowprec_number y, int downward)
{
    lowprec_number made = x, other = y;
    int shift, length;
    uint64_t lost;

    if (lowprec_special(&made, y))
        return made;
    if (x.significand == 0 || y.significand == 0) {
        if (x.significand == 0)
            made = y;
        if (x.significand == y.significand && x.negative != y.negative)
            made.negative = downward;
        return made;
    }
    length = 62 - lowprec_length(made.significand);
    made.significand <<= length;
    made.exponent -= length;
    length = 62 - lowprec_length(other.significand);
    other.significand <<= length;
    other.exponent -= length;
    if (made.exponent < other.exponent
        || (made.exponent == other.exponent && made.significand < other.significand)) {
        lowprec_number smaller = made;
        made = other;
        other = smaller;
    }
    shift = made.exponent - other.exponent;
    lost = shift > 62 ? other.significand : other.significand & ((UINT64_C(1) << shift) - 1);
    other.significand = shift > 62 ? 0 : other.significand >> shift;
    other.significand |= lost != 0;
    if (made.negative == other.negative)
        made.significand += other.significand;
    else
        made.significand -= other.significand;
    if (made.significand == 0)
        made.negative = downward;
    return made;
}

/* A term in units of 2^unit. */
static inline int64_t lowprec_cut(lowprec_number x, int unit, int how)
{
    int shift = unit - x.exponent;
    uint64_t kept, lost;

    if (x.significand == 0)
        return 0;
    if (shift <= 0)
        return x.negative ? -(int64_t)(x.significand << -shift) : (int64_t)(x.significand << -shift);
    kept = shift > 63 ? 0 : x.significand >> shift;
    lost = shift > 63 ? x.significand : x.significand & ((UINT64_C(1) << shift) - 1);
    if (lost != 0 && how == 2)
        kept |= 1;
    if (lost != 0 && how == 1 && x.negative)
        kept++;
    return x.negative ? -(int64_t)kept : (int64_t)kept;
}

/* The next term, from a place on, before an end; whether its exponent counts, and what it is. */
typedef lowprec_number (*lowprec_term)(const void *rows, size_t place, size_t end, int *counts, int *where);

/* The place of a term of a step. */
static inline size_t lowprec_at(const lowprec_sum *how, size_t first, int half, size_t i)
{
    return how->alternate_pairs ? first + (i >> 1) * 4 + 2 * (size_t)half + (i & 1) : first + i;
}

/* A step of hardware: all terms and the sum so far are cut at the place that the largest exponent gives. */
static inline lowprec_number lowprec_step(
    lowprec_term term, const void *rows, size_t first, int half, size_t end, lowprec_number sum,
    const lowprec_sum *how, const lowprec_target *to)
{
    lowprec_number all = sum, made = {LOWPREC_NUMBER, 0, 0, 0, 0, 0};
    int top = how->lowest_exponent, counts = 0, where = 0;
    int64_t total;
    size_t i, place;

    if (sum.kind == LOWPREC_NUMBER && sum.significand != 0 && sum.place > top)
        top = sum.place;
    for (i = 0; i < how->step && (place = lowprec_at(how, first, half, i)) < end; i += how->group) {
        lowprec_number next = term(rows, place, end, &counts, &where);
        (void)lowprec_special(&all, next);
        if (counts && where > top)
            top = where;
    }
    if (all.kind != LOWPREC_NUMBER) {
        if (all.kind == LOWPREC_NAN)
            all.negative = 0;
        return lowprec_read(lowprec_place(all, to), &to->source);
    }
    total = lowprec_cut(sum, top - how->fraction_bits, how->cut);
    for (i = 0; i < how->step && (place = lowprec_at(how, first, half, i)) < end; i += how->group)
        total += lowprec_cut(term(rows, place, end, &counts, &where), top - how->fraction_bits, how->cut);
    made.negative = total < 0;
    made.significand = total < 0 ? (uint64_t)-total : (uint64_t)total;
    made.exponent = top - how->fraction_bits;
    if (made.significand != 0 && made.exponent + lowprec_length(made.significand) - 1 > to->emax)
        made.kind = LOWPREC_INFINITE;
    made = lowprec_read(lowprec_place(made, to), &to->source);
    if (made.kind == LOWPREC_NUMBER && made.significand == 0 && !how->negative_zero)
        made.negative = 0;
    return made;
}

/* Products from one place to another, without what comes after their sum. */
static inline lowprec_number lowprec_sums(
    lowprec_term term, const void *rows, size_t first, size_t end, lowprec_number sum, int begins,
    const lowprec_sum *how, const lowprec_target *product, const lowprec_target *to)
{
    lowprec_number waiting[65];
    size_t place, terms = 0, left;
    int counts, where, depth = 0, half;

    if (how->step != 0) {
        for (place = first; place < end; place += how->step * (how->alternate_pairs ? 2 : 1))
            for (half = 0; half <= how->alternate_pairs; half++)
                if (lowprec_at(how, place, half, 0) < end)
                    sum = lowprec_step(term, rows, place, half, end, sum, how, to);
        return sum;
    }
    if (how->pairwise && begins) {
        waiting[depth++] = sum;
        terms = 1;
    }
    for (place = first; place < end; place++) {
        lowprec_number next = term(rows, place, end, &counts, &where);
        if (how->rounds_products) {
            next = lowprec_read(lowprec_place(next, product), &product->source);
            next.yields = 1;
        }
        if (!how->pairwise) {
            sum = lowprec_read(lowprec_place(lowprec_added(next, sum, to->downward), to), &to->source);
            continue;
        }
        terms++;
        for (left = terms; left % 2 == 0; left /= 2) {
            next.yields = waiting[--depth].yields = 0;
            next = lowprec_added(waiting[depth], next, to->downward);
            next = lowprec_read(lowprec_place(next, to), &to->source);
        }
        waiting[depth++] = next;
    }
    if (!how->pairwise || terms == 0)
        return sum;
    if (terms == 1)
        return lowprec_read(lowprec_place(waiting[0], to), &to->source);
    while (depth > 1) {
        depth--;
        waiting[depth].yields = waiting[depth - 1].yields = 0;
        sum = lowprec_added(waiting[depth - 1], waiting[depth], to->downward);
        waiting[depth - 1] = lowprec_read(lowprec_place(sum, to), &to->source);
    }
    return waiting[0];
}

/* The code of a dot product in the output. */
static inline uint64_t lowprec_dot(
    lowprec_term term, const void *rows, size_t count, const uint64_t *addend, const lowprec_sum *how,
    const lowprec_target *product, const lowprec_target *to, const lowprec_target *begin,
    const lowprec_target *output)
{
    const lowprec_number zero = {LOWPREC_NUMBER, 0, 0, 0, 0, 0};
    lowprec_number start = addend ? lowprec_read(*addend, &begin->source) : zero, sum, part;
    size_t place;

    sum = how->addend_last ? zero : start;
    if (how->chunk == 0)
        sum = lowprec_sums(term, rows, 0, count, sum, addend && !how->addend_last, how, product, to);
    else
        for (place = 0; place < count; place += how->chunk) {
            size_t end = count - place < how->chunk ? count : place + how->chunk;
            part = lowprec_sums(term, rows, place, end, zero, 0, how, product, to);
            sum = lowprec_read(lowprec_place(lowprec_added(sum, part, begin->downward), begin), &begin->source);
        }
    if (how->addend_last) {
        sum = lowprec_added(sum, start, begin->downward);
        if (how->step == 0 || how->chunk != 0)
            sum = lowprec_read(lowprec_place(sum, begin), &begin->source);
    }
    return lowprec_place(sum, output);
}

#endif
