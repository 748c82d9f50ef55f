"""Arrays that the verbs take and give: coercion, refusals, and their messages.

Floor 3.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from lowprec.arrays.axes import broadcast_shapes
from lowprec.arrays.frames import is_arrow, is_frame, typed_parts, whole_of
from lowprec.arrays.lists import is_list, listed
from lowprec.kernels.codes import code_dtype, nans, signaling_nans, unlocked
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.vector import exact as kernels
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.profiles import PROFILES, Profile, profile as profile_of
from lowprec.spec.projection import DEFAULT, Projection, Saturation
from lowprec.spec.rounding import Rounding

__all__ = [
    "UNSIGNED",
    "Array",
    "Operand",
    "as_array",
    "asked_type",
    "broadcast_shape",
    "code_dtype",
    "codes_operand",
    "dtype",
    "float_dtype",
    "is_tensor",
    "keeps_dtype",
    "nans",
    "narrowed",
    "projection",
    "refuse_codes",
    "refuse_operands",
    "refuse_results",
    "share_memory",
    "signaling_nans",
    "typed_codes",
    "values_depend",
    "values_operand",
    "values_type",
]

Array = npt.NDArray[Any]

#: The types that values are given back in, narrowest first, each with its format.
FLOATS: tuple[tuple[np.dtype[Any], Format], ...] = (
    (np.dtype(np.float16), catalog.BINARY16),
    (np.dtype(ml_dtypes.bfloat16), catalog.BFLOAT16),
    (np.dtype(np.float32), catalog.BINARY32),
    (np.dtype(np.float64), catalog.BINARY64),
)


#: Unsigned integers by their bytes.
UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


class Operand(NamedTuple):
    """An argument as kernels take it."""

    codes: Array  #: the elements as unsigned integers of their size and byte order; a view
    fmt: Format  #: or carrier, that they are codes of
    array: Array  #: as given, or as integers of the format's size
    whole: bool  #: whether every pattern of the type that was given is a code: none had to be looked at


def dtype(fmt: Format | str) -> np.dtype[Any]:
    """Return the NumPy or ml_dtypes type whose elements are the codes of a format.

    >>> import numpy as np
    >>> np.array([126], np.uint8).view(dtype("e4m3fn"))
    array([448], dtype='float8_e4m3fn')

    Parameters
    ----------
    fmt : Format, str or dtype

    Raises
    ------
    ValueError
        No such type exists.
    """
    fmt = catalog.format(fmt)
    for native, known in (*FLOATS, (np.dtype(np.int8), catalog.INT8), (np.dtype(np.uint8), catalog.UINT8)):
        if fmt == known:
            return native
    name = catalog.ml_dtypes_name(fmt)
    if name is None or not hasattr(ml_dtypes, name):
        raise ValueError(
            f"neither NumPy nor ml_dtypes {ml_dtypes.__version__} has a type for {fmt.name!r}; keep its "
            f"codes as {code_dtype(fmt)}"
        )
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return found


def float_dtype(fmt: Format, asked: object = None) -> tuple[np.dtype[Any], Format]:
    """Return the type to give values of a format in: the one requested, or float32, or float64."""
    if asked is None:
        return FLOATS[2] if catalog.BINARY32.contains(fmt) else FLOATS[3]
    known, carrier = values_type(asked)
    if not carrier.contains(fmt):
        exact = ", ".join(str(name) for name, other in FLOATS if other.contains(fmt))
        raise ValueError(f"{known} does not hold every value of {fmt.name!r}; use {exact}")
    return known, carrier


def values_type(asked: object) -> tuple[np.dtype[Any], Format]:
    """Return the type that `dtype=` requests for values, and its format."""
    wanted = asked_type(asked)
    for known, carrier in FLOATS:
        if wanted == known:
            return known, carrier
    raise TypeError(f"values are given as float16, bfloat16, float32 or float64, not {wanted}")


def asked_type(asked: object) -> np.dtype[Any]:
    """Return the type that `dtype=` requests; refuse what NumPy has none for."""
    try:
        return np.dtype(asked)  # type: ignore[call-overload,no-any-return]
    except (TypeError, ValueError, SyntaxError):
        raise TypeError(
            f"dtype={asked!r:.60} is no type of NumPy; values are given as float16, bfloat16, float32 or "
            f"float64"
        ) from None


def keeps_dtype(array: Array, fmt: Format) -> bool:
    """Return whether `quantize` gives values in the type that they came in."""
    native = array.dtype.newbyteorder("=")
    return any(native == known and carrier.contains(fmt) for known, carrier in FLOATS)


def projection(
    fmt: Format,
    rounding: Rounding | str | None,
    saturation: Saturation | str | None,
    whole: Projection | None,
    profile: Profile | str | None,
) -> Projection:
    """Return the projection onto a format that the keywords of a verb request."""
    asked = {"projection": whole, "profile": profile, "rounding": rounding, "saturation": saturation}
    given = [name for name, value in asked.items() if value is not None]
    if whole is None and profile is not None and saturation is not None:
        given = ["profile", "saturation"]
    if len(given) > 1 and given not in (["rounding", "saturation"], ["profile", "rounding"]):
        first, second = given[:2]
        short = f"{given[-1]}={str(asked[given[-1]])!r}" if given[-1] != "profile" else "rounding=..."
        base = "projection" if profile is None else f"lowprec.profiles[{str(profile)!r}].projection(format)"
        said = f"{second}={str(asked[second])!r}"
        raise ValueError(
            f"{first}= and {said} both say how to convert; give one of them, for instance "
            f"projection=dataclasses.replace({base}, {short})"
        )
    if profile is not None:
        found = profile_of(profile).projection(fmt)
        return found if rounding is None else _rounded_otherwise(found, rounding, str(profile), fmt)
    if whole is not None:
        if not isinstance(whole, Projection):
            known = isinstance(whole, Profile) or (isinstance(whole, str) and whole in PROFILES)
            way = f"give profile={str(whole)!r}" if known else "for a mode alone use rounding="
            raise TypeError(f"projection must be a Projection, not {whole!r}; {way}")
        return whole
    if not given:
        return DEFAULT
    return Projection(
        rounding=DEFAULT.rounding if rounding is None else rounding,
        saturation=DEFAULT.saturation if saturation is None else saturation,
    )


def _rounded_otherwise(found: Projection, rounding: Rounding | str, profile: str, fmt: Format) -> Projection:
    """Return what a profile does, in another rounding mode: where it rounds once."""
    if found.via:
        first = " and ".join(stop.name for stop in found.via)
        raise ValueError(
            f"profile={profile!r} rounds to {first} first, then to {fmt.name!r}, and "
            f"rounding={str(rounding)!r} does not say which of them it means; give "
            f"projection=dataclasses.replace(lowprec.profiles[{profile!r}].projection(format), rounding=...) "
            f"for the last of them"
        )
    return dataclasses.replace(found, rounding=rounding)  # type: ignore[arg-type]


def values_operand(values: object, name: str = "values") -> Operand:
    """Values, as codes of the type that they came in; `name` is for messages."""
    array = as_array(values)
    carrier = catalog.carrier(array.dtype) if array.dtype.kind in "biufV" else None
    if carrier is None:
        raise TypeError(
            f"{name} must be real numbers of at most 64 bits, not {array.dtype}: {_advice(array.dtype)}"
        )
    codes = typed_codes(array, carrier)
    whole = array.dtype.kind != "b"  # kernels mask the unused bits of other types
    return Operand(codes, carrier, codes.view(array.dtype) if carrier.width < 8 else array, whole)


def values_depend(operand: Operand) -> bool:
    """Return whether values decide the operand's format: vectors read integers that are binary32 numbers."""
    kind, size = operand.array.dtype.kind, operand.array.dtype.itemsize
    return isinstance(operand.fmt, Carrier) and not operand.fmt.exponent_bits and kind in "iu" and size >= 4


