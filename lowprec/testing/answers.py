"""Answers of someone's function: codes as integers, a format's own type, or values as floats."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from lowprec.arrays.checks import Array, as_array, code_dtype
from lowprec.arrays.convert import decode, encode
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import own_dtype

_FLOATS = (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)


def check_callable(asker: str, function: object) -> None:
    """Refuse what is no function.

    Raises
    ------
    TypeError
    """
    if not callable(function):
        raise TypeError(f"{asker} takes a function on arrays first, not {function!r}")


def reals_of(made: object, subject: str) -> Array:
    """Return an answer as an array of real numbers, each of which float64 holds.

    Raises
    ------
    TypeError, ValueError
        An answer of another type, or a number that float64 does not hold.
    """
    given = as_array(made)
    if given.dtype.kind in "cSUMmO":
        raise TypeError(f"{subject} gave {given.dtype}; it must give real numbers, floats or integers")
    if given.dtype.kind in "iuf" and given.itemsize >= 8:
        kind = object if given.dtype.kind in "iu" else given.dtype
        wrong = (given.astype(np.float64).astype(kind) != given.astype(kind)) & (given == given)
        if wrong.any():
            raise ValueError(
                f"{subject} gave {given[wrong][0]!s}, which is no float64 number, as all values are"
            )
    return given


def check_count(name: str, number: object, least: int = 0) -> None:
    """Refuse what is no number of samples, or no seed.

    Raises
    ------
    TypeError, ValueError
    """
    try:
        count = operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {number!r}") from None
    if count < least:
        raise ValueError(
            f"{name} must " + (f"be {least} or more" if least else "not be negative") + f", not {count}"
        )


def codes_or_values(made: object, operands: Sequence[Array], fmt: Format, subject: str) -> Array:
    """Return an answer as codes in their narrowest type, or as values in float64.

    Parameters
    ----------
    made : object
        What was answered.
    operands : sequence of array
        What was asked, an answer for each element.
    fmt : Format
    subject : str
        Who answers, for messages.

    Raises
    ------
    TypeError, ValueError
        An answer of another shape or type, or an integer that is no code.
    """
    given, asked = as_array(made), operands[0]
    if given.shape != asked.shape:
        raise ValueError(
            f"{subject} was given {asked.dtype} of shape {asked.shape} and gave shape {given.shape}; "
            "it must give one code or value for each input"
        )
    codes, own = code_dtype(fmt), own_dtype(fmt)
    if own is not None and given.dtype == own and own.kind not in "iu":
        return given.view(codes)
    if given.dtype.kind in "iu":
        wrong = (given < 0) | (given >= 1 << fmt.width)
        if wrong.any():
            raise ValueError(
                f"{subject} gave {_first(wrong, given, operands)}, which is no code of {fmt.name}: codes "
                f"have {fmt.width} bits; give unsigned codes, or values as floats"
            )
        return given.astype(codes)
    if given.dtype.newbyteorder("=") in _FLOATS:
        with np.errstate(invalid="ignore"):  # a signalling NaN is as good as another
            return given.astype(np.float64)
    wanted = (
        f"codes as {codes}, " + (f"{own} or " if own is not None else "") + "values as float32 or float64"
    )
    raise TypeError(f"{subject} gave {given.dtype}, which says nothing about {fmt.name}; give {wanted}")


def codes_of(made: object, operands: Sequence[Array], fmt: Format, subject: str) -> Array:
    """Return an answer as codes in int64; as `codes_or_values`, and floats must be values of the format."""
    given = codes_or_values(made, operands, fmt, subject)
    if given.dtype.kind != "f":
        return given.astype(np.int64)
    codes = encode(given, fmt, projection=Projection(nan="max", zero="smallest"))
    wrong = (decode(codes, fmt, dtype="float64") != given) & ~(np.isnan(given) & fmt.has_nan)
    if wrong.any():
        raise ValueError(
            f"{subject} gave {_first(wrong, given, operands)}, which is no value of {fmt.name}; "
            "give values that are rounded, or codes"
        )
    return np.asarray(codes).astype(np.int64)


def _first(wrong: Array, given: Array, operands: Sequence[Array]) -> str:
    place = int(np.argmax(wrong))
    return f"{given[place]} for {', '.join(str(column[place]) for column in operands)}"
