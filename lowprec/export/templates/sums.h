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
    int flush;        /* 1 where tiny numbers become zeros */
    int tiny, surely; /* no number from 2^tiny on is tiny, and every one below 2^surely */
    lowprec_side sides[2];
    lowprec_source source;
    int emax, downward;
} lowprec_target;

/* How products are summed; see lowprec's Accumulation and Window. */
typedef struct {
    size_t step;
    int fraction_bits; /* -1 where all bits are kept */
    int lowest_exponent, cut, alternate_pairs;
    size_t group;
    int last; /* the exponent of the last bit of products */
    int negative_zero, rounds_products;
    size_t chunk;
    int pairwise, addend_last;
    size_t term;     /* products of which exact sums are terms, or 0 */
    int words, base; /* of exact sums: words of 64 bits, in units of 2^base */
} lowprec_sum;

/* What alignment does with the bits that it cuts. */
enum { LOWPREC_TO_ZERO, LOWPREC_DOWN, LOWPREC_TO_ODD, LOWPREC_TO_NEAREST };

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

/* Whether a number is tiny: below 2^tiny, even if rounded as if exponents had no lower end. */
static inline int lowprec_tiny(lowprec_number x, int lead, const lowprec_side *side, const lowprec_target *to)
{
    uint64_t word = x.significand << (64 - lowprec_length(x.significand));
    uint64_t limit = to->trailing_bits ? side->limit_odd : side->limit_even;
    uint64_t most = (UINT64_MAX - (UINT64_MAX >> 1 >> to->trailing_bits)) + (limit >> 1 >> to->trailing_bits);

    return lead < to->tiny && (lead < to->surely || word <= most);
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
    if (to->flush && lowprec_tiny(x, lead, side, to))
        return side->rounded_zero;
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
    if (lost != 0 && how == LOWPREC_TO_ODD)
        kept |= 1;
    if (lost != 0 && how == LOWPREC_DOWN && x.negative)
        kept++;
    if (how == LOWPREC_TO_NEAREST && shift <= 64)
        kept += x.significand >> (shift - 1) & 1;
    return x.negative ? -(int64_t)kept : (int64_t)kept;
}

/* A row of codes of 1, 2 or 4 bytes, and what they are rounded to first, if anything. */
typedef struct {
    const void *codes;
    int bytes;
    const lowprec_source *source;
    const lowprec_target *rounding;
} lowprec_codes;

/* Rows of operands, and of the scales of their blocks, if there are any. */
typedef struct {
    lowprec_codes x, y, x_scales, y_scales;
    size_t block;
} lowprec_rows;

static inline lowprec_number lowprec_element(const lowprec_codes *row, size_t place)
{
    uint64_t code = row->bytes == 1   ? ((const uint8_t *)row->codes)[place]
                    : row->bytes == 2 ? ((const uint16_t *)row->codes)[place]
                                      : ((const uint32_t *)row->codes)[place];
    lowprec_number made = lowprec_read(code, row->source);

    return row->rounding ? lowprec_read(lowprec_place(made, row->rounding), &row->rounding->source) : made;
}

static inline lowprec_number lowprec_product_at(const lowprec_rows *rows, size_t place)
{
    return lowprec_product(lowprec_element(&rows->x, place), lowprec_element(&rows->y, place));
}

/* The product of the scales of a place; 1 where there are none. */
static inline lowprec_number lowprec_factor_at(const lowprec_rows *rows, size_t place)
{
    lowprec_number one = {LOWPREC_NUMBER, 0, 0, 1, 0, 0};

    if (rows->block == 0)
        return one;
    return lowprec_product(
        lowprec_element(&rows->x_scales, place / rows->block),
        lowprec_element(&rows->y_scales, place / rows->block));
}

/* A sum without rounding: two's complement in words, the lowest first. */
enum { LOWPREC_WORDS = 72 };

typedef struct {
    uint64_t words[LOWPREC_WORDS];
    int count, base;
    lowprec_number special; /* a NaN or an infinity, if there is one */
    size_t terms, negatives;
} lowprec_exact;

static inline void lowprec_begin(lowprec_exact *sum, const lowprec_sum *how)
{
    const lowprec_number zero = {LOWPREC_NUMBER, 0, 0, 0, 0, 0};
    int i;

    for (i = 0; i < how->words; i++)
        sum->words[i] = 0;
    sum->count = how->words;
    sum->base = how->base;
    sum->special = zero;
    sum->terms = sum->negatives = 0;
}