def narrowed(operand: Operand, converted: bool = False) -> Operand:
    """Return the same values as float32 if they all are such, bit for bit, else the operand.

    Integers that are `converted` may become float64.
    """
    array = operand.array
    wide = array.dtype == np.float64
    if not isinstance(operand.fmt, Carrier) or not (wide or array.dtype.kind in "iu"):
        return operand
    native = array.dtype.newbyteorder("=")
    given = unlocked(np.ascontiguousarray(array, native).reshape(-1))
    single = np.empty(given.size, np.float32)
    with usual_arithmetic():
        if (kernels.narrowed if wide else kernels.narrowed_integers)(given, single):
            same = single.reshape(array.shape)
            return Operand(same.view(np.uint32), catalog.BINARY32, same, True)
    if converted and not wide and -(1 << 53) <= int(given.min()) and int(given.max()) <= 1 << 53:
        double = array.astype(np.float64)
        return Operand(double.view(np.uint64), catalog.BINARY64, double, True)
    return operand


def codes_operand(codes: object, fmt: Format) -> Operand:
    """Codes of a format, checked to be such."""
    array = as_array(codes)
    if _is_typed(array, fmt):
        codes = typed_codes(array, fmt)
        return Operand(codes, fmt, codes, True)
    if array.dtype.kind not in "iu":
        if array.size == 0 and array.dtype == np.float64 and not hasattr(codes, "dtype"):
            array = array.astype(code_dtype(fmt))  # an empty list
        else:
            raise TypeError(
                f"codes of {fmt.name!r} must be integers, not {array.dtype}: `encode` makes codes from values"
            )
    largest = (1 << fmt.width) - 1
    limits = np.iinfo(array.dtype)
    whole = limits.min == 0 and limits.max == largest
    if array.size and not whole and ((limits.min and array.min() < 0) or array.max() > largest):
        wrong = (array < 0) | (array > largest)
        raise ValueError(
            f"codes of {fmt.name!r} are 0 to {largest}: {_count(wrong)}, which is "
            f"{int(array[_first(wrong)])}. Mask the unused bits, or name the format that they are codes of"
        )
    if array.dtype.kind == "i" or array.dtype.itemsize * 8 > 32:
        array = array.astype(code_dtype(fmt))
    return Operand(_patterns(array), fmt, array, whole)


