#ifndef LOWPREC_MACHINES
#define LOWPREC_MACHINES

/* Matrix cores whose rule is no set of parameters; see lowprec's MACHINES. */

/* The smallest exponent of binary32's normal numbers, and what is beyond its largest. */
enum { LOWPREC_EMIN = -126, LOWPREC_BEYOND = 128 };

/* A number rounded to binary32, or the zero of its sign where it becomes subnormal. */
static inline lowprec_number lowprec_kept(lowprec_number x, const lowprec_target *single)
{
    x = lowprec_read(lowprec_place(x, single), &single->source);
    if (x.exponent + lowprec_length(x.significand) - 1 < LOWPREC_EMIN)
        x.significand = 0;
    return x;
}

/* An operand; +0 for a subnormal one, and for -0. */
static inline lowprec_number lowprec_flushed(lowprec_number x)
{
    if (x.kind == LOWPREC_NUMBER && x.exponent + lowprec_length(x.significand) - 1 < x.place)
        x.significand = 0;
    if (x.kind == LOWPREC_NUMBER && x.significand == 0)
        x.negative = 0;
    return x;
}

static inline lowprec_number lowprec_flushed_at(const lowprec_rows *rows, size_t place, size_t count)
{
    const lowprec_number zero = {LOWPREC_NUMBER, 0, 0, 0, 0, 0};

    if (place >= count)
        return zero;
    return lowprec_product(
        lowprec_flushed(lowprec_element(&rows->x, place)), lowprec_flushed(lowprec_element(&rows->y, place)));
}

/* Sums of two or four products in pairs, one after the other added to the addend, in binary32 without
   subnormals. */
static inline uint64_t lowprec_cdna2(
    const lowprec_rows *rows, size_t count, const uint64_t *addend, size_t step, const lowprec_stages *stages)
{
    const lowprec_target *single = stages->sum;
    lowprec_number sum = {LOWPREC_NUMBER, 0, 0, 0, 0, 0}, pairs[2];
    size_t place, i;

    if (addend)
        sum = lowprec_flushed(lowprec_read(lowprec_place(
            lowprec_read(*addend, &stages->addend->source), stages->addend), &stages->addend->source));
    for (place = 0; place < count; place += step) {
        for (i = 0; i < step; i += 2)
            pairs[i / 2] = lowprec_kept(lowprec_added(
                lowprec_kept(lowprec_flushed_at(rows, place + i, count), single),
                lowprec_kept(lowprec_flushed_at(rows, place + i + 1, count), single), 0), single);
        if (step == 4)
            pairs[0] = lowprec_kept(lowprec_added(pairs[0], pairs[1], 0), single);
        sum = lowprec_kept(lowprec_added(sum, pairs[0], 0), single);
    }
    if (sum.kind == LOWPREC_NAN)
        sum.negative = 0;
    return lowprec_place(sum, stages->output);
}

/* A sum of units, in units 2^shift times as large, rounded down. */
static inline int64_t lowprec_down_by(int64_t sum, int shift)
{
    if (shift <= 0)
        return sum * ((int64_t)1 << -shift);
    if (shift > 62)
        shift = 62;
    return sum < 0 ? ~(~sum >> shift) : sum >> shift;
}

/* The sum of each stride-th product of a step, cut 24 bits behind the point of the largest exponent, `largest`;
   whether any is no zero. */
static inline int lowprec_aligned(
    const lowprec_rows *rows, size_t first, size_t end, size_t stride, int *largest, int64_t *sum)
{
    size_t place;
    int any = 0;

    *largest = 0;
    *sum = 0;
    for (place = first; place < end; place += stride) {
        lowprec_number next = lowprec_product_at(rows, place);
        if (next.significand != 0 && (!any || next.place > *largest)) {
            *largest = next.place;
            any = 1;
        }
    }
    for (place = first; place < end; place += stride)
        *sum += lowprec_cut(lowprec_product_at(rows, place), *largest - 24, LOWPREC_TO_ZERO);
    return any;
}

/* Steps of products that are aligned among themselves, in two halves of FP8, and then with the sum so far. */
static inline uint64_t lowprec_cdna3(
    const lowprec_rows *rows, size_t count, const uint64_t *addend, size_t step, int halves,
    const lowprec_stages *stages)
{
    const lowprec_target *single = stages->sum;
    lowprec_number c = {LOWPREC_NUMBER, 0, 0, 0, 0, 0};
    size_t place, i;

    if (addend)
        c = lowprec_read(lowprec_place(
            lowprec_read(*addend, &stages->addend->source), stages->addend), &stages->addend->source);
    for (place = 0; place < count; place += step) {
        size_t end = count - place < step ? count : place + step;
        lowprec_number all = {LOWPREC_NUMBER, 0, 0, 0, 0, 0}, made = all;
        int exponent = 0, other = 0, any, own, last, lead;
        int64_t sum = 0, second = 0;

        for (i = place; i < end; i++) {
            lowprec_number next = lowprec_product_at(rows, i);
            if (next.significand != 0 && next.exponent + lowprec_length(next.significand) - 1 >= LOWPREC_BEYOND)
                next.kind = LOWPREC_INFINITE;
            (void)lowprec_special(&all, next);
        }
        if (lowprec_special(&all, c)) {
            c = all;
            continue;
        }
        any = lowprec_aligned(rows, place, end, halves ? 2 : 1, &exponent, &sum);
        if (halves && place + 1 < end && lowprec_aligned(rows, place + 1, end, 2, &other, &second)) {
            int both = any && exponent > other ? exponent : other;
            sum = lowprec_down_by(sum, any ? both - exponent : 0) + lowprec_down_by(second, both - other);
            exponent = both;
            any = 1;
        }
        own = c.significand != 0 ? c.place : LOWPREC_EMIN;
        last = any && exponent > own ? exponent : own; /* all is in units of 2^(last - 32) */
        sum = any ? lowprec_down_by(sum, last - exponent - 8) : 0;
        if (!halves || own >= last - 25)
            sum += lowprec_cut(c, last - 24, LOWPREC_DOWN) * 256;
        if (sum == 0) {
            c = made;
            continue;
        }
        lead = last - 32 + lowprec_length(sum < 0 ? (uint64_t)-sum : (uint64_t)sum) - 1;
        made.exponent = (lead > LOWPREC_EMIN ? lead : LOWPREC_EMIN) - 31;
        if (made.exponent > last - 32)
            sum = lowprec_down_by(sum, made.exponent - (last - 32));
        else
            made.exponent = last - 32;
        made.negative = sum < 0;
        made.significand = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
        c = lowprec_read(lowprec_place(made, single), &single->source);
    }
    if (c.kind == LOWPREC_NAN)
        c.negative = 0;
    return lowprec_place(c, stages->output);
}

#endif