static inline void lowprec_join(lowprec_exact *sum, lowprec_number x)
{
    int place = x.exponent - sum->base, i, first;
    uint64_t parts[2], carry;

    sum->terms++;
    sum->negatives += x.negative != 0;
    if (lowprec_special(&sum->special, x) || x.significand == 0)
        return;
    parts[0] = x.significand << (place & 63);
    parts[1] = place & 63 ? x.significand >> (64 - (place & 63)) : 0;
    first = place >> 6;
    carry = x.negative != 0;
    for (i = first; i < sum->count; i++) { /* a negative number is what follows its complement */
        uint64_t part = i - first < 2 ? parts[i - first] : 0, word = sum->words[i];
        if (x.negative)
            part = ~part;
        sum->words[i] = word + part + carry;
        carry = sum->words[i] < word || (carry && sum->words[i] == word);
    }
}

/* The sum as a number of 64 bits, whose last bit is set where anything below it is lost. */
static inline lowprec_number lowprec_settled(lowprec_exact sum, int downward)
{
    lowprec_number made = {LOWPREC_NUMBER, 0, 0, 0, 0, 0};
    uint64_t carry = 1, lost = 0;
    int i, top = sum.count - 1, up;

    if (sum.special.kind != LOWPREC_NUMBER)
        return sum.special;
    made.negative = (int)(sum.words[top] >> 63);
    for (i = 0; made.negative && i < sum.count; i++) {
        sum.words[i] = ~sum.words[i] + carry;
        carry = carry && sum.words[i] == 0;
    }
    while (top > 0 && sum.words[top] == 0)
        top--;
    if (sum.words[top] == 0) {
        made.negative = sum.negatives != 0 && (sum.negatives == sum.terms || downward);
        return made;
    }
    up = 64 - lowprec_length(sum.words[top]);
    made.significand = sum.words[top] << up;
    made.exponent = sum.base + 64 * top - up;
    if (top > 0) {
        made.significand |= up ? sum.words[top - 1] >> (64 - up) : 0;
        lost = up ? sum.words[top - 1] << up : sum.words[top - 1];
    }
    for (i = 0; i < top - 1; i++)
        lost |= sum.words[i];
    made.significand |= lost != 0;
    return made;
}

static inline void lowprec_join_sum(lowprec_exact *sum, const lowprec_exact *part)
{
    uint64_t carry = 0;
    int i;

    for (i = 0; i < sum->count; i++) {
        uint64_t word = sum->words[i];
        sum->words[i] = word + part->words[i] + carry;
        carry = sum->words[i] < word || (carry && sum->words[i] == word);
    }
}

/* A term: the exact sum of products times the scales of their block. `all` has it without loss, where it is a
   number and no zero. */
static inline lowprec_number lowprec_term_of(
    const lowprec_rows *rows, size_t place, size_t end, const lowprec_sum *how, int downward,
    lowprec_exact *all)
{
    lowprec_number factor = lowprec_factor_at(rows, place), made;
    int each = factor.kind == LOWPREC_NUMBER && factor.significand != 0;

    lowprec_begin(all, how);
    for (; place < end; place++) {
        made = lowprec_product_at(rows, place);
        lowprec_join(all, each ? lowprec_product(made, factor) : made);
    }
    made = lowprec_settled(*all, downward);
    return each ? made : lowprec_product(made, factor);
}

/* The sum so far and a term, rounded once; the term is rounded first where products are. */
static inline lowprec_number lowprec_with_term(
    const lowprec_rows *rows, size_t place, size_t end, lowprec_number sum, const lowprec_sum *how,
    const lowprec_target *product, const lowprec_target *to)
{
    lowprec_exact all;
    lowprec_number made = lowprec_term_of(rows, place, end, how, product->downward, &all);

    if (how->rounds_products) {
        made = lowprec_read(lowprec_place(made, product), &product->source);
        made.yields = 1;
    } else if (made.kind == LOWPREC_NUMBER && made.significand != 0 && sum.kind == LOWPREC_NUMBER) {
        lowprec_join(&all, sum);
        made = lowprec_settled(all, 0);
        if (made.significand == 0)
            made.negative = to->downward;
        return lowprec_read(lowprec_place(made, to), &to->source);
    }
    return lowprec_read(lowprec_place(lowprec_added(made, sum, to->downward), to), &to->source);
}

