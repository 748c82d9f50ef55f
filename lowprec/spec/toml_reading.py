"""Specifications from TOML: hardware of one's own in a file.

A file holds one object, whose fields are its keys; or several, each in a table that has its name. Keys are
the fields of `Format`, `Codebook`, `BlockFormat`, `Accumulation` and `Profile`; tables are `Window`,
`Projection` and the like. Names stand for formats, rounding modes, orders and rules.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.accumulations import NAMES, accumulation
from lowprec.spec.block import BlockFormat, ScaleRule
from lowprec.spec.codebook import Codebook
from lowprec.spec.fields import check_line
from lowprec.spec.format import Format, Sign
from lowprec.spec.naming import close_names, plain
from lowprec.spec.number_text import read_number
from lowprec.spec.order import Split
from lowprec.spec.profiles import PROFILES, Profile, profile
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import Rounding, Threshold

Specification = Format | BlockFormat | Accumulation | Profile

#: What a file may hold, by the name of its kind; what is more special comes later.
KINDS: Mapping[str, type[Specification]] = {
    "format": Format,
    "block format": BlockFormat,
    "accumulation": Accumulation,
    "profile": Profile,
    "codebook": Codebook,
}


#: What is written for None, which TOML lacks, where it is not "none".
NOTHING = {"fraction_bits": "all"}

#: Bytes of a text, at most. Two codebooks of 256 values, each with thresholds, fit.
_MOST = 1 << 16
#: Comments and strings, the last of which may lack its end.
_QUOTED = re.compile(
    r"""#[^\n]*|'{3}.*?(?:'{3}|\Z)|'[^'\n]*'?|"{3}(?:\\.|[^\\])*?(?:"{3}|\Z)|"(?:\\.|[^"\\\n])*"?""",
    re.DOTALL,
)
#: Marks of a text outside of strings, at most, and what they are of; a codebook has up to 65,536 values.
_MARKS = (("=[{", "keys, tables and arrays", 50_000), (",", "commas", 1 << 18))
#: Dots of a key, at most: the parser's time and memory grow with their square.
_DOTS = 16
_LONG_KEY = re.compile(rf"(?:\.[^.,=\n]*){{{_DOTS + 1}}}")

_LARGEST = int(sys.float_info.max)

_OWNERS: dict[type, str] = {
    **{cls: f"{'an' if kind[0] == 'a' else 'a'} {kind}" for kind, cls in KINDS.items()},
    Window: "a window",
    Split: "a split",
    Projection: "a projection",
    ScaleRule: "a scale rule",
    Rounding: "a rounding mode",
}

Local = Mapping[str, Specification]


def load_toml(path: str | os.PathLike[str]) -> dict[str, Specification]:
    r"""Return what a TOML file defines, by name.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "mine.toml"
    ...     _ = file.write_text('base = "hopper_wgmma_e4m3fn_binary32"\naccumulator = {fraction_bits = 15}')
    ...     load_toml(file)["mine"].accumulator.fraction_bits
    15

    Parameters
    ----------
    path : str or path
        A file of at most 64 KiB. Where it holds one object that has no `name`, the file's is the object's.

    Returns
    -------
    objects : dict of str to Format, BlockFormat, Accumulation or Profile

    Raises
    ------
    ValueError
        No TOML, an unknown field, or fields that contradict each other; the message names the file, the
        object and the field.
    """
    place = Path(path)
    try:
        if place.exists() and not place.is_file():  # a pipe would be waited for
            raise ValueError("it is no regular file")
        with place.open("rb") as file:
            data = file.read(_MOST + 1)
        tables = _tables(data)
    except (ValueError, OSError) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"cannot read {str(path)!r} as TOML: {why}") from None
    return _objects(tables, place.stem, f"{str(path)!r}: ")


def from_toml(text: str, name: str = "private", *, most: int = _MOST) -> dict[str, Specification]:
    r"""Return what a TOML text of at most `most` bytes defines, by name; see `load_toml`.

    >>> from_toml('element = "e2m1fn"\nscale = "e8m0fnu"\nsize = 16')["private"].bits_per_value
    4.5

    Raises ValueError: as `load_toml`.
    """
    return _objects(_tables(text.encode(), most), name, "")


