"""The P3109 draft's definitions, written down as they stand, on fractions: nothing of lowprec is imported.

Closed extended reals are Fractions, `INF`, `NINF` and `NAN`; what is irrational is a pair of fractions that
it lies between, by MPFR, and both must project alike. Functions are named as the draft's auxiliary operations.
"""

from __future__ import annotations

import functools
import math
import re
from fractions import Fraction
from typing import NamedTuple

import gmpy2

INF, NINF, NAN = "+inf", "-inf", "nan"
ROUNDINGS = (
    "NearestTiesToEven",
    "NearestTiesToAway",
    "TowardPositive",
    "TowardNegative",
    "TowardZero",
    "ToOdd",
)
SATURATIONS = ("SatFinite", "SatPropagate", "SatNone")
EXTERNAL = {"binary32": (32, 24), "binary16": (16, 11), "BFloat16": (16, 8)}

#: Bits of irrational numbers, and of what is sure of them.
_BITS, _SURE = 900, 850
_TINY, _HUGE = Fraction(1, 1 << 1400), Fraction(1 << 1400)


class Between(NamedTuple):
    """An irrational number, or one that is as good: it is neither bound."""

    low: Fraction
    high: Fraction


class F(NamedTuple):
    """A format: K, P, whether signed, whether extended, whether external."""

    K: int
    P: int
    signed: bool
    extended: bool
    external: bool = False

    @property
    def B(self):
        """The exponent bias."""
        if self.external:
            return (1 << (self.K - self.P - 1)) - 1
        return 1 << (self.K - self.P - self.signed)


@functools.cache
def named(name):
    """Return the format of a name."""
    if name in EXTERNAL:
        return F(*EXTERNAL[name], True, True, True)
    k, p, sign, domain = re.fullmatch(r"[Bb]inary(\d+)p(\d+)([su])([ef])", name).groups()
    return F(int(k), int(p), sign == "s", domain == "e")


def two(exponent):
    return Fraction(2) ** exponent


# -- 4.7.2, 4.8.1 ------------------------------------------------------------------------------------------


@functools.cache
def decode(f, x):
    K, P, B = f.K, f.P, f.B
    if f.external:
        sign, x = x >> (K - 1), x % (1 << (K - 1))
        top = (1 << (K - P)) - 1
        biased, T = x >> (P - 1), x % (1 << (P - 1))
        if biased == top:
            return NAN if T else NINF if sign else INF
        X = T * two(2 - P - B) if biased == 0 else (1 + T * two(1 - P)) * two(biased - B)
        return -X if sign else X
    if f.signed:
        if x == 1 << (K - 1):
            return NAN
        if f.extended and x == (1 << (K - 1)) - 1:
            return INF
        if f.extended and x == (1 << K) - 1:
            return NINF
        if x > 1 << (K - 1):
            return -decode(f, x - (1 << (K - 1)))
    else:
        if x == (1 << K) - 1:
            return NAN
        if f.extended and x == (1 << K) - 2:
            return INF
    T, biased = x % (1 << (P - 1)), x // (1 << (P - 1))
    if biased == 0:
        return T * two(1 - P) * two(1 - B)
    return (1 + T * two(1 - P)) * two(biased - B)


@functools.cache
def largest(f):
    """Return Mhi."""
    if f.external:
        return (2 - two(1 - f.P)) * two(f.B)
    last = (1 << (f.K - f.signed)) - 1 - (not f.signed) - f.extended
    return decode(f, last)


# -- 4.7.3 to 4.7.6 ----------------------------------------------------------------------------------------


def floor_log2(X):
    e = X.numerator.bit_length() - X.denominator.bit_length()
    return e if two(e) <= X else e - 1


def rnite(X):
    low = math.floor(X)
    half = low + Fraction(1, 2)
    return low if X < half or (X == half and low % 2 == 0) else low + 1