/* The next term of a sum or a step, from a place on, before an end; whether its exponent counts, and what
   it is. A term is a product; or one times the scales of its block, whose exponents join its own; or the
   exact sum of a group of products, times those scales, with the exponents of these alone. */
static inline lowprec_number lowprec_term(
    const lowprec_rows *rows, size_t place, size_t end, const lowprec_sum *how, int *counts, int *where)
{
    lowprec_number made = {LOWPREC_NUMBER, 0, 0, 0, 0, 0}, next, factor = lowprec_factor_at(rows, place);
    size_t i, stop = end - place < how->group ? end : place + how->group;
    int64_t sum = 0;

    if (how->group == 1) {
        made = lowprec_product_at(rows, place);
        *counts = made.significand != 0 && factor.significand != 0;
        *where = made.place + factor.place;
        return lowprec_product(made, factor);
    }
    *counts = 0;
    for (i = place; i < stop; i++) {
        next = lowprec_product_at(rows, i);
        *counts |= next.significand != 0 && factor.significand != 0;
        if (!lowprec_special(&made, next))
            sum += lowprec_cut(next, how->last, LOWPREC_TO_ZERO);
    }
    *where = factor.place;
    if (made.kind == LOWPREC_NUMBER) {
        made.negative = sum < 0;
        made.significand = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
        made.exponent = how->last;
    }
    return lowprec_product(made, factor);
}

/* The place of a term of a step. */
static inline size_t lowprec_place_of(const lowprec_sum *how, size_t first, int half, size_t i)
{
    return how->alternate_pairs ? first + (i >> 1) * 4 + 2 * (size_t)half + (i & 1) : first + i;
}

/* The sum of a step, rounded; what lies beyond the largest exponent is infinite. */
static inline lowprec_number lowprec_stepped(
    lowprec_number made, const lowprec_sum *how, const lowprec_target *to)
{
    if (made.significand != 0 && made.exponent + lowprec_length(made.significand) - 1 > to->emax)
        made.kind = LOWPREC_INFINITE;
    made = lowprec_read(lowprec_place(made, to), &to->source);
    if (made.kind == LOWPREC_NUMBER && made.significand == 0 && !how->negative_zero)
        made.negative = 0;
    return made;
}

/* A step of hardware: all terms and the sum so far are cut at the place that the largest exponent gives. */
static inline lowprec_number lowprec_step(
    const lowprec_rows *rows, size_t first, int half, size_t end, lowprec_number sum,
    const lowprec_sum *how, const lowprec_target *to)
{
    lowprec_number all = sum, made = {LOWPREC_NUMBER, 0, 0, 0, 0, 0};
    int top = how->lowest_exponent, counts = 0, where = 0;
    lowprec_exact kept;
    int64_t total;
    size_t i, place;

    if (how->fraction_bits < 0)
        lowprec_begin(&kept, how);
    if (sum.kind == LOWPREC_NUMBER && sum.significand != 0 && sum.place > top)
        top = sum.place;
    for (i = 0; i < how->step && (place = lowprec_place_of(how, first, half, i)) < end; i += how->group) {
        lowprec_number next = lowprec_term(rows, place, end, how, &counts, &where);
        (void)lowprec_special(&all, next);
        if (how->fraction_bits < 0)
            lowprec_join(&kept, next);
        if (counts && where > top)
            top = where;
    }
    if (all.kind != LOWPREC_NUMBER) {
        if (all.kind == LOWPREC_NAN)
            all.negative = 0;
        return lowprec_read(lowprec_place(all, to), &to->source);
    }
    if (how->fraction_bits < 0) {
        lowprec_join(&kept, sum);
        made = lowprec_settled(kept, 0);
        made.negative = made.significand != 0 && made.negative;
        return lowprec_stepped(made, how, to);
    }
    total = lowprec_cut(sum, top - how->fraction_bits, how->cut);
    for (i = 0; i < how->step && (place = lowprec_place_of(how, first, half, i)) < end; i += how->group)
        total += lowprec_cut(
            lowprec_term(rows, place, end, how, &counts, &where), top - how->fraction_bits, how->cut);
    made.negative = total < 0;
    made.significand = total < 0 ? (uint64_t)-total : (uint64_t)total;
    made.exponent = top - how->fraction_bits;
    return lowprec_stepped(made, how, to);
}

