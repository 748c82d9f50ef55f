/* $provenance

   $said */

#ifndef $guard
#define $guard

/* Scales of rows of x or of y, codes of $numbers: one for all, or for so many rows, or for each block along
   K of them. */
typedef struct {
    const $number *codes; /* NULL where there are none */
    size_t rows;   /* that share one; 0 where all do */
    size_t blocks; /* along K, each with one of its own; 0 or 1 where all of K shares it */
} ${name}_scales;

/* Numbers that join the result of row i of x and row j of y: codes[i * row + j * column], of $numbers. */
typedef struct {
    const $number *codes; /* NULL where there are none */
    size_t row, column;
} ${name}_numbers;

/* `block` is how many elements along K share a scale, where there are blocks. */
typedef struct {
    ${name}_scales x, y;
    size_t block;
    ${name}_numbers addend, bias, output_scale;
} ${name}_joins;

typedef struct {
    uint64_t code;
    int is_sum; /* 1 until a step has rounded it */
} ${name}_value;

static inline ${name}_value ${name}_multiply(${name}_value v, $number factor)
{
    ${name}_value made = {0, 0};

    made.code = $multiply;
    return made;
}

static inline ${name}_value ${name}_add(${name}_value v, $number addend)
{
    ${name}_value made = {0, 0};

    made.code = $add;
    return made;
}

static inline ${name}_value ${name}_fma(${name}_value v, $number factor, $number addend)
{
    ${name}_value made = {0, 0};

    made.code = $fma;
    return made;
}

/* A number that joins, rounded to nearest; NULL where there is none. */
static inline const $number *${name}_joining(const ${name}_numbers *from, size_t i, size_t j, $number *into)
{
    if (!from->codes)
        return NULL;
    *into = $given(from->codes[i * from->row + j * from->column], NULL);
    return into;
}

/* Whether each block along K has a scale of its own. */
static inline int ${name}_blocked(const ${name}_scales *from)
{
    return from->codes && from->blocks > 1;
}

static inline const $number *${name}_scale(const ${name}_scales *from, size_t row, size_t part, $number *into)
{
    size_t place = from->rows ? row / from->rows : 0;

    if (!from->codes)
        return NULL;
    *into = $given(from->codes[${name}_blocked(from) ? place * from->blocks + part : place], NULL);
    return into;
}

/* A sum with its scales, and what is added to it. */
static inline ${name}_value ${name}_scaled(
    ${name}_value v, const $number *x, const $number *y, const $number *addend, int fused)
{
$first
}

/* The result of row i of x and row j of y, which begin at x and y; `joins` may be NULL. */
static inline $code ${name}_dot(
    const $x *x, const $y *y, ${parameters}size_t count, const ${name}_joins *joins, size_t i, size_t j)
{
    static const ${name}_joins nothing = {
        {NULL, 0, 0}, {NULL, 0, 0}, 0, {NULL, 0, 0}, {NULL, 0, 0}, {NULL, 0, 0}};
    $number of_x, of_y, added, bias;
    const $number *addend, *biased;
    ${name}_value v;
    size_t start = 0, part = 0, step;
    int fused;

    joins = joins ? joins : &nothing;
    step = $step;
    addend = ${name}_joining(&joins->addend, i, j, &added);
    biased = ${name}_joining(&joins->bias, i, j, &bias);
    fused = $fused && biased;
    if (fused)
        addend = biased;
    do { /* the sum of each block along K joins those before */
        v.code = $sums(x + start, y + start, ${passed}count - start < step ? count - start : step, NULL);
        v.is_sum = 1;
        v = ${name}_scaled(
            v, count ? ${name}_scale(&joins->x, i, part, &of_x) : NULL,
            count ? ${name}_scale(&joins->y, j, part, &of_y) : NULL, addend, fused && part == 0);
        added = ($number)v.code;
        addend = &added;
        start += step;
        part++;
    } while (start < count);
    if (biased && !fused)
        v = ${name}_add(v, *biased);
    biased = ${name}_joining(&joins->output_scale, i, j, &bias);
    if (biased)
        v = ${name}_multiply(v, *biased);
    return $output;
}

/* out[i][j], of row i of x, shape (m, count), and row j of y, shape (n, count); `joins` may be NULL. */
static inline void ${name}_matmul(
    const $x *x, const $y *y, ${parameters}size_t m, size_t n, size_t count, const ${name}_joins *joins,
    $code *out)
{
    size_t i, j;

    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++)
            out[i * n + j] = ${name}_dot(x + i * count, y + j * count, ${moved}count, joins, i, j);
}

#endif