def round_to_precision(P, B, mode, X, R):
    if X in (INF, NINF, NAN) or X == 0:
        return X
    Q = max(floor_log2(abs(X)), 1 - B) - P + 1
    S = abs(X) * two(-Q)
    low = math.floor(S)
    nu = S - low
    even = low % 2 == 0 if P > 1 else low == 0 or (Q + B) % 2 == 0
    half = Fraction(1, 2)
    if mode.startswith("Stochastic"):
        kind, N = mode[10], int(mode[12:-1])
        if kind == "A":
            away = math.floor(nu * 2**N) + R >= 2**N
        elif kind == "B":
            away = math.floor(nu * 2 ** (N + 1)) + (2 * R + 1) >= 2 ** (N + 1)
        else:
            away = rnite(nu * 2**N) + R >= 2**N
    else:
        away = {
            "TowardZero": False,
            "TowardPositive": nu > 0 and X > 0,
            "TowardNegative": nu > 0 and X < 0,
            "NearestTiesToAway": nu >= half,
            "NearestTiesToEven": nu > half or (nu == half and not even),
            "ToOdd": nu > 0 and even,
        }[mode]
    Z = (low + away) * two(Q)
    return -Z if X < 0 else Z


def saturate(lo, hi, sat, mode, X, signed, extended):
    if X == NAN:
        return NAN
    if X not in (INF, NINF) and lo <= X <= hi:
        return X
    below = X == NINF or (X != INF and X < lo)
    if sat == "SatFinite":
        return lo if below else hi
    if sat == "SatPropagate":
        if X == INF:
            return INF if extended else hi
        if X == NINF:
            return NINF if signed and extended else lo
        return lo if below else hi
    if X == INF:
        return INF if extended else hi
    if X == NINF:
        return (NINF if extended else lo) if signed else NAN
    if mode == "ToOdd" and not below and not signed and extended:
        return hi
    if mode in ("TowardZero", "TowardNegative") and not below:
        return hi
    if mode in ("TowardZero", "TowardPositive") and below:
        return lo
    if below:
        return (NINF if extended else lo) if signed else NAN
    return INF if extended else hi


def encode(f, X):
    K, P, B = f.K, f.P, f.B
    if f.external:
        top = ((1 << (K - P)) - 1) << (P - 1)
        if X == NAN:
            return top | 1 << (P - 2)
        if X in (INF, NINF):
            return top | (X == NINF) << (K - 1)
    elif X == NAN:
        return 1 << (K - 1) if f.signed else (1 << K) - 1
    elif X == INF:
        return (1 << (K - 1)) - 1 if f.signed else (1 << K) - 2
    elif X == NINF:
        return (1 << K) - 1
    if X < 0:
        return encode(f, -X) + (1 << (K - 1))
    if X == 0:
        return 0
    E = max(floor_log2(X), 1 - B)
    S = X * two(-E) * two(P - 1)
    assert S.denominator == 1
    T = int(S) % (1 << (P - 1))
    return T if S < 1 << (P - 1) else T + (E + B) * (1 << (P - 1))


@functools.lru_cache(1 << 20)
def _project(f, mode, sat, X, R):
    if X == NAN:
        return encode(f, NAN)
    hi = largest(f)
    lo = -hi if f.signed else Fraction(0)
    rounded = round_to_precision(f.P, f.B, mode, X, R)
    return encode(f, saturate(lo, hi, sat, mode, rounded, f.signed, f.extended))


def project(f, rho, X, R=None):
    """Return the code of a closed extended real."""
    if isinstance(X, Between):
        low, high = (_project(f, *rho, bound, R) for bound in X)
        assert low == high, (f, rho, X)
        return low
    return _project(f, *rho, X, R)


# -- 4.9, 4.10: arithmetic ---------------------------------------------------------------------------------


def is_inf(X):
    return X in (INF, NINF)


def sign(X):
    if isinstance(X, Between):
        return 1 if X.low >= 0 else -1
    return 1 if X == INF else -1 if X == NINF else (X > 0) - (X < 0)


def negate(X):
    if isinstance(X, Between):
        return Between(-X.high, -X.low)
    return {NAN: NAN, INF: NINF, NINF: INF}.get(X, None) if isinstance(X, str) else -X


def absolute(X):
    return negate(X) if X != NAN and sign(X) < 0 else X


def copysign(X, Y):
    if NAN in (X, Y):
        return NAN
    return absolute(X) if sign(Y) >= 0 else negate(absolute(X))


def add(X, Y):
    if NAN in (X, Y) or (is_inf(X) and is_inf(Y) and X != Y):
        return NAN
    if is_inf(X):
        return X
    return Y if is_inf(Y) else X + Y


def subtract(X, Y):
    return add(X, negate(Y))


