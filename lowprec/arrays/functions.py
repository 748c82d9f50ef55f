"""Functions of values, correctly rounded: exp, log, sin and their kin, into any format.

Floor 3. `kernels.functions` encloses their values.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from lowprec.arrays import lazy
from lowprec.arrays.checks import broadcast_shape, projection as projection_of, values_operand
from lowprec.arrays.kinds import check_beside, check_labels, like
from lowprec.arrays.operations import Like, Options, operate, result_type, wanted_type
from lowprec.arrays.outputs import outputs
from lowprec.arrays.progress import Progress, reporting
from lowprec.arrays.random import integers_for, with_integers
from lowprec.arrays.result_signatures import FunctionOfCoordinates, FunctionOfOne, FunctionOfTwo
from lowprec.spec import catalog
from lowprec.spec.functions import FUNCTIONS

__all__ = [*FUNCTIONS]

#: Elements that a call with `progress=` goes through at a time.
_PART = 1 << 12


_DOCSTRING = """Return {what}, rounded once.

    Special cases: {special}; NaN for NaN.

    >>> {name}({example}, "e4m3fn")
    array([{shown}], dtype=float32)

    The value is enclosed by balls of real numbers, whose precision is raised until the rounding is decided.
    {cost}

    Parameters
    ----------
    {operands} : array_like of float or integer, {shapes}
        Integers of at most 53 bits.
    fmt : Format, str or dtype
        Of the result.
    progress : callable or bool, optional
        Called with (done, total) elements; True for a bar on stderr.
    options
        As of `add`: rounding, saturation, projection, profile, random, rng, dtype, flags, out, backend.

    Returns
    -------
    values : array of float, shape (...)
        As from `decode`, or codes, as of `add`.

    Raises
    ------
    ValueError
        A result that the format has no code for; an integer of more than 53 bits.
    ImportError
        python-flint is not installed: pip install 'lowprec[functions]'.

    Source
    ------
    [IEEE754] 9.2; [ARB].
    """

_COST = {
    1: "16,384 operands of at most 16 bits or more are looked up: a table takes about a second to make.\n"
    "    Of wider ones, such as float32, each distinct number takes some 10 microseconds.",
    2: "16,384 pairs of operands of 8 bits each or more are looked up. Of wider ones, each distinct pair\n"
    "    takes some 10 to 50 microseconds.",
}


def _documented(name: str, verb: Any) -> Any:
    rule = FUNCTIONS[name]
    single = rule.operands == 1
    verb.__name__ = verb.__qualname__ = name
    verb.__doc__ = _DOCSTRING.format(
        name=name,
        what=rule.what,
        special=rule.special,
        example=", ".join(f"[{each}]" for each in rule.example.split(", ")),
        shown=rule.shown,
        cost=_COST[rule.operands],
        operands="x" if single else "y, x" if name.startswith("atan2") else "x, y",
        shapes="shape (...)" if single else "shapes that broadcast to (...)",
    )
    return verb


def _of_one(name: str) -> FunctionOfOne:
    def verb(x: npt.ArrayLike, fmt: Like, *, progress: Progress = None, **options: Unpack[Options]) -> Any:
        return _called(name, (x,), fmt, progress, options)

    made: FunctionOfOne = _documented(name, verb)
    return made


def _of_two(name: str) -> FunctionOfTwo:
    def verb(
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        fmt: Like,
        *,
        progress: Progress = None,
        **options: Unpack[Options],
    ) -> Any:
        return _called(name, (x, y), fmt, progress, options)

    made: FunctionOfTwo = _documented(name, verb)
    return made


def _of_coordinates(name: str) -> FunctionOfCoordinates:
    def verb(
        y: npt.ArrayLike,
        x: npt.ArrayLike,
        fmt: Like,
        *,
        progress: Progress = None,
        **options: Unpack[Options],
    ) -> Any:
        return _called(name, (y, x), fmt, progress, options)

    made: FunctionOfCoordinates = _documented(name, verb)
    return made


def _called(
    name: str, values: tuple[npt.ArrayLike, ...], fmt: Like, progress: Progress, options: Options
) -> Any:
    """Return the results, in parts if somebody watches: a refusal is then worded for the whole."""
    if progress is None or progress is False:
        return operate(name, values, fmt, **options)
    if any(map(lazy.is_lazy, (*values, options.get("random")))):
        raise TypeError(f"progress= of {name} is for arrays in memory, not for lazy ones; leave it out")
    check_labels(*values, random=options.get("random"))
    check_beside(values, None, options.get("out"))
    try:
        return like(_in_parts(name, values, fmt, progress, options), *values, out=options.get("out"))
    except ValueError:
        options = {**options}
        options.pop("out", None)
        options.pop("flags", None)
        operate(name, values, fmt, **options)
        raise


def _in_parts(
    name: str, values: tuple[npt.ArrayLike, ...], fmt: Like, progress: Progress, options: Options
) -> Any:
    """Return the results, a part after the other; `out` and `flags` are written at the end."""
    given = [values_operand(each).array for each in values]
    arrays = [np.broadcast_to(each, broadcast_shape(name, *given)) for each in given]
    shape, size = arrays[0].shape, arrays[0].size
    flat = [array.reshape(-1) for array in arrays]
    rest: dict[str, Any] = dict(options)
    out, signals, random, rng = (rest.pop(key, None) for key in ("out", "flags", "random", "rng"))
    asked = [rest.pop(key, None) for key in ("rounding", "saturation", "projection", "profile")]
    target = catalog.format(fmt)
    rest["dtype"] = wanted_type(rest.get("dtype"), out)
    kind, _ = result_type(target, rest["dtype"])
    outputs(out, signals, kind, shape, f"values of {target.name!r}")
    how = projection_of(target, *asked)
    drawn = integers_for(how.rounding, target, shape, random, rng).reshape(-1)
    rest["projection"] = with_integers(how)
    flags, results = np.empty(size, np.uint8), []
    with reporting(progress, size, name) as step:
        for start in range(0, max(size, 1), _PART):
            part = slice(start, start + _PART)
            rest["random"] = drawn[part] if how.rounding.bits else None
            made = operate(name, tuple(each[part] for each in flat), target, flags=flags[part], **rest)
            results.append(made)
            if step:
                step(made.size)
    found = np.concatenate(results).reshape(shape)
    if signals is not None:
        signals[...] = flags.reshape(shape)
    if out is None:
        return found if shape else found[()]
    out[...] = found
    return out


exp, exp2, exp10 = _of_one("exp"), _of_one("exp2"), _of_one("exp10")
expm1, exp2m1, exp10m1 = _of_one("expm1"), _of_one("exp2m1"), _of_one("exp10m1")
log, log2, log10 = _of_one("log"), _of_one("log2"), _of_one("log10")
log1p, log2p1, log10p1 = _of_one("log1p"), _of_one("log2p1"), _of_one("log10p1")
sin, cos, tan = _of_one("sin"), _of_one("cos"), _of_one("tan")
sinpi, cospi, tanpi = _of_one("sinpi"), _of_one("cospi"), _of_one("tanpi")
asin, acos, atan = _of_one("asin"), _of_one("acos"), _of_one("atan")
asinpi, acospi, atanpi = _of_one("asinpi"), _of_one("acospi"), _of_one("atanpi")
sinh, cosh, tanh = _of_one("sinh"), _of_one("cosh"), _of_one("tanh")
asinh, acosh, atanh = _of_one("asinh"), _of_one("acosh"), _of_one("atanh")
rsqrt, reciprocal, cbrt = _of_one("rsqrt"), _of_one("reciprocal"), _of_one("cbrt")
sigmoid, erf, erfc = _of_one("sigmoid"), _of_one("erf"), _of_one("erfc")
gelu, gelu_tanh, silu, softplus = _of_one("gelu"), _of_one("gelu_tanh"), _of_one("silu"), _of_one("softplus")
hypot, pow = _of_two("hypot"), _of_two("pow")
atan2, atan2pi = _of_coordinates("atan2"), _of_coordinates("atan2pi")
