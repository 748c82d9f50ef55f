"""The mutants: a name, a file, what is replaced by what, and which checks of the kit are run on it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MUTANTS", "Mutant"]


class Mutant(NamedTuple):
    """One deliberate mistake. `tried` are checks of the driver, in order; `compiled` needs the compiler."""

    name: str
    file: str
    what: str
    old: str
    new: str
    tried: tuple[str, ...]
    compiled: bool = False


_FORMATS = tuple(f"arrays:{name}" for name in ("e2m1fn", "ieee", "fnuz", "unsigned", "int4", "powers"))
_ORACLE = tuple(f"oracle:{name}" for name in ("e2m1fn", "ieee", "fnuz", "unsigned", "ieee_unsigned", "int4", "powers"))
_BLOCKS = tuple(f"arrays_blocks:{rule}" for rule in ("floor", "rceil", "even", "nearest", "ceil", "divide"))
_ORACLE_BLOCKS = tuple(f"oracle_blocks:{rule}" for rule in ("floor", "rceil", "even", "nearest", "ceil", "divide"))
_ARITH = tuple(f"arith:{name} ieee" for name in ("add", "multiply", "divide", "sqrt", "fma", "subtract"))
_WIDE_ARITH = tuple(f"arith:{name} binary16" for name in ("add", "fma", "divide", "sqrt"))
_ORACLE_ARITH = tuple(f"oracle_arith:{name} ieee" for name in ("add", "multiply", "divide", "sqrt", "fma", "subtract"))
_STREAM = ("arrays:e4m3fn", "arrays:e8m0fnu", "arrays:e5m2", "arrays:binary16")

F, P, R = "spec/format.py", "kernels/params.py", "spec/rounding.py"
C, N = "kernels/convert.py", "kernels/numbers.py"
O, OR, OA, OB = "oracle/convert.py", "oracle/rounding.py", "oracle/arith.py", "oracle/block.py"
B, BP, S, SP = "kernels/block.py", "kernels/block_params.py", "kernels/stream.py", "kernels/stream_params.py"

MUTANTS = (
    # -- what is meant -------------------------------------------------------------------------------
    Mutant("largest-one-less", F, "one finite magnitude fewer", "- 1 - self.nans - self.infinity", "- 2 - self.nans - self.infinity", _FORMATS),
    Mutant("bias-off-by-one", F, "exponents one too large", "(1 << t), field - self.bias - t)", "(1 << t), field - self.bias - t + 1)", _FORMATS),
    Mutant("subnormal-exponent", F, "subnormals half as large", "return (magnitude, 1 - self.bias - t)", "return (magnitude, -self.bias - t)", _FORMATS),
    Mutant("quiet-bit", F, "the NaN of IEEE formats is a signaling one", "return self.max_magnitude + 1 + (1 << (self.trailing_bits - 1))", "return self.max_magnitude + 2", _FORMATS),
    Mutant("infinity-is-last-nan", F, "the code of infinity one too high", "return self.max_magnitude + 1 if self.infinity else None", "return self.max_magnitude + 2 if self.infinity else None", _FORMATS),
    Mutant("emin", F, "the smallest normal exponent one too low", "return (1 if self.subnormals else 0) - self.bias\n", "return (1 if self.subnormals else 0) - self.bias - 1\n", _FORMATS),
    Mutant("ieee-bias", "spec/families.py", "IEEE's bias one too large", "return (1 << exponent_bits >> 1) - 1", "return 1 << exponent_bits >> 1", ("arrays:e4m3fn",)),
    Mutant("fnuz-bias", "spec/families.py", "the bias of fnuz is IEEE's", "bias=_half_range(exponent_bits) + 1 if bias", "bias=_half_range(exponent_bits) if bias", ("arrays:e4m3fnuz",)),
    Mutant("even-rounds-up", R, "ties of even codes go up", '"nearest_even",              _ABOVE, _HALF', '"nearest_even",              _HALF, _HALF', _FORMATS),
    Mutant("parity-swapped", R, "ties go to the odd code", '"nearest_even",              _ABOVE, _HALF,  _ABOVE, _HALF)', '"nearest_even",              _HALF, _ABOVE,  _HALF, _ABOVE)', _FORMATS),
    Mutant("odd-is-even", R, "to_odd takes the even code", '"to_odd",                          _ANY,   _NEVER, _ANY,   _NEVER)', '"to_odd",                          _NEVER, _ANY,   _NEVER, _ANY)', _FORMATS),
    Mutant("sign-of-directed", R, "toward_positive rounds negative numbers down", '"toward_positive",        _ANY,   _ANY,   _NEVER, _NEVER)', '"toward_positive",        _ANY,   _ANY,   _ANY, _ANY)', _FORMATS),
    # -- the general kernel --------------------------------------------------------------------------
    Mutant("half-is-up", P, "a tie counts as above half", "Threshold.ABOVE_HALF: 1 << 63,", "Threshold.ABOVE_HALF: (1 << 63) - 1,", _FORMATS),
    Mutant("half-limit", P, "a tie counts as below half", "Threshold.HALF_OR_ABOVE: (1 << 63) - 1,", "Threshold.HALF_OR_ABOVE: 1 << 63,", _FORMATS),
    Mutant("decode-bias", P, "codes are read with a bias one less", "exponent=-fmt.bias - t,", "exponent=1 - fmt.bias - t,", _FORMATS),
    Mutant("nan-sign-lost", P, "negative NaNs become positive", "return [fmt.nan_code, fmt.nan_code | fmt.sign_code if fmt.has_signed_nan else fmt.nan_code]", "return [fmt.nan_code, fmt.nan_code]", _FORMATS),
    Mutant("negative-infinity", P, "-Inf becomes +Inf", "codes = [fmt.infinity_code, fmt.infinity_code | fmt.sign_code]", "codes = [fmt.infinity_code, fmt.infinity_code]", _FORMATS),
    Mutant("negative-zero", P, "-0 becomes +0", "return [0, fmt.sign_code if fmt.has_negative_zero else 0]", "return [0, 0]", _FORMATS),
    Mutant("lowest-complement", P, "the most negative integer is never used", "one_more = fmt.sign is Sign.TWOS_COMPLEMENT and not projection.symmetric\n    return", "one_more = False\n    return", _FORMATS),
    Mutant("threshold-at-or-above", C, "the farther code from the limit on, not above it", "farther = tail > ((side", "farther = tail >= ((side", _FORMATS),
    Mutant("wrong-parity", C, "parity is that of the next code", "odd = magnitude & _1\n", "odd = (magnitude + _1) & _1\n", _FORMATS),
    Mutant("sticky-lost", C, "bits shifted out past 64 are forgotten", "    if tail << below != significand or low != _0:\n        tail |= _1\n", "", _FORMATS),
    Mutant("carry-lost", C, "rounding up never happens", "    magnitude += _U(farther)\n    if over:", "    if over:", _FORMATS),
    Mutant("clamp-lost", C, "numbers far past the largest wrap into other codes", "if beyond:\n            magnitude, tail = side.max_magnitude, _ONES", "if False:\n            magnitude, tail = side.max_magnitude, _ONES", _FORMATS),
    Mutant("binade-of-subnormals", C, "subnormals are rounded as if they were normal", "binade = max(lead, grid.emin)", "binade = max(lead, grid.emin - _I(1))", _FORMATS),
    Mutant("underflow-flag", C, "tiny results are not flagged", "flags |= _U(flags != _0) * _UNDERFLOW", "flags |= _0", _FORMATS),
    Mutant("overflow-flag", C, "overflow does not signal inexact", "flags |= _OVERFLOW | _INEXACT", "flags = _OVERFLOW", _FORMATS),
    Mutant("not-flushed", C, "flush_results flushes nothing", "            if grid.flush != _0:\n                return", "            if False:\n                return", _FORMATS),
    Mutant("random-off-by-one", C, "stochastic A takes one random integer more", "return share + random >= whole\n", "return share + random + _1 >= whole\n", _FORMATS),
    Mutant("stochastic-c-ties", C, "stochastic C rounds half up", "(rest == _HALF and share & _1 != _0)", "rest == _HALF", _FORMATS),
    Mutant("stochastic-b", C, "stochastic B without its half", "_U(2) * random + _1 >= _U(2) * whole", "_U(2) * random >= _U(2) * whole", _FORMATS),
    Mutant("nan-inside", C, "reading takes the largest finite code for infinity's neighbour", "if magnitude > source.max_magnitude:\n        if", "if magnitude >= source.max_magnitude:\n        if", _FORMATS),
    Mutant("not-a-zero", C, "the NaN in the place of -0 is read as 0", "if magnitude == _0 and source.not_a_zero != _0:", "if False:", _FORMATS),
    # -- arithmetic ----------------------------------------------------------------------------------
    Mutant("sum-sticky", N, "a sum forgets what lies far below", "return _0, _0, _1\n", "return _0, _0, _0\n", ("arrays:bfloat16", "arith:add bfloat16", "arith:fma bfloat16"), ),
    Mutant("sum-of-opposites", N, "x - x is -0", "return Number(_FINITE, downward, _0, _0, _I(0))\n    up", "return Number(_FINITE, not downward, _0, _0, _I(0))\n    up", _ARITH),
    Mutant("product-sign", N, "products have the sign of the first factor", "negative = x.negative != y.negative\n    if x.high == _0 or", "negative = x.negative\n    if x.high == _0 or", _ARITH),
    Mutant("quotient-rest", N, "a quotient forgets its remainder", "low, _ = digits(rest, y.high)", "low = _0", _ARITH),
    Mutant("root-exponent", N, "square roots of odd exponents are off", "down = _U(x.exponent & _I(1))", "down = _U(0)", _ARITH),
    Mutant("root-sticky", N, "a root forgets its remainder", "low = root << _U(56) | _U(rest_high != _0 or rest != _0)", "low = root << _U(56)", ("arith:sqrt binary16", "arith:sqrt ieee")),
    Mutant("negate", "kernels/arith.py", "subtraction adds", "return added(x, Number(y.kind, not y.negative, y.high", "return added(x, Number(y.kind, y.negative, y.high", _ARITH),
    Mutant("fma-rounds-between", "kernels/arith.py", "fma drops the low word of its product", "return added(Number(made.kind, made.negative, made.high, made.low, made.exponent), z", "return added(Number(made.kind, made.negative, made.high & _U(0xFC00000000000000), _U(0), made.exponent), z", _ARITH[4:]),
    # -- dot products --------------------------------------------------------------------------------
    Mutant("dot-carry", "kernels/exact_sum.py", "an exact sum loses its carries", "words[i] = word - _1 if x.negative else word + _1", "words[i] = word", ("arrays:ieee", "arrays:e5m2")),
    Mutant("dot-negative", "kernels/exact_sum.py", "a negative exact sum is off by one", "        carry = _1\n        for i in range(words.size):\n            word = ~", "        carry = _0\n        for i in range(words.size):\n            word = ~", ("arrays:e2m1fn", "arrays:ieee")),
    # -- blocks --------------------------------------------------------------------------------------
    Mutant("block-scale-up", B, "the next power of two from the limit on", "if rule.of_amax != _0 else wanted) > rule.up_above)", "if rule.of_amax != _0 else wanted) >= rule.up_above)", _BLOCKS),
    Mutant("block-nearest", B, "nearest takes the upper power a little later", "exponent - tensor.lift + _I(amax >= tensor.limit)", "exponent - tensor.lift + _I(amax > tensor.limit)", ("arrays_blocks:nearest(3/2)",)),
    Mutant("block-even", BP, "even rounds one bit earlier", "(1 << (63 - element.precision)) - 1", "(1 << (64 - element.precision)) - 1", _BLOCKS),
    Mutant("block-divisor", BP, "floor divides by the largest value", "return largest if rule.divisor == \"maximum\" else Fraction(2) ** floor_log2(largest)", "return largest", _BLOCKS),
    Mutant("block-zero", B, "a block of zeros has a scale of 1", "if amax == _0 and rule.zero == _U(SMALLEST):\n        return _0", "if amax == _0 and rule.zero == _U(SMALLEST):\n        return _U(127)", _BLOCKS),
    Mutant("block-amax", B, "the largest is the last that is not zero", "if above(significand, exponent, amax, place):\n                    amax", "if significand != _0:\n                    amax", _BLOCKS),
    # -- the oracle ----------------------------------------------------------------------------------
    Mutant("oracle-tie", OR, "ties go up where they must not", "return twice >= whole if threshold is Threshold.HALF_OR_ABOVE else twice > whole", "return twice >= whole", _ORACLE),
    Mutant("oracle-parity", O, "parity is that of the farther code", "odd = nearer % 2 == 1\n    return nearer", "odd = nearer % 2 == 0\n    return nearer", _ORACLE),
    Mutant("oracle-random", OR, "stochastic A takes one random integer more", "return int(tail * levels) + random >= levels", "return int(tail * levels) + random > levels", _ORACLE),
    Mutant("oracle-clamp", O, "overflow is not saturated under propagate", "if projection.saturation is Saturation.NONE:\n            return _beyond", "if projection.saturation is not Saturation.FINITE:\n            return _beyond", _ORACLE),
    Mutant("oracle-tiny", O, "underflow judged on the operand's own gap", "below = normal - normal / (2 * first_normal)", "below = normal", _ORACLE),
    Mutant("oracle-nan", O, "NaNs lose their sign", "negative = negative and projection.nan_sign == \"keep\"", "negative = False", _ORACLE),
    Mutant("oracle-fnuz", O, "the NaN in the place of -0 is -0", "if negative and magnitude == 0 and not fmt.negative_zero:\n        return Special.NAN", "if False:\n        return Special.NAN", _ORACLE),
    Mutant("oracle-root", OA, "inexact square roots are cut short", "return Result(scale(Fraction(2 * root + 1), -_PLACES - 1))", "return Result(Fraction(math.isqrt(int(_number(x) * 256)), 16))", _ORACLE_ARITH),
    Mutant("oracle-zero-sum", OA, "x - x is -0", "return Result(_signed(total, rounding.downward))", "return Result(_signed(total, True))", _ORACLE_ARITH),
    Mutant("oracle-divide", OA, "division multiplies", "return Result(_signed(_number(x) / _number(y), negative))", "return Result(_signed(_number(x) * _number(y), negative))", _ORACLE_ARITH),
    Mutant("oracle-ceil", OB, "up takes the next power even of a power", "return below if wanted == below else 2 * below", "return 2 * below", _ORACLE_BLOCKS),
    Mutant("oracle-amax", OB, "the largest ignores negative numbers", "return max((abs(value) for value", "return max((value for value", _ORACLE_BLOCKS),
    Mutant("oracle-order", "oracle/order.py", "-0 comes after +0", "int(not is_negative(value))", "int(is_negative(value))", _ORACLE),
    Mutant("oracle-exact-dot", "oracle/dot.py", "the exact sum leaves out its last product", "total([*terms, *given], _mode", "total([*terms[:-1], *given], _mode", _ORACLE),
    # -- arrays --------------------------------------------------------------------------------------
    Mutant("order-signs", "arrays/order.py", "negative codes are ordered as magnitudes", "return np.where(negative, -place, place)", "return place", _FORMATS),
    Mutant("class-subnormal", "arrays/order.py", "the smallest normal counts as subnormal", "kind[magnitude < first_normal]", "kind[magnitude <= first_normal]", _FORMATS),
    Mutant("neighbour", "arrays/order.py", "the next value is two codes up", "upper = np.where(low_place > place, low, low + 1)", "upper = np.where(low_place > place, low, low + 2)", _FORMATS),
    # -- the fast kernels: these are compiled --------------------------------------------------------
    Mutant("stream-parity", S, "ties go to the odd code", "normal = (a + f.half + ((a >> f.shift) & 1)) >> f.shift", "normal = (a + f.half + (1 - ((a >> f.shift) & 1))) >> f.shift", _STREAM, True),
    Mutant("stream-limit", S, "the farther code from the limit on", "up = one_where(less(limit, tail))", "up = one_where(less(limit, tail + 1))", _STREAM, True),
    Mutant("stream-no-zero", S, "formats without zero are one code off", "magnitude = greater(magnitude, f.hidden) - f.hidden", "magnitude = greater(magnitude, f.hidden)", ("arrays:e8m0fnu",), True),
    Mutant("stream-over", S, "overflow one code too high", "magnitude = lesser(magnitude, f.over)\n", "magnitude = lesser(magnitude, f.over + 1)\n", _STREAM, True),
    Mutant("stream-infinity", SP, "NaNs from one bit pattern later on", '"special": (2 * bias + 1 - 2 * deeper) << fraction,', '"special": ((2 * bias + 1 - 2 * deeper) << fraction) + 1,', _STREAM, True),
    Mutant("stream-half", SP, "half is a unit too small", '"half": (1 << (shift - 1)) - 1 -', '"half": (1 << (shift - 1)) - 2 -', _STREAM, True),
    Mutant("short-odd", "kernels/arith_stream.py", "results are not rounded to odd on the way", "return (total - (inexact & ((total ^ error) >> 31))) | inexact", "return total", ("arith:add bfloat16", "arith:add binary16", "arith:divide e5m2"), True),
    Mutant("short-zero", "kernels/arith_stream.py", "-0 of downward sums is lost", "word = choose(equal(word, 0), signs & _SIGN, word)", "word = word", ("arith:add e4m3fn", "arith:subtract e4m3fn"), True),
    Mutant("short-quotient", "kernels/arith_stream.py", "the side of a quotient is mistaken", "return to_odd(quotient, rest ^ (y & _SIGN))", "return to_odd(quotient, rest)", ("arith:divide e4m3fn", "arith:divide binary16"), True),
)
