"""For your own tests: whether a cast is right, and if not, where it is wrong and of what kind.

Floor 5. Functions import what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

    from lowprec.spec.format import Format
    from lowprec.spec.profiles import Profile
    from lowprec.spec.projection import Projection, Saturation
    from lowprec.spec.rounding import Rounding
    from lowprec.tools.conformance import Row

__all__ = ["check_cast"]


def check_cast(
    cast: Callable[[Any], Any],
    target: Format | str,
    *,
    source: str = "float32",
    rounding: Rounding | str | None = None,
    saturation: Saturation | str | None = None,
    projection: Projection | None = None,
    profile: Profile | str | None = None,
    samples: int = 1 << 16,
    any_nan: bool = False,
) -> Row:
    """Compare a cast with the reference on every input that matters, and refuse it where one code differs.

    The inputs are those of `lowprec conform`: every value, tie and threshold of the format with its
    neighbours, subnormals, infinities, NaNs, all 16-bit inputs, and random bit patterns. Some come
    again alone, many times over and spread, since a code must not depend on the place in the array.
    NaNs are left out where the format has none and the rules refuse them.

    >>> import ml_dtypes
    >>> check_cast(lambda x: x.astype(ml_dtypes.float8_e4m3fn), "e4m3fn").mismatches
    0
    >>> check_cast(lambda x: x.astype(ml_dtypes.float8_e4m3fn), "e4m3fn", source="float64", samples=0)
    Traceback (most recent call last):
    AssertionError: the cast from float64 differs from e4m3fn (nearest_even, saturation none) on 2,344 of 20,568 inputs
      double rounding: 2,344 inputs; the smallest is 0x3f50000000000001 = 0x1.0000000000001p-10: got 0x00, want 0x01

    Parameters
    ----------
    cast : function
        Takes an array of the source type, one axis of any length, and gives an array of the same shape: codes
        as integers, the format's own type (`lowprec.dtype`), or values of the format as floats.
        Values are compared as numbers: zeros by their sign, NaNs all alike.
    target : Format or str
        The format that it should give.
    source : {"float32", "float16", "bfloat16", "float64", "int32", "int64"}
        The type of the inputs.
    rounding, saturation, projection, profile
        What it should do, as for `lowprec.encode`; by default nearest_even and saturation none.
    samples : int
        Random inputs beside the cases, for float32 and float64.
    any_nan : bool
        Whether one NaN is as good as another.

    Returns
    -------
    row : Row
        What was tried, as a row of `lowprec conform`.

    Raises
    ------
    AssertionError
        Codes that differ: how many of each kind, and the smallest input of each.
    TypeError, ValueError
        An answer of the wrong shape or type, or an integer that is no code.
    """
    import dataclasses

    import numpy as np

    from lowprec.arrays.checks import projection as rules_of
    from lowprec.spec import catalog
    from lowprec.tools.cases import SOURCES
    from lowprec.tools.conformance import compare
    from lowprec.tools.frameworks.base import Framework
    from lowprec.tools.tasks import Cast

    fmt = catalog.format(target)
    if source not in SOURCES:
        raise ValueError(f"unknown source {source!r}; use one of {', '.join(SOURCES)}")
    if samples < 0:
        raise ValueError(f"samples must not be negative, not {samples}")
    rules = rules_of(fmt, rounding, saturation, projection, profile)
    if rules.rounding.bits:
        raise ValueError(
            f"rounding {rules.rounding} needs a random integer for each input, which a cast is not given; "
            "use a deterministic mode"
        )
    if any_nan:
        rules = dataclasses.replace(rules, nan_sign="drop")
    name = getattr(cast, "__name__", "") or type(cast).__name__
    subject = "the cast" if name == "<lambda>" else name

    def answer(values: Any) -> Any:
        with np.errstate(all="ignore"):  # it is judged by its codes
            given = cast(values)
        made = _codes(given, values, fmt, subject)
        return _one_nan(made, fmt, rules.nan_code) if any_nan else made

    framework = Framework(
        subject, "lowprec", "", (source,), lambda: (fmt,), lambda values, _: answer(values), projection=rules
    )
    task = Cast(source, fmt)
    row = compare(framework, task, answer, task.operands(samples, 0), own=False, flush=False)
    if row.mismatches:
        lines = [
            f"{subject} from {source} differs from {fmt.name} ({rules}) on {row.mismatches:,} of {row.tried:,} inputs"
        ]
        lines += [
            f"  {found.kind}: {found.count:,} {'input' if found.count == 1 else 'inputs'}; the smallest is "
            f"{found.operand} = {found.value}: got {found.got}, want {found.want}"
            for found in row.findings
        ]
        raise AssertionError("\n".join(lines))
    return row


def _codes(made: Any, values: npt.NDArray[Any], fmt: Format, subject: str) -> npt.NDArray[Any]:
    """An answer as codes, or as values in a type of float."""
    import ml_dtypes
    import numpy as np

    from lowprec.arrays.checks import code_dtype, dtype

    given = np.asarray(made)
    if given.shape != values.shape:
        raise ValueError(
            f"{subject} was given {values.dtype} of shape {values.shape} and gave shape {given.shape}; "
            "it must give one code or value for each input"
        )
    codes = code_dtype(fmt)
    try:
        own: np.dtype[Any] | None = dtype(fmt)
    except ValueError:
        own = None
    if own is not None and given.dtype == own and own.kind not in "iu":
        return given.view(codes)
    if given.dtype.kind in "iu":
        wrong = (given < 0) | (given >= 1 << fmt.width)
        if wrong.any():
            first = int(np.argmax(wrong))
            raise ValueError(
                f"{subject} gave {given[first]} for {values[first]}, which is no code of {fmt.name}: codes have "
                f"{fmt.width} bits; give unsigned codes, or values as floats"
            )
        return given.astype(codes)
    if given.dtype in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16):
        return given.astype(np.float64)
    wanted = f"codes as {codes}, " + (f"{own} or " if own is not None else "") + "values as float32 or float64"
    raise TypeError(f"{subject} gave {given.dtype}, which says nothing about {fmt.name}; give {wanted}")


def _one_nan(made: npt.NDArray[Any], fmt: Format, code: int | None) -> npt.NDArray[Any]:
    """Codes with the one NaN that the reference gives."""
    import numpy as np

    from lowprec.arrays.convert import decode

    one = fmt.nan_code if code is None else code
    if made.dtype.kind == "f" or one is None:
        return made
    return np.where(np.isnan(np.asarray(decode(made, fmt))), made.dtype.type(one), made)
