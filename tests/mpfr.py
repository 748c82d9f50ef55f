"""MPFR's opinion of functions, through gmpy2: its rounding, its subnormals, its special cases."""

import gmpy2
import ml_dtypes
import numpy as np

import lowprec as lp

#: MPFR's functions by our names.
PEERS = {
    "exp": gmpy2.exp, "exp2": gmpy2.exp2, "exp10": gmpy2.exp10, "expm1": gmpy2.expm1, "log": gmpy2.log,
    "log2": gmpy2.log2, "log10": gmpy2.log10, "log1p": gmpy2.log1p, "sin": gmpy2.sin, "cos": gmpy2.cos,
    "tan": gmpy2.tan, "asin": gmpy2.asin, "acos": gmpy2.acos, "atan": gmpy2.atan, "sinh": gmpy2.sinh,
    "cosh": gmpy2.cosh, "tanh": gmpy2.tanh, "asinh": gmpy2.asinh, "acosh": gmpy2.acosh,
    "atanh": gmpy2.atanh, "rsqrt": gmpy2.rec_sqrt, "cbrt": gmpy2.cbrt, "erf": gmpy2.erf,
    "erfc": gmpy2.erfc,
}  # fmt: skip

ROUNDINGS = {
    "nearest_even": gmpy2.RoundToNearest,
    "toward_zero": gmpy2.RoundToZero,
    "toward_positive": gmpy2.RoundUp,
    "toward_negative": gmpy2.RoundDown,
    "away_from_zero": gmpy2.RoundAwayZero,
}

#: Formats with subnormals as IEEE 754 has them: precision, and MPFR's exponents.
FORMATS = {
    "binary16": (np.float16, 11, 16, -23),
    "bfloat16": (ml_dtypes.bfloat16, 8, 128, -132),
    "e5m2": (ml_dtypes.float8_e5m2, 3, 16, -15),
    "float8_e4m3": (ml_dtypes.float8_e4m3, 4, 8, -8),
}


def differences(name: str, fmt: str, patterns: np.ndarray) -> list[str]:
    """Hold every pattern against MPFR in five modes; say of up to three in each where they differ."""
    dtype, precision, largest, smallest = FORMATS[fmt]
    operands = patterns.view(dtype)
    numbers = lp.decode(patterns, fmt, dtype=np.float64)
    if name == "rsqrt":  # of -0 MPFR has +Inf, as its manual says, and IEEE 754 -Inf
        kept = (numbers != 0) | ~np.signbit(numbers)
        operands, numbers = operands[kept], numbers[kept]
    said = []
    for rounding, mode in ROUNDINGS.items():
        found = getattr(lp, name)(
            operands, fmt, rounding=rounding, dtype=np.float64 if fmt == "e5m2" else None
        )
        with gmpy2.context(precision=precision, emax=largest, emin=smallest, subnormalize=True, round=mode):
            expected = np.array([float(PEERS[name](gmpy2.mpfr(number))) for number in numbers.tolist()])
        found = np.asarray(found, np.float64)
        same = (found == expected) & (np.signbit(found) == np.signbit(expected))
        same |= np.isnan(found) & np.isnan(expected)
        wrong = np.nonzero(~same)[0][:3]
        said += [
            f"{name}({numbers[at].hex()}) into {fmt}, {rounding}: {found[at]!r}, and MPFR: {expected[at]!r}"
            for at in wrong
        ]
    return said