def multiply(X, Y):
    if NAN in (X, Y):
        return NAN
    if is_inf(X) or is_inf(Y):
        s = sign(X) * sign(Y)
        return NAN if s == 0 else INF if s > 0 else NINF
    return X * Y


def divide(X, Y):
    if NAN in (X, Y) or (is_inf(X) and is_inf(Y)) or Y == 0:
        return NAN
    if is_inf(X):
        return INF if sign(X) * sign(Y) > 0 else NINF
    return Fraction(0) if is_inf(Y) else X / Y


def fma(X, Y, Z):
    return add(multiply(X, Y), Z)


def faa(X, Y, Z):
    return add(add(X, Y), Z)


def recip(X):
    return NAN if X == NAN or X == 0 else Fraction(0) if is_inf(X) else 1 / X


# -- 4.10.8 on: functions ----------------------------------------------------------------------------------


def near(value):
    """Return what an irrational number that MPFR rounded lies between."""
    X = Fraction(*map(int, value.as_integer_ratio()))
    assert X != 0
    slack = abs(X) / (1 << _SURE)
    return Between(X - slack, X + slack)


def above(X):
    """Return a number just above a fraction, nearer than any boundary."""
    return Between(X + _TINY / 2, X + _TINY)


def wide(function):
    """Evaluate with many bits, and exponents without limits worth the name."""

    @functools.wraps(function)
    def evaluated(*operands):
        with gmpy2.context(precision=_BITS, emax=1 << 40, emin=-(1 << 40)):
            return function(*operands)

    return functools.lru_cache(1 << 18)(evaluated)


def mp(X):
    return gmpy2.mpfr(gmpy2.mpq(X))


def root(X):
    """Return the rational root of a fraction, or None."""
    parts = math.isqrt(X.numerator), math.isqrt(X.denominator)
    return Fraction(*parts) if (parts[0] ** 2, parts[1] ** 2) == (X.numerator, X.denominator) else None


@wide
def sqrt(X):
    if X in (NAN, NINF):
        return NAN
    if X == INF:
        return INF
    if X < 0:
        return NAN
    return near(gmpy2.sqrt(mp(X))) if root(X) is None else root(X)


@wide
def rsqrt(X):
    if X in (NAN, NINF):
        return NAN
    if X == INF:
        return Fraction(0)
    if X <= 0:
        return NAN
    return near(gmpy2.rec_sqrt(mp(X))) if root(X) is None else 1 / root(X)


@wide
def hypot(X, Y):
    if NAN in (X, Y):
        return NAN
    if is_inf(X) or is_inf(Y):
        return INF
    square = X * X + Y * Y
    return near(gmpy2.sqrt(mp(square))) if root(square) is None else root(square)


def power(base, X):
    """Return base**X for a positive integer base or e (0), where X is not zero."""
    if X > 1 << 12:
        return Between(_HUGE, 2 * _HUGE)
    if X < -(1 << 12):
        return Between(_TINY / 2, _TINY)
    return near(gmpy2.exp(mp(X)) if base == 0 else gmpy2.exp2(mp(X)))


@wide
def exp(X):
    if X == NAN:
        return NAN
    if is_inf(X):
        return INF if X == INF else Fraction(0)
    return Fraction(1) if X == 0 else power(0, X)


@wide
def exp2(X):
    if X == NAN:
        return NAN
    if is_inf(X):
        return INF if X == INF else Fraction(0)
    return two(int(X)) if X.denominator == 1 and abs(X) < 1 << 12 else power(2, X)


@wide
def expminusone(X):
    if X in (NAN, INF) or X == 0:
        return X
    if X == NINF:
        return Fraction(-1)
    if X < -500:
        return above(Fraction(-1))
    return Between(_HUGE, 2 * _HUGE) if X > 1 << 12 else near(gmpy2.expm1(mp(X)))


def logarithm(function, X):
    if X in (NAN, NINF):
        return NAN
    if X == INF:
        return INF
    if X < 0:
        return NAN
    if X == 0:
        return NINF
    return Fraction(0) if X == 1 else near(function(mp(X)))


@wide
def log(X):
    return logarithm(gmpy2.log, X)


@wide
def log2(X):
    if not isinstance(X, str) and X > 0 and two(floor_log2(X)) == X:
        return Fraction(floor_log2(X))
    return logarithm(gmpy2.log2, X)