def kind_of(spec: Specification) -> str:
    """Return the name of an object's kind: a key of `KINDS`.

    >>> kind_of(catalog.MXFP4)
    'block format'
    """
    return next(kind for kind in reversed(list(KINDS)) if isinstance(spec, KINDS[kind]))


def fields_of(cls: type) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of a specification's class, by name."""
    return {field.name: field for field in dataclasses.fields(cls)}


def default_of(field: dataclasses.Field[Any]) -> Any:
    """Return a field's default, or None."""
    return None if field.default is dataclasses.MISSING else field.default


def is_optional(field: dataclasses.Field[Any]) -> bool:
    """Return whether a field may be left out."""
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


# -- objects ----------------------------------------------------------------------------------------


def _tables(data: bytes, most: int = _MOST) -> dict[str, Any]:
    """Parse TOML, which need not be trusted.

    Raises ValueError: no TOML, more than `most` bytes of it, or nested too deeply.
    """
    if len(data) > most:
        raise ValueError(f"hardware is described in a few lines, and this has more than {most:,} bytes")
    text = data.decode()
    bare = _QUOTED.sub("_", text)
    if _LONG_KEY.search(bare):
        raise ValueError(f"it is nested too deeply: a key has more than {_DOTS} dots")
    for marks, what, highest in _MARKS:
        if (many := sum(map(bare.count, marks))) > highest:
            raise ValueError(f"it has {many:,} {what}, and at most {highest:,} are read")
    try:
        return tomllib.loads(text, parse_float=float64)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def float64(text: str) -> float:
    """Return a number of a TOML text; refuse those that would become an infinity or zero."""
    number = float(text)
    if (number == 0 or math.isinf(number)) and re.match(r"[^eE]*[1-9]", text):
        raise ValueError(f"{text[:60]} is beyond float64's range")
    return number


def _objects(tables: Mapping[str, Any], name: str, where: str) -> dict[str, Specification]:
    """Return the objects of a file: one in each table, unless the tables are all of one object's fields.

    Tables that say their kind are objects, whatever their names.
    """
    if not tables:
        raise ValueError(
            f"{where}it is empty; give the fields of {', '.join([_OWNERS[cls] for cls in KINDS.values()])}"
        )
    several = all(isinstance(table, dict) for table in tables.values())
    said = several and all("kind" in table for table in tables.values())
    if not several or (not said and any(set(tables) <= set(fields_of(cls)) for cls in KINDS.values())):
        try:
            made = _object({"name": name, **tables}, {})
        except (ValueError, TypeError) as error:
            raise ValueError(f"{where}{error}") from None
        return {made.name: made}
    objects: dict[str, Specification] = {}
    for key, table in tables.items():
        try:
            check_line("a table", "name", key)
            objects[key] = _object({"name": key, **table}, objects)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{where}[{plain(key)}]: {error}") from None
    return objects


def _object(given: Mapping[str, Any], local: Local) -> Specification:
    """Return an object from its fields; `base` names one to begin with, `kind` says what it is."""
    table = dict(given)
    kind, base = table.pop("kind", None), table.pop("base", None)
    if kind is not None and not (isinstance(kind, str) and kind in KINDS):
        raise ValueError(f"unknown kind {kind!r}; use one of {', '.join(map(repr, KINDS))}")
    begun = None if base is None else _base(base, kind, local)
    if begun is not None and kind not in (None, kind_of(begun)):
        raise ValueError(f"base={base!r} is {_OWNERS[type(begun)]}, but kind={kind!r}; leave out kind")
    cls = KINDS[kind or _guessed(table)] if begun is None else type(begun)
    if cls is Format and begun is None:
        return format_of(table)
    made: Specification = _made(cls, table, begun, local)
    return made


def _guessed(table: Mapping[str, Any]) -> str:
    """Return the kind that has most of a table's keys as fields."""
    keys = set(table) - {"name", "source"}
    counts = {kind: len(keys & set(fields_of(cls))) for kind, cls in KINDS.items()}
    best = [kind for kind, count in counts.items() if count and count == max(counts.values())]
    if len(best) != 1:
        said = " and ".join(sorted(keys)) or "a name"
        which = f"which it is, {' or '.join(best)}" if best else "what it is"
        raise ValueError(f"{said} does not say {which}; add kind, one of {', '.join(map(repr, KINDS))}")
    return best[0]


