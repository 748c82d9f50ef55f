"""Operations of the P3109 draft on closed extended reals, 4.9 and 4.10: nothing of lowprec is imported.

Closed extended reals are Fractions, `INF`, `NINF` and `NAN`; what is irrational is a pair of fractions that
it lies between, by MPFR, and both must project alike.
"""

import functools
import math
from fractions import Fraction
from typing import NamedTuple

import gmpy2

INF, NINF, NAN = "+inf", "-inf", "nan"
#: Bits of irrational numbers, and of what is sure of them.
_BITS, _SURE = 900, 850
_TINY, _HUGE = Fraction(1, 1 << 1400), Fraction(1 << 1400)


class Between(NamedTuple):
    """An irrational number, or one that is as good: it is neither bound."""

    low: Fraction
    high: Fraction


def two(exponent):
    return Fraction(2) ** exponent


def floor_log2(X):
    e = X.numerator.bit_length() - X.denominator.bit_length()
    return e if two(e) <= X else e - 1


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


def extended(inf, ninf):
    """Evaluate a function of finite numbers; of NaN it is NaN, and of infinities as given."""
    of_names = {NAN: NAN, INF: inf, NINF: ninf}

    def of(function):
        @wide
        @functools.wraps(function)
        def evaluated(X):
            return of_names[X] if isinstance(X, str) else function(X)

        return evaluated

    return of


def mp(X):
    return gmpy2.mpfr(gmpy2.mpq(X))


def root(X):
    """Return the rational root of a fraction, or None."""
    parts = math.isqrt(X.numerator), math.isqrt(X.denominator)
    return Fraction(*parts) if (parts[0] ** 2, parts[1] ** 2) == (X.numerator, X.denominator) else None


@extended(INF, NAN)
def sqrt(X):
    if X < 0:
        return NAN
    return near(gmpy2.sqrt(mp(X))) if root(X) is None else root(X)


@extended(Fraction(0), NAN)
def rsqrt(X):
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


@extended(INF, Fraction(0))
def exp(X):
    return Fraction(1) if X == 0 else power(0, X)


@extended(INF, Fraction(0))
def exp2(X):
    return two(int(X)) if X.denominator == 1 and abs(X) < 1 << 12 else power(2, X)


@extended(INF, Fraction(-1))
def expminusone(X):
    if X == 0:
        return X
    if X < -500:
        return above(Fraction(-1))
    return Between(_HUGE, 2 * _HUGE) if X > 1 << 12 else near(gmpy2.expm1(mp(X)))


def logarithm(function, X, of):
    """Return the logarithm of a fraction as a function of MPFR's gives it of another number."""
    if X <= 0:
        return NINF if X == 0 else NAN
    return Fraction(0) if X == 1 else near(function(mp(of)))


@extended(INF, NAN)
def log(X):
    return logarithm(gmpy2.log, X, X)


@extended(INF, NAN)
def log2(X):
    if X > 0 and two(floor_log2(X)) == X:
        return Fraction(floor_log2(X))
    return logarithm(gmpy2.log2, X, X)


@extended(INF, NAN)
def logoneplus(X):
    return logarithm(gmpy2.log1p, 1 + X, X)


@extended(INF, Fraction(0))
def softplus(X):
    if X > 500:
        return above(X)
    return Between(_TINY / 2, _TINY) if X < -(1 << 12) else near(gmpy2.log1p(gmpy2.exp(mp(X))))


def of_finite(function, at_zero=0):
    return extended(NAN, NAN)(lambda X: Fraction(at_zero) if X == 0 else near(function(mp(X))))


def within_one(function):
    """Evaluate a function of numbers from -1 to 1."""
    return extended(NAN, NAN)(lambda X: NAN if abs(X) > 1 else function(X))


sin, cos, tan = of_finite(gmpy2.sin), of_finite(gmpy2.cos, 1), of_finite(gmpy2.tan)
arcsin = within_one(lambda X: X if X == 0 else near(gmpy2.asin(mp(X))))
arccos = within_one(lambda X: Fraction(0) if X == 1 else near(gmpy2.acos(mp(X))))


@wide
def arctan(X):
    if X == NAN or X == 0:
        return X
    return near(gmpy2.const_pi() / 2 * sign(X) if is_inf(X) else gmpy2.atan(mp(X)))


@extended(INF, NINF)
def sinh(X):
    if abs(X) > 1 << 12:
        return Between(_HUGE, 2 * _HUGE) if X > 0 else Between(-2 * _HUGE, -_HUGE)
    return X if X == 0 else near(gmpy2.sinh(mp(X)))


@extended(INF, INF)
def cosh(X):
    if abs(X) > 1 << 12:
        return Between(_HUGE, 2 * _HUGE)
    return Fraction(1) if X == 0 else near(gmpy2.cosh(mp(X)))


@extended(Fraction(1), Fraction(-1))
def tanh(X):
    if abs(X) > 250:
        below = Between(1 - _TINY, 1 - _TINY / 2)
        return below if X > 0 else negate(below)
    return X if X == 0 else near(gmpy2.tanh(mp(X)))


@extended(INF, NINF)
def arcsinh(X):
    return X if X == 0 else near(gmpy2.asinh(mp(X)))


@extended(INF, NAN)
def arccosh(X):
    if X < 1:
        return NAN
    return Fraction(0) if X == 1 else near(gmpy2.acosh(mp(X)))


@within_one
def arctanh(X):
    if abs(X) == 1:
        return INF if X == 1 else NINF
    return X if X == 0 else near(gmpy2.atanh(mp(X)))


def turned(X):
    """Return a number of half turns between -1 and 1, from which the sine and cosine are the same."""
    return (X + 1) % 2 - 1


@extended(NAN, NAN)
def sinpi(X):
    X = turned(X)
    if X.denominator <= 2:
        return Fraction(0) if X.denominator == 1 else 2 * X
    return near(gmpy2.sin(mp(X) * gmpy2.const_pi()))


@extended(NAN, NAN)
def cospi(X):
    X = turned(X)
    if X.denominator <= 2:
        return Fraction(0) if X.denominator == 2 else Fraction(1 if X == 0 else -1)
    return near(gmpy2.cos(mp(X) * gmpy2.const_pi()))


@extended(NAN, NAN)
def tanpi(X):
    X = turned(X)
    if X.denominator == 2:
        return NAN
    if X.denominator == 1:
        return Fraction(0)
    if X.denominator == 4:
        return Fraction(1 if X in (Fraction(1, 4), Fraction(-3, 4)) else -1)
    return near(gmpy2.tan(mp(X) * gmpy2.const_pi()))


@within_one
def arcsinpi(X):
    return X / 2 if X in (-1, 0, 1) else near(gmpy2.asin(mp(X)) / gmpy2.const_pi())


@within_one
def arccospi(X):
    return (1 - X) / 2 if X in (-1, 0, 1) else near(gmpy2.acos(mp(X)) / gmpy2.const_pi())


@extended(Fraction(1, 2), Fraction(-1, 2))
def arctanpi(X):
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
