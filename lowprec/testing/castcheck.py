"""Checking a cast: anyone's function held against the reference, and which law it breaks."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import projection as rules_of
from lowprec.arrays.convert import decode
from lowprec.arrays.kinds import tensor_of
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import Rounding
from lowprec.testing.answers import check_callable, check_count, codes_or_values
from lowprec.testing.grid import grid_of
from lowprec.testing.implementation import name_of
from lowprec.testing.law import LAWS
from lowprec.testing.laws.codebooks import law_of_codebook
from lowprec.testing.laws.rounding import law_at
from lowprec.testing.projecting import is_plain
from lowprec.verify.codes.display import shown_code
from lowprec.verify.conform.conformance import Row, compare
from lowprec.verify.frameworks.base import Framework
from lowprec.verify.frameworks.tasks import Cast
from lowprec.verify.inputs.conversions import SOURCES

#: The way out for casts that take no strided views.
_CONTIGUOUS = "contiguous=True leaves strided views out"


def check_cast(
    cast: Callable[[Any], Any],
    target: Format | str,
    *,
    source: Any = "float32",
    rounding: Rounding | str | None = None,
    saturation: Saturation | str | None = None,
    projection: Projection | None = None,
    profile: Profile | str | None = None,
    samples: int = 1 << 16,
    any_nan: bool = False,
    contiguous: bool = False,
) -> Row:
    """Hold a cast against the reference on every input that matters, and refuse it where one code differs.

    The inputs are those of `lowprec conform`: every value, tie and threshold of the format with its
    neighbours, subnormals, infinities, NaNs, all 16-bit inputs, and random bit patterns. Some come
    again alone and many times over, since a code must not depend on the place in the array, and in a
    strided view such as `x[::2]`, which `contiguous=True` leaves out.
    NaNs are left out where the format has none and the rules refuse them.

    >>> import ml_dtypes
    >>> check_cast(lambda x: x.astype(ml_dtypes.float8_e4m3fn), "e4m3fn").mismatches
    0
    >>> check_cast(lambda x: x.astype(ml_dtypes.float8_e4m3fn), "e4m3fn", source="float64", samples=0)
    Traceback (most recent call last):
    AssertionError: the cast from float64 breaks the law 'nearest' of e4m3fn (nearest_even, saturation none)
      law     No value of the format is closer; ties go to the even code, away from zero or toward zero, as
      the
              mode says.
      domain  numbers in range; nearest modes
      smallest counterexample
        value  0x3f50000000000001 = 0x1.0000000000001p-10
        got    0x00  0 0000 000  0.0
        want   0x01  0 0000 001  0.001953125 = 0x1p-9
      2,344 of 20,568 inputs differ
      double rounding: 2,344 inputs; the smallest is 0x3f50000000000001 = 0x1.0000000000001p-10: got 0x00,
      want 0x01 explained by double rounding: to binary32 first, then to e4m3fn: 2,344 of 2,344

    Parameters
    ----------
    cast : function
        Takes an array of the source type, one axis of any length and any stride, and gives an array of the
        same shape, or a tensor: codes as integers, the format's own type (`lowprec.dtype`), or values of
        the format as floats. Values are compared as numbers: zeros by their sign, NaNs all alike.
    target : Format or str
        The format that it should give.
    source : {"float32", "float16", "bfloat16", "float64", "int32", "int64"} or torch.dtype
        The type of the inputs. One of torch's: they are tensors of it.
    rounding, saturation, projection, profile
        What it should do, as for `lowprec.encode`; by default nearest_even and saturation none.
    samples : int
        Random inputs beside the cases, for float32 and float64.
    any_nan : bool
        Whether one NaN is as good as another.
    contiguous : bool
        Whether the cast is called with contiguous arrays only, for casts that do not take strided views.

    Returns
    -------
    row : Row
        What was tried, as a row of `lowprec conform`.

    Raises
    ------
    AssertionError
        Codes that differ: the law that the first breaks, how many there are of each kind, and the smallest
        input of each. The law is left out where the rules ask for more than rounding and saturation.
    TypeError, ValueError
        No function; an answer of the wrong shape or type, or an integer that is no code.
    """
    fmt = catalog.format(target)
    tensors = type(source).__module__ == "torch"
    source = str(source).removeprefix("torch.") if tensors else source
    if source not in SOURCES:
        raise ValueError(f"unknown source {source!r}; use one of {', '.join(SOURCES)}")
    check_callable("check_cast", cast)
    check_count("samples", samples)
    rules = rules_of(fmt, rounding, saturation, projection, profile)
    if rules.rounding.bits:
        raise ValueError(
            f"rounding {rules.rounding} needs a random integer for each input, which a cast is not given; "
            "use a deterministic mode, or hold results against the integers that they took: "
            "lowprec.compare(values, results, to, random=integers)"
        )
    if any_nan:
        rules = dataclasses.replace(rules, nan_sign="drop")
    name = name_of(cast)
    subject = "the cast" if name == "<lambda>" else name

    def answer(values: Any) -> Any:
        copy = _copied(values)
        try:
            with np.errstate(all="ignore"):  # it is judged by its codes
                given = cast(tensor_of(copy) if tensors else copy)
        except Exception as error:
            if not copy.flags.c_contiguous:
                error.add_note(
                    f"check_cast called it with a strided view (strides {copy.strides}); {_CONTIGUOUS}"
                )
            raise
        made = codes_or_values(given, [values], fmt, subject)
        return _one_nan(made, fmt) if any_nan else made

    framework = Framework(
        subject, "lowprec", "", (source,), lambda: (fmt,), lambda values, _: answer(values), projection=rules
    )
    task = Cast(source, fmt, any_nan)
    row = compare(
        framework, task, answer, task.operands(samples, 0), own=False, flush=False, strided=not contiguous
    )
    if row.mismatches:
        raise AssertionError(_message(row, fmt, rules))
    return row


def _message(row: Row, fmt: Format, rules: Projection) -> str:
    """Return the message: the broken law, its smallest counterexample, and how much differs, by kind."""
    first, name = row.findings[0].smallest, _law(row, fmt, rules)
    lines = [f"{row.framework} from {row.source} differs from {fmt.name} ({rules})"]
    if name is not None:
        lines = [
            f"{row.framework} from {row.source} breaks the law '{name}' of {fmt.name} ({rules})",
            f"  law     {LAWS[name].statement}",
            f"  domain  {LAWS[name].domain}",
        ]
    lines += [
        "  smallest counterexample",
        f"    value  {first['operand']} = {first['value']}",
        f"    got    {_in_full(first['got'], fmt)}",
        f"    want   {_in_full(first['want'], fmt)}",
        f"  {row.mismatches:,} of {row.tried:,} inputs differ",
    ]
    lines += [
        f"  {found.kind}: {found.count:,} {'input' if found.count == 1 else 'inputs'}; the smallest is "
        "{operand} = {value}: got {got}, want {want}".format(**dict(found.smallest.rows))
        for found in row.findings
    ]
    lines += [f"  explained by {cause}" for cause in row.causes[:1]]
    if any(found.kind == "strided view" for found in row.findings):
        lines.append(
            "  a strided view is an array such as x[::2], whose values do not lie side by side; "
            f"{_CONTIGUOUS}"
        )
    return "\n".join(lines)


def _law(row: Row, fmt: Format, rules: Projection) -> str | None:
    """Return the name of the law about the first difference; None where the rules are not the laws'."""
    first, dtype = row.findings[0].smallest, SOURCES[row.source]
    if row.findings[0].kind in ("place", "strided view"):
        return "place"
    if not is_plain(rules):
        return None
    if dtype.kind == "i":
        value: float = int(first["operand"])
    else:
        value = float(np.array(int(first["operand"], 16), f"u{dtype.itemsize}").view(dtype))
    if isinstance(fmt, Codebook):
        return law_of_codebook(value, fmt)
    return law_at(value, grid_of(fmt), unsigned=fmt.sign is Sign.UNSIGNED, mode=rules.rounding.name)


def _in_full(answer: str, fmt: Format) -> str:
    """Return codes with their bits and values; values as they are."""
    return re.sub(
        r"0x([0-9a-f]+)(?![0-9a-f.p])", lambda code: f"0x{shown_code(int(code[1], 16), fmt)}", answer
    )


def _one_nan(made: npt.NDArray[Any], fmt: Format) -> npt.NDArray[Any]:
    """Return codes with one NaN in place of all."""
    if made.dtype.kind == "f" or fmt.nan_code is None:
        return made
    return np.where(np.isnan(np.asarray(decode(made, fmt))), made.dtype.type(fmt.nan_code), made)


def _copied(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return inputs that a cast may write to, spaced in memory as these are, with zeros between."""
    step = max(1, values.strides[0] // values.itemsize)
    copy = np.zeros(values.size * step, values.dtype)[::step]
    copy[...] = values
    return copy
