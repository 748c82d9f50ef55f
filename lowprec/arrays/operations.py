"""Operations on values: arguments into a request.

Floor 3. `calls` answers them.
"""

from __future__ import annotations

import functools
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from lowprec.arrays import calls
from lowprec.arrays.checks import (
    Array,
    Operand,
    asked_type,
    code_dtype,
    float_dtype,
    projection as projection_of,
    refuse_codes,
    values_operand,
)
from lowprec.arrays.kinds import apply, is_outside
from lowprec.arrays.lazy import is_lazy
from lowprec.arrays.outputs import refuse_other_order
from lowprec.kernels.engine import Backend, check_backend
from lowprec.kernels.modes import usual_modes
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import Rounding

__all__ = ["Like", "Options", "codes_of", "operate", "result_type", "wanted_type"]

Like = Format | str | npt.DTypeLike


class Options(TypedDict, total=False):
    """Keywords of operations; see `add`."""

    rounding: Rounding | str | None
    saturation: Saturation | str | None
    projection: Projection | None
    profile: Profile | str | None
    random: npt.ArrayLike | None
    rng: int | np.random.Generator | None
    dtype: npt.DTypeLike | None
    flags: Array | None
    out: Array | None
    backend: Backend | None


def operate(
    operation: str,
    values: tuple[npt.ArrayLike, ...],
    fmt: Like,
    *,
    rounding: Rounding | str | None = None,
    saturation: Saturation | str | None = None,
    projection: Projection | None = None,
    profile: Profile | str | None = None,
    random: npt.ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
    dtype: npt.DTypeLike | None = None,
    flags: Array | None = None,
    out: Array | None = None,
    backend: Backend | None = None,
    **unknown: object,
) -> Any:
    """Values of an operation. The keywords are those of the verbs; see `add`."""
    if unknown:
        raise TypeError(
            f"{operation} has no keyword {next(iter(unknown))!r}; it has {', '.join(Options.__annotations__)}"
        )
    if catalog.is_block(fmt):
        raise TypeError(
            f"{operation} gives single values, and {str(fmt)!r} has blocks: operate into a format such as "
            f"'binary32', then encode"
        )
    into = getattr(out, "dtype", None)
    asked = (operation, fmt, rounding, saturation, projection, profile, dtype, into, backend)
    key, done = calls.again_all(asked, values, out, flags, random, rng)
    if done is not None:
        return done
    with usual_modes():
        check_backend(backend)
        target = catalog.format(fmt)
        how = projection_of(target, rounding, saturation, projection, profile)
        if is_lazy(random) or any(map(is_outside, values)):
            verb = functools.partial(
                _operate_on, operation, fmt=target, projection=how, dtype=dtype, backend=backend
            )
            return apply(verb, *values, fmt=target, rule=how, random=random, rng=rng, flags=flags, out=out)
        operands = [values_operand(given) for given in values]
        for name, operand in zip("xyz"[: 1 if operation == "scaleb" else 3], operands, strict=False):
            refuse_codes(name, operand.array, target, operation)
        if operation == "scaleb" and operands[1].fmt.exponent_bits and operands[1].array.size:
            raise TypeError(
                f"scaleb takes integers as powers of two, not {operands[1].array.dtype}; use .astype('int32')"
            )
        given, carrier = result_type(target, wanted_type(dtype, out))
        return codes_of(
            operation, operands, target, how, given, carrier, random, rng, flags, out, backend, key
        )


def _operate_on(operation: str, *values: Any, **keywords: Any) -> Any:
    return operate(operation, values, **keywords)


def wanted_type(dtype: npt.DTypeLike | None, out: object) -> np.dtype[Any] | None:
    """Return the type requested by `dtype`, else that of `out`, else None."""
    if dtype is not None:
        return asked_type(dtype)
    refuse_other_order(out)
    return out.dtype if isinstance(out, np.ndarray) else None


@functools.lru_cache(maxsize=1024)
def result_type(fmt: Format, wanted: np.dtype[Any] | None) -> tuple[np.dtype[Any], Format | None]:
    """Return the type of results, and its format; None where results are codes."""
    if (
        wanted is not None
        and wanted.isnative
        and (wanted == code_dtype(fmt) or catalog.carrier(wanted) == fmt)
    ):
        return wanted, None
    given, carrier = float_dtype(fmt, wanted)
    return given, None if carrier == fmt else carrier


def codes_of(
    operation: str,
    operands: list[Operand],
    fmt: Format,
    rule: Projection,
    given: np.dtype[Any],
    carrier: Format | None = None,
    random: object = None,
    rng: object = None,
    flags: object = None,
    out: object = None,
    backend: Backend | None = None,
    key: tuple[object, ...] | None = None,
) -> Any:
    """Return an operation's results for operands in any formats: codes, or values in a carrier type."""
    return calls.elementwise(
        operation, operands, fmt, rule, given, carrier, what=f"values of {fmt.name!r}", random=random,
        rng=rng, flags=flags, out=out, backend=backend, key=key,
    )  # fmt: skip