def _is_typed(array: Array, fmt: Format) -> bool:
    """Return whether an array is of the very type whose elements are codes of this format."""
    try:
        return array.dtype.newbyteorder("=") == dtype(fmt)
    except ValueError:
        return False


def broadcast_shape(taker: str, *arrays: Array) -> tuple[int, ...]:
    """Return the shape that operands broadcast to; `taker` is for messages."""
    shapes = [array.shape for array in arrays]
    try:
        return shapes[0] if len(shapes) == 1 else broadcast_shapes(*shapes)
    except ValueError:
        spelled = " and ".join(map(str, shapes))
        raise ValueError(f"{taker} takes operands that broadcast together, not of shapes {spelled}") from None


def share_memory(written: Array, read: Sequence[Array]) -> bool:
    """Return whether an array may lie where another one does that is still to be read."""
    return any(np.may_share_memory(written, array) for array in read)


def refuse_codes(name: str, array: Array, fmt: Format, taker: str) -> None:
    """Refuse an array of the type that a format's codes have where its values are meant.

    Integers of other types count as they are, and so do those whose codes are their values.
    """
    native = array.dtype.newbyteorder("=")
    if native.kind != "u" or native.itemsize > 2 or native != code_dtype(fmt):
        return
    if not isinstance(fmt, Codebook) and not fmt.exponent_bits:
        return
    view = catalog.ml_dtypes_name(fmt) or (fmt == catalog.BINARY16 and "float16")
    viewed = f", or {name}.view(lowprec.dtype({fmt.name!r}))" if view else ""
    wider = "int16" if array.dtype.itemsize == 1 else "int32"
    raise TypeError(
        f"{name} is of {array.dtype}, the type of codes of {fmt.name!r}, but {taker} takes values. Are these "
        f"codes? Pass lowprec.decode({name}, {fmt.name!r}){viewed}. Of whole numbers pass "
        f"{name}.astype({wider!r})"
    )