@wide
def logoneplus(X):
    if isinstance(X, str) or X <= -1:
        return logarithm(None, add(Fraction(1), X))
    return X if X == 0 else near(gmpy2.log1p(mp(X)))


@wide
def softplus(X):
    if X == NAN:
        return NAN
    if is_inf(X):
        return INF if X == INF else Fraction(0)
    if X > 500:
        return above(X)
    return Between(_TINY / 2, _TINY) if X < -(1 << 12) else near(gmpy2.log1p(gmpy2.exp(mp(X))))


def of_finite(function, at_zero=0):
    @wide
    def evaluated(X):
        if isinstance(X, str):
            return NAN
        return Fraction(at_zero) if X == 0 else near(function(mp(X)))

    return evaluated


sin, cos, tan = of_finite(gmpy2.sin), of_finite(gmpy2.cos, 1), of_finite(gmpy2.tan)


@wide
def arcsin(X):
    if isinstance(X, str) or abs(X) > 1:
        return NAN
    return X if X == 0 else near(gmpy2.asin(mp(X)))


@wide
def arccos(X):
    if isinstance(X, str) or abs(X) > 1:
        return NAN
    return Fraction(0) if X == 1 else near(gmpy2.acos(mp(X)))


@wide
def arctan(X):
    if X == NAN or X == 0:
        return X
    if is_inf(X):
        return near(gmpy2.const_pi() / 2 * sign(X))
    return near(gmpy2.atan(mp(X)))


@wide
def hyperbolic_sine(X):
    if isinstance(X, str) or X == 0:
        return X
    if abs(X) > 1 << 12:
        return Between(_HUGE, 2 * _HUGE) if X > 0 else Between(-2 * _HUGE, -_HUGE)
    return near(gmpy2.sinh(mp(X)))


@wide
def hyperbolic_cosine(X):
    if isinstance(X, str):
        return NAN if X == NAN else INF
    if abs(X) > 1 << 12:
        return Between(_HUGE, 2 * _HUGE)
    if X == 0:
        return Fraction(1)
    return near(gmpy2.cosh(mp(X)))


@wide
def tanh(X):
    if X == NAN or X == 0:
        return X
    if is_inf(X):
        return Fraction(sign(X))
    if abs(X) > 250:
        below = Between(1 - _TINY, 1 - _TINY / 2)
        return below if X > 0 else negate(below)
    return near(gmpy2.tanh(mp(X)))


@wide
def arcsinh(X):
    return X if isinstance(X, str) or X == 0 else near(gmpy2.asinh(mp(X)))


@wide
def arccosh(X):
    if X in (NAN, NINF):
        return NAN
    if X == INF:
        return INF
    if X < 1:
        return NAN
    return Fraction(0) if X == 1 else near(gmpy2.acosh(mp(X)))


@wide
def arctanh(X):
    if isinstance(X, str) or abs(X) > 1:
        return NAN
    if abs(X) == 1:
        return INF if X == 1 else NINF
    return X if X == 0 else near(gmpy2.atanh(mp(X)))


def turned(X):
    """Return a number of half turns between -1 and 1, from which the sine and cosine are the same."""
    return (X + 1) % 2 - 1


@wide
def sinpi(X):
    if isinstance(X, str):
        return NAN
    X = turned(X)
    if X.denominator <= 2:
        return Fraction(0) if X.denominator == 1 else 2 * X
    return near(gmpy2.sin(mp(X) * gmpy2.const_pi()))


@wide
def cospi(X):
    if isinstance(X, str):
        return NAN
    X = turned(X)
    if X.denominator <= 2:
        return Fraction(0) if X.denominator == 2 else Fraction(1 if X == 0 else -1)
    return near(gmpy2.cos(mp(X) * gmpy2.const_pi()))


@wide
def tanpi(X):
    if isinstance(X, str):
        return NAN
    X = turned(X)
    if X.denominator == 2:
        return NAN
    if X.denominator == 1:
        return Fraction(0)
    if X.denominator == 4:
        return Fraction(1 if X in (Fraction(1, 4), Fraction(-3, 4)) else -1)
    return near(gmpy2.tan(mp(X) * gmpy2.const_pi()))


@wide
def arcsinpi(X):
    if isinstance(X, str) or abs(X) > 1:
        return NAN
    return X / 2 if X in (-1, 0, 1) else near(gmpy2.asin(mp(X)) / gmpy2.const_pi())


