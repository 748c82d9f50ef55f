    $number factor = x && y ? $alpha(*x, *y, NULL) : x ? *x : y ? *y : $one;

    (void)fused;
    return ${name}_fma(v, factor, addend ? *addend : $zero);