def _base(name: Any, kind: str | None, local: Local) -> Specification:
    """Return the object of that name: of the file, else of the catalogs."""
    if not isinstance(name, str):
        raise ValueError(f"base={name!r} must be a name")
    if name in local:
        return local[name]
    lookups: dict[str, Callable[[str], Specification]] = {
        "block format": catalog.block_format,
        "profile": profile,
        "format": catalog.format,
        "accumulation": accumulation,
    }
    for of, find in lookups.items():
        if kind in (None, of):
            try:
                return find(name)
            except ValueError as error:
                if kind == of or "ambiguous" in str(error):
                    raise ValueError(f"base: {error}") from None
    near = close_names(name, [*local, *NAMES, *catalog.BLOCK_FORMATS, *catalog.FORMATS, *PROFILES])
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ValueError(f"base={name!r} is the name of nothing{hint}")


def format_of(given: Mapping[str, Any]) -> Format:
    """Return a format from its fields.

    >>> format_of({"exponent_bits": 4, "trailing_bits": 3, "nans": 1}) == catalog.E4M3FN
    True

    Raises ValueError: an unknown field, or one that is missing or cannot be.
    """
    _check_fields(Format, given)
    for needed in ("exponent_bits", "trailing_bits"):
        if needed not in given:
            raise ValueError(f"a format's definition needs {needed}=")
    try:
        made: Format = _made(Format, given, None, {})
    except TypeError as error:
        raise ValueError(str(error)) from None
    return made


def _check_fields(cls: type, table: Mapping[str, Any]) -> None:
    """Refuse keys that are no fields, with those that are close, and all that there are."""
    known = fields_of(cls)
    for key in sorted(set(table) - set(known)):
        near = close_names(key, known)
        owner = next((_OWNERS[other] for other in _OWNERS if key in fields_of(other)), None)
        hint = f"did you mean {' or '.join(near)}? " if near else f"{owner} has it; " if owner else ""
        raise ValueError(f"unknown field {key!r} of {_OWNERS[cls]}; {hint}the fields are {', '.join(known)}")


def _made(cls: Any, table: Mapping[str, Any], base: Any, local: Local) -> Any:
    """Return an object of a class from a table; what the table leaves out is as `base` has it."""
    _check_fields(cls, table)
    fields = fields_of(cls)
    values: dict[str, Any] = {"versions": "", "formats": {}} if cls is Profile and base is None else {}
    for key, value in table.items():
        begun = default_of(fields[key]) if base is None else getattr(base, key)
        values[key] = _value(cls, fields[key], value, begun, local)
    if cls is Codebook and base is not None:
        kept = [name for name in fields if name != "thresholds" or "values" not in values]
        values = {name: getattr(base, name) for name in kept} | values
    elif base is not None:
        return dataclasses.replace(base, **values)
    missing = [name for name, field in fields.items() if name not in values and not is_optional(field)]
    if missing:
        raise ValueError(f"{_OWNERS[cls]} needs {' and '.join(missing)}")
    return cls(**values)


# -- fields -----------------------------------------------------------------------------------------


def _value(cls: type, field: dataclasses.Field[Any], value: Any, begun: Any, local: Local) -> Any:
    """Return what a field is given: of a name what it stands for, of a table what it describes."""
    kind, name = str(field.type), field.name
    if any(
        isinstance(each, int) and abs(each) > _LARGEST
        for each in (value if isinstance(value, list) else [value])
    ):
        raise ValueError(f"{name} is an integer beyond float64's range")
    if "Number" in kind:
        if isinstance(value, list):
            return [_number(name, each) for each in value]
        if kind.startswith("tuple"):
            raise ValueError(f"{name}={value!r} of a codebook must be a list of numbers")
        return _number(name, value)
    if "None" in kind and value == NOTHING.get(name, "none"):
        return None
    if "Rounded" in kind:
        return _place(name, value, begun, local)
    if kind.startswith("Mapping"):
        return _mapping(name, value, local)
    if "Format" in kind:
        return _formats(name, kind, value, local)
    if kind.startswith("Projection"):
        return _nested(Projection, name, value, begun, local)
    if kind.startswith("Split"):
        return _nested(Split, name, value, begun, local)
    if kind in ("ScaleRule", "Rounding"):
        return _nested(ScaleRule if kind == "ScaleRule" else Rounding, name, value, None, local)
    if kind in ("Sign", "Threshold"):
        return _member(Sign if kind == "Sign" else Threshold, name, value)
    if kind.startswith("Fraction"):
        return _fraction(name, value)
    if "float" in kind and type(value) is int:
        return float(value)
    return tuple(value) if isinstance(value, list) else value