@wide
def arccospi(X):
    if isinstance(X, str) or abs(X) > 1:
        return NAN
    return (1 - X) / 2 if X in (-1, 0, 1) else near(gmpy2.acos(mp(X)) / gmpy2.const_pi())


@wide
def arctanpi(X):
    if X == NAN:
        return NAN
    if is_inf(X):
        return Fraction(sign(X), 2)
    return X / 4 if X in (-1, 0, 1) else near(gmpy2.atan(mp(X)) / gmpy2.const_pi())


def _angle(Y, X):
    """Return the angle over pi as a fraction where the draft has a pattern for it, else None."""
    if NAN in (X, Y) or (X == 0 and Y == 0) or (is_inf(X) and is_inf(Y)):
        return NAN
    if X == INF or (Y == 0 and sign(X) > 0):
        return Fraction(0)
    if Y == INF or (X == 0 and sign(Y) > 0):
        return Fraction(1, 2)
    if X == NINF or (Y == 0 and sign(X) < 0):
        return Fraction(1)
    if Y == NINF or X == 0:
        return Fraction(-1, 2)
    return None


@wide
def arctan2(Y, X):
    part = _angle(Y, X)
    if part is not None:
        return part if part == NAN or part == 0 else near(mp(part) * gmpy2.const_pi())
    base = gmpy2.atan(mp(Y / X))
    return near(base if X > 0 else base + gmpy2.const_pi() * sign(Y))


@wide
def arctan2pi(Y, X):
    part = _angle(Y, X)
    if part is not None:
        return part
    if abs(X) == abs(Y):
        return (Fraction(1, 4) if X > 0 else Fraction(3, 4)) * sign(Y)
    base = gmpy2.atan(mp(Y / X)) / gmpy2.const_pi()
    return near(base if X > 0 else base + sign(Y))


# -- 4.11 --------------------------------------------------------------------------------------------------


def less(X, Y):
    """ωCompareLess."""
    if NAN in (X, Y) or X == INF:
        return False
    if Y == INF:
        return True
    if X == NINF:
        return Y != NINF
    return False if Y == NINF else X < Y


def minimum(X, Y):
    if NAN in (X, Y):
        return NAN
    return X if less(X, Y) else Y


def maximum(X, Y):
    if NAN in (X, Y):
        return NAN
    return Y if less(X, Y) else X


def number(choose):
    def chosen(X, Y):
        return X if Y == NAN else Y if X == NAN else choose(X, Y)

    return chosen


def minimum_magnitude(X, Y):
    if NAN in (X, Y):
        return NAN
    if is_inf(X) and is_inf(Y):
        return INF if (X, Y) == (INF, INF) else NINF
    if is_inf(X):
        return Y
    if is_inf(Y):
        return X
    return minimum(X, Y) if abs(X) == abs(Y) else X if abs(X) < abs(Y) else Y


def maximum_magnitude(X, Y):
    if NAN in (X, Y):
        return NAN
    if INF in (X, Y):
        return INF
    if NINF in (X, Y):
        return NINF
    return maximum(X, Y) if abs(X) == abs(Y) else X if abs(X) > abs(Y) else Y


def finite(choose):
    def chosen(X, Y):
        if NAN in (X, Y):
            return Y if X == NAN else X
        if is_inf(X) and is_inf(Y):
            return choose(X, Y)
        if is_inf(X):
            return Y
        return X if is_inf(Y) else choose(X, Y)

    return chosen


def clamp(X, lo, hi):
    if NAN in (X, lo, hi) or less(hi, lo):
        return NAN
    if (lo, hi) == (INF, INF):
        return INF
    if (lo, hi) == (NINF, NINF):
        return NINF
    if hi == NINF or lo == INF:
        return NAN
    if less(X, lo):
        return lo
    return hi if less(hi, X) else X


