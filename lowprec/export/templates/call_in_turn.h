    const $number one = $one, *first = $before, *last = $after;

    if (!last) {
        last = first;
        first = NULL;
    }
    if (first)
        v = ${name}_multiply(v, *first);
    if (fused)
        return ${name}_fma(v, last ? *last : one, *addend);
    if (last)
        v = ${name}_multiply(v, *last);
    return addend ? ${name}_add(v, *addend) : v;