def refuse_operands(operand: Operand, fmt: Format, rule: Projection, count: int, first: int) -> None:
    """Say which operands a projection refused, why, and what to do about it."""
    refused, lacks, fields = [], [], []
    if fmt.nan_code is None and rule.nan_code is None and rule.nan == "error":
        refused, lacks, fields = ["NaN"], ["has no NaN code"], ["nan=..."]
    if fmt.sign is Sign.UNSIGNED and rule.negative == "error":
        refused, lacks, fields = [*refused, "negative"], [*lacks, "is unsigned"], [*fields, "negative=..."]
    what, size = " or ".join(refused), operand.array.size
    place = tuple(int(i) for i in np.unravel_index(first, operand.array.shape))
    raise ValueError(
        f"cannot encode {what} values as {fmt.name!r}, which {' and '.join(lacks)}: {count:,} of {size:,} "
        f"{'is' if count == 1 else 'are'} {what}, the first at index {place}. Replace them, say what becomes "
        f"of them with Projection({', '.join(fields)}), or use another format such as 'e4m3fn'"
    )


def refuse_results(
    operation: str,
    operands: Sequence[Operand],
    shape: tuple[int, ...],
    first: int,
    fmt: Format,
    rule: Projection,
) -> None:
    """Say of which operands the result has no code, and what to do about it."""
    place = tuple(int(i) for i in np.unravel_index(first, shape))
    given = ", ".join(str(np.broadcast_to(operand.array, shape)[place]) for operand in operands)
    lacks = "has no NaN code" if fmt.nan_code is None else "is unsigned"
    field = "nan=..." if fmt.nan_code is None else "negative=..."
    if fmt.nan_code is None and fmt.sign is Sign.UNSIGNED and rule.negative == "error":
        lacks, field = "has no NaN code and is unsigned", "nan=..., negative=..."
    raise ValueError(
        f"{operation} of {given} at index {place} has a result that {fmt.name!r} has no code for, which "
        f"{lacks}. Replace such operands, say what becomes of it with Projection({field}), or use another "
        f"format such as 'e4m3fn'"
    )


def as_array(values: object) -> Array:
    """Return array-likes as an array, in their type: torch tensors by their bits, frames in a common type."""
    _refuse_kinds(values)
    if isinstance(values, np.ndarray) and values.dtype.kind == "T":
        raise TypeError(
            f"an array of {values.dtype} holds text; convert it to numbers first, by .astype(float)"
        )
    if hasattr(type(values), "_exact_values"):  # of blocks
        return values._exact_values()  # type: ignore[attr-defined,no-any-return]
    outside = _package(type(values)) == "pandas" and not is_frame(values)
    if outside and getattr(values, "nlevels", 1) == 1:
        values = sys.modules["pandas"].Series(values)  # its arrays and indexes round as they become NumPy's
    if is_frame(values) or is_arrow(values):
        return whole_of(typed_parts(values))
    arrays = _with_arrays(values) if is_list(type(values)) else None
    try:
        if arrays is not None:
            return listed(arrays)
        if _has_dlpack_alone(values):
            return np.from_dlpack(values)  # type: ignore[arg-type]
        return np.asarray(_from_torch(values) if is_tensor(values) else values)
    except (ValueError, TypeError, RuntimeError, BufferError) as error:  # ragged lists, tensors of a GPU
        tensors = is_list(type(values)) and any(map(is_tensor, values))  # type: ignore[call-overload]
        way = "; give torch.stack(...) of its tensors" if tensors else ""
        raise TypeError(f"cannot make an array of {type(values).__name__}: {error}{way}") from None


def _with_arrays(values: Any) -> Any:
    """Return a list in which arrays of pandas and pyarrow are NumPy's, as they are alone, at any depth."""
    if is_list(type(values)):
        made = [_with_arrays(each) for each in values]
        return made if any(one is not each for one, each in zip(made, values, strict=True)) else values
    ours = _package(type(values)) in ("pandas", "pyarrow") and hasattr(type(values), "__array__")
    return as_array(values) if ours else values


def _has_dlpack_alone(values: object) -> bool:
    """Return whether an object gives its elements by DLPack, and to NumPy in no other way."""
    others = ("__array__", "__array_interface__", "__buffer__")
    return hasattr(values, "__dlpack__") and not any(hasattr(values, name) for name in others)