/* Products from one place to another, without what comes after their sum. */
static inline lowprec_number lowprec_sums(
    const lowprec_rows *rows, size_t first, size_t end, lowprec_number sum, int begins,
    const lowprec_sum *how, const lowprec_target *product, const lowprec_target *to)
{
    lowprec_number waiting[65];
    size_t place, terms = 0, left;
    int counts, where, depth = 0, half;

    if (how->step != 0) {
        for (place = first; place < end; place += how->step * (how->alternate_pairs ? 2 : 1))
            for (half = 0; half <= how->alternate_pairs; half++)
                if (lowprec_place_of(how, place, half, 0) < end)
                    sum = lowprec_step(rows, place, half, end, sum, how, to);
        return sum;
    }
    for (place = first; how->term != 0 && !how->pairwise && place < end; place += how->term)
        sum = lowprec_with_term(
            rows, place, end - place < how->term ? end : place + how->term, sum, how, product, to);
    if (how->term != 0 && !how->pairwise)
        return sum;
    if (how->pairwise && begins) {
        waiting[depth++] = sum;
        terms = 1;
    }
    for (place = first; place < end; place++) {
        lowprec_number next = lowprec_term(rows, place, end, how, &counts, &where);
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

/* What a dot product is rounded to on its way: products, sums, the addend, sums of chunks, and the result. */
typedef struct {
    const lowprec_target *product, *sum, *addend, *begin, *output;
} lowprec_stages;

/* The exact sum of all products, times the scales of their blocks, and the addend, rounded once. */
static inline uint64_t lowprec_dot_exactly(
    const lowprec_rows *rows, size_t count, const uint64_t *addend, const lowprec_sum *how,
    const lowprec_target *output)
{
    size_t place, block = rows->block ? rows->block : 1;
    lowprec_exact sum;

    lowprec_begin(&sum, how);
    for (place = 0; place < count; place += block) {
        lowprec_exact part;
        lowprec_number made = lowprec_term_of(
            rows, place, count - place < block ? count : place + block, how, output->downward, &part);
        lowprec_number sign = {LOWPREC_NUMBER, made.negative, 0, 0, 0, 0};
        if (made.kind == LOWPREC_NUMBER && made.significand != 0) {
            lowprec_join(&sum, sign); /* counts */
            lowprec_join_sum(&sum, &part);
        } else
            lowprec_join(&sum, made);
    }
    if (addend)
        lowprec_join(&sum, lowprec_read(*addend, &output->source));
    return lowprec_place(lowprec_settled(sum, output->downward), output);
}

/* The code of a dot product in the output. */
static inline uint64_t lowprec_dot(
    const lowprec_rows *rows, size_t count, const uint64_t *addend, const lowprec_sum *how,
    const lowprec_stages *stages)
{
    const lowprec_number zero = {LOWPREC_NUMBER, 0, 0, 0, 0, 0};
    const lowprec_target *to = stages->sum, *begin = stages->begin;
    lowprec_number start = zero, sum, part;
    size_t place, chunk = how->chunk * (how->term ? how->term : 1);

    if (addend) {
        start = lowprec_read(*addend, &stages->addend->source);
        start = lowprec_read(lowprec_place(start, stages->addend), &stages->addend->source);
    }
    sum = how->addend_last ? zero : start;
    if (how->chunk == 0)
        sum = lowprec_sums(rows, 0, count, sum, addend && !how->addend_last, how, stages->product, to);
    else
        for (place = 0; place < count; place += chunk) {
            size_t end = count - place < chunk ? count : place + chunk;
            part = lowprec_sums(rows, place, end, zero, 0, how, stages->product, to);
            sum = lowprec_read(lowprec_place(lowprec_added(sum, part, begin->downward), begin), &begin->source);
        }
    if (how->addend_last) {
        sum = lowprec_added(sum, start, begin->downward);
        if (how->step == 0 || how->chunk != 0)
            sum = lowprec_read(lowprec_place(sum, begin), &begin->source);
    }
    return lowprec_place(sum, stages->output);
}

#endif
