"""What someone's function may answer with: codes as integers, a format's own type, or values as floats.

Floor 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype, dtype
from lowprec.arrays.convert import decode, encode
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection

__all__ = ["codes_of", "codes_or_values"]

Array = npt.NDArray[Any]

_FLOATS = (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)


def codes_or_values(made: object, operands: Sequence[Array], fmt: Format, subject: str) -> Array:
    """An answer as codes in their narrowest type, or as values in float64.

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
    given, asked = np.asarray(made), operands[0]
    if given.shape != asked.shape:
        raise ValueError(
            f"{subject} was given {asked.dtype} of shape {asked.shape} and gave shape {given.shape}; "
            "it must give one code or value for each input"
        )
    codes, own = code_dtype(fmt), _type_of(fmt)
    if own is not None and given.dtype == own and own.kind not in "iu":
        return given.view(codes)
    if given.dtype.kind in "iu":
        wrong = (given < 0) | (given >= 1 << fmt.width)
        if wrong.any():
            raise ValueError(
                f"{subject} gave {_first(wrong, given, operands)}, which is no code of {fmt.name}: codes have "
                f"{fmt.width} bits; give unsigned codes, or values as floats"
            )
        return given.astype(codes)
    if given.dtype in _FLOATS:
        return given.astype(np.float64)
    wanted = f"codes as {codes}, " + (f"{own} or " if own is not None else "") + "values as float32 or float64"
    raise TypeError(f"{subject} gave {given.dtype}, which says nothing about {fmt.name}; give {wanted}")


def codes_of(made: object, operands: Sequence[Array], fmt: Format, subject: str) -> Array:
    """An answer as codes in int64; as for `codes_or_values`, and floats must be values of the format."""
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


def _type_of(fmt: Format) -> np.dtype[Any] | None:
    try:
        return dtype(fmt)
    except ValueError:
        return None
