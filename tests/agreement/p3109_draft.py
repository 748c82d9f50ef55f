"""The P3109 draft's definitions, written down as they stand, on fractions: nothing of lowprec is imported.

Decoding and projection, extrema, comparisons and blocks; arithmetic and functions are in `p3109_reals`.
"""

import functools
import math
import re
from fractions import Fraction
from typing import NamedTuple

from tests.agreement import p3109_reals as reals
from tests.agreement.p3109_reals import (
    INF,
    NAN,
    NINF,
    Between,
    divide,
    floor_log2,
    is_inf,
    multiply,
    sign,
    two,
)

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


#: Operations that have their names in `p3109_reals`, in small letters.
OF_REALS = (
    "Negate CopySign Add Subtract Multiply Divide FMA FAA Sqrt Recip RSqrt Exp Exp2 Log Log2 LogOnePlus "
    "ExpMinusOne Sin Cos Tan ArcSin ArcCos ArcTan Sinh Cosh Tanh ArcSinh ArcCosh ArcTanh SinPi CosPi TanPi "
    "ArcSinPi ArcCosPi ArcTanPi Softplus Hypot ArcTan2 ArcTan2Pi"
)

OMEGA = {name: getattr(reals, name.lower()) for name in OF_REALS.split()} | {
    "Convert": lambda X: X,
    "Abs": reals.absolute,
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


@functools.cache
def in_order(f):
    """Return all values but NaN."""
    return sorted({decode(f, each) for each in range(1 << f.K)} - {NAN}, key=functools.cmp_to_key(_order))


def next_value(f, x, down):
    """Return the code of the next value up or down, by going through all values in order."""
    X, values = decode(f, x), in_order(f)
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