#: Packages whose arrays may have names.
_NAMED = ("pandas", "xarray")


def _refuse_kinds(values: Any, listed: bool = False) -> None:
    """Refuse masked and sparse arrays, and arrays with names where their place counts; in lists too."""
    if _package(type(values)) in ("scipy", "sparse") and hasattr(values, "nnz"):
        way = ".toarray()" if hasattr(values, "toarray") else ".todense()"
        raise TypeError(f"{type(values).__name__} is sparse, which results are not; give {way}")
    if is_list(type(values)):
        kinds = tuple(
            kind
            for kind in set(map(type, values))
            if is_list(kind)
            or issubclass(kind, np.ma.MaskedArray)
            or _package(kind) in (*_NAMED, "pyarrow", "scipy", "sparse")
            or hasattr(kind, "_exact_values")
        )
        for each in values if kinds else ():
            if isinstance(each, kinds):
                _refuse_kinds(each, True)
    elif listed and hasattr(type(values), "_exact_values"):
        raise TypeError("a list would round values of blocks to float32; give .values(dtype) of each")
    elif isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            "a masked array would lose its mask; give .filled(...), or .data and put the mask back afterwards"
        )
    elif (
        listed and getattr(values, "ndim", 0) > 0 and (is_frame(values) or _package(type(values)) == "xarray")
    ):
        raise TypeError(
            f"{type(values).__name__} goes by its names, and a list takes it by its place: give .to_numpy() "
            "of each, or join them first"
        )
    elif _package(type(values)) == "xarray" and getattr(values, "ndim", 0) > 0:
        raise TypeError(
            f"{type(values).__name__} goes by the names of its dimensions, which results here do not have: "
            "give .to_numpy()"
        )


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def is_tensor(values: object) -> bool:
    """Return whether it is a torch tensor: of torch's own class, or of one that derives from it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, getattr(torch, "Tensor", ()))


def _from_torch(tensor: Any) -> Any:
    """Return a torch tensor as NumPy can take it: the types that only ml_dtypes has go by their bits."""
    torch = sys.modules["torch"]
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    name = str(tensor.dtype).removeprefix("torch.")
    if name.endswith("_x2"):
        raise TypeError(f"{name} has two codes an element; give BlockArray.unpack its .view(torch.uint8)")
    if not hasattr(ml_dtypes, name):
        return tensor
    bits = tensor.view(torch.uint8 if tensor.itemsize == 1 else torch.int16)
    return bits.numpy().view(getattr(ml_dtypes, name))


def typed_codes(array: Array, fmt: Format) -> Array:
    """Return the codes of an array in the type of a format, without what else is in their bytes.

    Elements of 2, 4 and 6 bits take a byte each. ml_dtypes writes zeros to the unused bits, and its `==` does
    not look at them; views of other bytes have anything there, which counts for nothing here either.
    """
    codes = _patterns(array)
    if fmt.width < 8 and codes.size and codes.max() >= 1 << fmt.width:
        if array.dtype.kind == "b":  # any byte but 0 is True
            return np.asarray(codes != 0).view(np.uint8)
        codes = codes & np.uint8((1 << fmt.width) - 1)
    return codes


def _patterns(array: Array) -> Array:
    """Return the elements' bit patterns."""
    bits = UNSIGNED[array.dtype.itemsize]
    return unlocked(array.view(bits if array.dtype.isnative else bits.newbyteorder()))


def _first(wrong: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))


def _count(wrong: Array) -> str:
    bad = int(wrong.sum())
    place = f", the first at index {_first(wrong)}" if wrong.ndim else ""
    return f"{bad:,} of {wrong.size:,} {'is' if bad == 1 else 'are'} not{place}"


def _advice(given: np.dtype[Any]) -> str:
    if given.kind == "c" or "complex" in given.name:
        return "convert the real and the imaginary part by themselves"
    if given.kind == "f":
        return "lowprec carries values in float64; .astype('float64') is right where it changes none of them"
    if given.kind == "O":
        return "give floats or integers of at most 64 bits; lowprec.oracle.convert.project takes any Fraction"
    return "convert to a float type first"