def _nested(cls: Any, name: str, value: Any, begun: Any, local: Local) -> Any:
    """Return a projection, a scale rule or a rounding mode from a table; the latter two have names too."""
    named = cls in (ScaleRule, Rounding)
    if isinstance(value, dict):
        return _made(cls, {"name": "private", **value} if named else value, begun, local)
    if isinstance(value, str) and named:
        return value
    raise ValueError(
        f"{name}={value!r} must be a table with fields of {_OWNERS[cls]}: {', '.join(fields_of(cls))}"
    )


def _place(name: str, value: Any, begun: Any, local: Local) -> Any:
    """Return a (Format, Projection) or a window: from a name, a format and a mode, or a table."""
    if isinstance(value, str):
        return _format(name, value, local)
    if isinstance(value, list) and len(value) == 2 and all(isinstance(item, str) for item in value):
        return _format(name, value[0], local), value[1]
    if not isinstance(value, dict):
        raise ValueError(
            f"{name}={value!r} must be a format's name, a list of a format and a rounding mode, or a table "
            f"with format and the fields of a projection"
        )
    table = dict(value)
    fmt = table.pop("format", None)
    if (
        name == "accumulator"
        and fmt is None
        and (isinstance(begun, Window) or set(table) & set(fields_of(Window)))
    ):
        return _made(Window, table, begun if isinstance(begun, Window) else None, local)
    held: Any = begun if isinstance(begun, tuple) else (None, None)
    if fmt is None and held[0] is None:
        also = ", or the fields of a window" if name == "accumulator" else ""
        raise ValueError(f"{name} needs format, beside the fields of a projection{also}")
    return held[0] if fmt is None else _format(name, fmt, local), _made(Projection, table, held[1], local)


def _formats(name: str, kind: str, value: Any, local: Local) -> Any:
    """Return one format, or a tuple of what are formats and numbers; one operand's name stands for both."""
    if not kind.startswith("tuple"):
        return _format(name, value, local)
    if isinstance(value, str) and kind.startswith("tuple[Format, Format]"):
        value = [value, value]
    if not isinstance(value, list):
        wanted = "a list [format, size]" if "int" in kind else "a list of formats' names"
        raise ValueError(f"{name}={value!r} must be {wanted}")
    return tuple(item if type(item) is int else _format(name, item, local) for item in value)


def _format(place: str, name: Any, local: Local) -> Format:
    """Return the format of that name, of the file before the catalog's."""
    if not isinstance(name, str):
        raise ValueError(f"{place}={name!r} must be a format's name")
    known = local.get(name)
    if isinstance(known, Format):
        return known
    try:
        return catalog.carrier(name) or catalog.format(name)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _mapping(name: str, value: Any, local: Local) -> Any:
    """Return a profile's projections by format, or its block formats by the catalog's."""
    if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
        raise ValueError(f"{name} of a profile must be a table with a table for each format's name")
    made: dict[Any, Any] = {}
    for key, table in value.items():
        if name == "formats":
            made[_format(name, key, local)] = _made(Projection, table, None, local)
        else:
            known = local.get(key)
            block = known if isinstance(known, BlockFormat) else catalog.block_format(key)
            made[block] = _made(BlockFormat, table, block, local)
    return made


def _member(of: Any, name: str, value: Any) -> Any:
    for member in of:
        if isinstance(value, str) and value == member.name.lower():
            return member
    owner = "a format" if of is Sign else "a rounding mode"
    raise ValueError(
        f"{name}={value!r} of {owner} is unknown; use one of {', '.join(each.name.lower() for each in of)}"
    )


def _number(name: str, value: Any) -> Any:
    """Return a number of a codebook; from text such as "3*2^-140" a fraction."""
    return _fraction(name, value) if isinstance(value, str) and value not in ("gap", "never") else value


def _fraction(name: str, value: Any) -> Fraction:
    """Return a number of any size, exactly; most are in text."""
    try:
        return read_number(value) if isinstance(value, str) else Fraction(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    except (TypeError, OverflowError):
        raise ValueError(f'{name}={value!r} must be a fraction such as "4/3"') from None