OMEGA = {
    "Convert": lambda X: X,
    "Abs": absolute,
    "Negate": negate,
    "CopySign": copysign,
    "Add": add,
    "Subtract": subtract,
    "Multiply": multiply,
    "Divide": divide,
    "FMA": fma,
    "FAA": faa,
    "Sqrt": sqrt,
    "Recip": recip,
    "RSqrt": rsqrt,
    "Exp": exp,
    "Exp2": exp2,
    "Log": log,
    "Log2": log2,
    "LogOnePlus": logoneplus,
    "ExpMinusOne": expminusone,
    "Sin": sin,
    "Cos": cos,
    "Tan": tan,
    "ArcSin": arcsin,
    "ArcCos": arccos,
    "ArcTan": arctan,
    "Sinh": hyperbolic_sine,
    "Cosh": hyperbolic_cosine,
    "Tanh": tanh,
    "ArcSinh": arcsinh,
    "ArcCosh": arccosh,
    "ArcTanh": arctanh,
    "SinPi": sinpi,
    "CosPi": cospi,
    "TanPi": tanpi,
    "ArcSinPi": arcsinpi,
    "ArcCosPi": arccospi,
    "ArcTanPi": arctanpi,
    "Softplus": softplus,
    "Hypot": hypot,
    "ArcTan2": arctan2,
    "ArcTan2Pi": arctan2pi,
    "Minimum": minimum,
    "Maximum": maximum,
    "MinimumNumber": number(minimum),
    "MaximumNumber": number(maximum),
    "MinimumMagnitude": minimum_magnitude,
    "MaximumMagnitude": maximum_magnitude,
    "MinimumMagnitudeNumber": number(minimum_magnitude),
    "MaximumMagnitudeNumber": number(maximum_magnitude),
    "MinimumFinite": finite(minimum),
    "MaximumFinite": finite(maximum),
    "Clamp": clamp,
}


# -- 4.12, 4.13, 4.16 --------------------------------------------------------------------------------------

COMPARE = {
    "CompareLess": less,
    "CompareLessEqual": lambda X, Y: NAN not in (X, Y) and not less(Y, X),
    "CompareEqual": lambda X, Y: NAN not in (X, Y) and X == Y,
    "CompareGreater": lambda X, Y: less(Y, X),
    "CompareGreaterEqual": lambda X, Y: NAN not in (X, Y) and not less(X, Y),
    "TotalOrder": lambda X, Y: X == NAN or (Y != NAN and not less(Y, X)),
}


def is_normal(f, X):
    return not isinstance(X, str) and X != 0 and abs(X) >= two(1 - f.B)


def is_subnormal(f, X):
    return not isinstance(X, str) and X != 0 and not is_normal(f, X)


SAYS = {
    "IsZero": lambda f, X: X == 0,
    "IsOne": lambda f, X: X == 1,
    "IsNaN": lambda f, X: X == NAN,
    "IsInfinite": lambda f, X: is_inf(X),
    "IsFinite": lambda f, X: not isinstance(X, str),
    "IsSignMinus": lambda f, X: X != NAN and sign(X) < 0,
    "IsNormal": is_normal,
    "IsSubnormal": is_subnormal,
}


def class_of(f, X):
    """Return the name of a value's class."""
    if X == NAN:
        return "ClsNaN"
    if X == 0:
        return "ClsZero"
    what = "Infinity" if is_inf(X) else "Normal" if is_normal(f, X) else "Subnormal"
    return f"Cls{'Negative' if sign(X) < 0 else 'Positive'}{what}"


def next_value(f, x, down):
    """Return the code of the next value up or down, by going through all values in order."""
    X = decode(f, x)
    values = sorted({decode(f, each) for each in range(1 << f.K)} - {NAN}, key=functools.cmp_to_key(_order))
    if X == NAN:
        return encode(f, NAN)
    place = values.index(X) + (-1 if down else 1)
    return encode(f, values[place]) if 0 <= place < len(values) else encode(f, NAN)


def _order(X, Y):
    return -1 if less(X, Y) else int(less(Y, X))


# -- 5 -----------------------------------------------------------------------------------------------------


def block_decode(fs, fx, s, x):
    return [multiply(decode(fs, s), decode(fx, each)) for each in x]


def block_project(fs, fr, rho, s, numbers, random):
    S, made = decode(fs, s), []
    for X, R in zip(numbers, random, strict=True):
        if NAN in (S, X):
            Z = NAN
        elif S == 0:
            Z = Fraction(0)
        elif is_inf(S):
            Z = Fraction(sign(X) * sign(S))
        elif isinstance(X, Between):
            Z = Between(*sorted((X.low / S, X.high / S)))
        else:
            Z = divide(X, S)
        made.append(project(fr, rho, Z, R))
    return made


def reduced(function, numbers):
    return functools.reduce(function, numbers)
