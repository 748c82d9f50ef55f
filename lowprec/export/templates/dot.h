/* $provenance

   $said */

#ifndef $guard
#define $guard

$tables

/* The dot product of two rows of codes$scales_said. `addend` is a code of $begin_name, or NULL. */
static inline $code ${name}_dot(
    const $x *x, const $y *y, ${parameters}size_t count, const $begin *addend)
{
    lowprec_rows rows = {$rows, $scales, $block};
    uint64_t added = addend ? *addend : 0, *given = addend ? &added : NULL;

    return ($code)$call;
}

/* out[i][j], of row i of x, shape (m, count), and row j of y, shape (n, count); addends have its shape. */
static inline void ${name}_matmul(
    const $x *x, const $y *y, ${parameters}size_t m, size_t n, size_t count,
    const $begin *addend, $code *out)
{
    size_t i, j;

    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++)
            out[i * n + j] = ${name}_dot(
                x + i * count, y + j * count, ${moved}count, addend ? addend + i * n + j : NULL);
}

#endif
