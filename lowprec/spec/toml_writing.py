"""Specifications to TOML: what is named, as a file to begin with.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from lowprec.spec import catalog
from lowprec.spec.accumulation import Window
from lowprec.spec.block import RULES, ScaleRule
from lowprec.spec.codebook import Codebook, Number
from lowprec.spec.format import Format, Sign
from lowprec.spec.order import Order, Split
from lowprec.spec.profiles.profile import OnDemand
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import MODES, Rounding, Threshold
from lowprec.spec.toml_reading import (
    KINDS,
    NOTHING,
    Specification,
    default_of,
    fields_of,
    is_optional,
    kind_of,
)

#: Values of a codebook in a file, at most.
_MOST = 256


def to_toml(*specs: Specification | Mapping[str, Specification]) -> str:
    """Return objects as TOML, which `load_toml` reads; fields that have their defaults are left out.

    >>> from lowprec.spec.accumulations import ACCUMULATIONS
    >>> print(to_toml(ACCUMULATIONS["ada_mma_binary16_binary16"]), end="")
    kind = "accumulation"
    name = "ada_mma_binary16_binary16"
    source = "KHATTAK"
    output = { format = "binary16", nan_code = 0x7fff, nan_sign = "drop" }
    operands = ["binary16", "binary16"]
    <BLANKLINE>
    [accumulator]
    step = 8
    fraction_bits = 24
    result = { format = "binary16", nan_code = 0x7fff, nan_sign = "drop" }
    lowest_exponent = -20

    Parameters
    ----------
    specs : Format, BlockFormat, Accumulation or Profile, each
        Or a mapping of names to such, as `load_toml` returns. Formats that no name stands for come first, in
        tables of their own.

    Raises
    ------
    ValueError
        A profile of formats that are made on demand, which nothing could list; a codebook of more than 256
        values; two objects of one name.
    """
    given = [each for spec in specs for each in (spec.values() if isinstance(spec, Mapping) else (spec,))]
    private: dict[str, Specification] = {}  # by the keys of their tables
    for spec in given:
        if not isinstance(spec, tuple(KINDS.values())):
            raise TypeError(f"to_toml takes one of {', '.join(KINDS)}, not a {type(spec).__name__}")
        if isinstance(spec, Codebook) and len(spec.values) > _MOST:
            raise ValueError(
                f"codebook {spec.name!r} has {len(spec.values):,} values; files hold codebooks of at most "
                f"{_MOST:,}"
            )
        if private.setdefault(spec.name, spec) != spec or len(given) > 1 and not spec.name:
            raise ValueError(f"of several objects each needs a name of its own, and one is {spec.name!r}")
    if not given:
        raise TypeError(f"to_toml takes one of {', '.join(KINDS)}, or several, not none")
    tables = {
        spec.name: {
            "kind": _string(kind_of(spec)),
            "name": _string(spec.name),
            **_written(spec, None, private),
        }
        for spec in given
    }
    if len(tables) == len(private) == 1:
        return "".join(_section(tables[given[0].name], ""))
    parts = []
    for key, fmt in private.items():
        if key not in tables:
            named = {} if key == fmt.name else {"name": _string(fmt.name)}
            parts.append(
                _section({"kind": _string(kind_of(fmt)), **named, **_written(fmt, None, {})}, _key(key))
            )
    parts += [_section(tables[spec.name], _key(spec.name)) for spec in sorted(given, key=_is_made_of_others)]
    return "\n".join("".join(part) for part in parts)


def _is_made_of_others(spec: Specification) -> bool:
    return not isinstance(spec, Format | Codebook)


def _section(fields: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yield the lines of a table: plain values first, then tables of their own."""
    if prefix:
        yield f"[{prefix}]\n"
    yield from (f"{key} = {value}\n" for key, value in fields.items() if not isinstance(value, dict))
    for key, value in fields.items():
        if isinstance(value, dict):
            yield "\n"
            yield from _section(value, f"{prefix}.{key}" if prefix else key)


def _written(spec: Any, base: Any, private: dict[str, Specification]) -> dict[str, Any]:
    """Return the fields that differ from those of `base`, or from their defaults, as TOML."""
    if isinstance(spec, Codebook):
        return _codebook(spec)
    made: dict[str, Any] = {}
    for name, field in sorted(
        fields_of(type(spec)).items(), key=lambda item: item[0] not in ("name", "source")
    ):
        value = getattr(spec, name)
        begun = default_of(field) if base is None else getattr(base, name)
        kept = value == begun and (base is not None or is_optional(field))
        if not kept and (value or not isinstance(value, Mapping)):
            made[name] = _text(name, value, begun, private)
    return made


def _codebook(book: Codebook) -> dict[str, str]:
    """Return a codebook's fields as TOML, without those that are the defaults."""
    plain = None
    with contextlib.suppress(ValueError):  # of values whose midpoints are no thresholds
        plain = Codebook(book.name, book.values, ties=book.ties, overflow=book.overflow)
    fields: dict[str, Any] = {"name": book.name, "source": book.source, "values": book.values}
    fields["thresholds"] = () if plain and book.thresholds == plain.thresholds else book.thresholds
    fields["ties"] = book.ties if book.ties != "even" else ""
    fields["overflow"] = book.overflow if book.overflow != "gap" else ""
    made = {}
    for name, value in fields.items():
        if isinstance(value, tuple) and value:
            rows = [", ".join(map(_number, value[i : i + 8])) for i in range(0, len(value), 8)]
            made[name] = "[\n" + "".join(f"    {row},\n" for row in rows) + "]"
        elif value:
            made[name] = _string(value) if isinstance(value, str) else _number(value)
    return made


def _number(number: Number) -> str:
    """Return a number as TOML; binary fractions that are no float64 as text."""
    if isinstance(number, float):
        return repr(number)
    shift = (number.numerator & -number.numerator).bit_length() - number.denominator.bit_length()
    return f'"{number / Fraction(2) ** shift}*2^{shift}"'


def _text(name: str, value: Any, begun: Any, private: dict[str, Specification]) -> Any:
    """Return a value as TOML: text, or a table of such."""
    if value is None:
        return _string(NOTHING.get(name, "none"))
    if isinstance(value, bool):
        return str(value).lower()
    if name == "nan_code":
        return hex(value)
    if isinstance(value, Format):
        return _string(_name_of(value, private))
    if isinstance(value, Window | Split):
        return _written(value, None, private)
    if isinstance(value, Projection):
        return _inline(_written(value, begun, private))
    if isinstance(value, Mapping):
        return _table(name, value, private)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Projection):
        place, how = _string(_name_of(value[0], private)), _written(value[1], None, private)
        return _inline({"format": place, **how}) if how else place
    if isinstance(value, tuple):
        return f"[{', '.join(_text(name, item, None, private) for item in value)}]"
    if isinstance(value, Sign | Threshold):
        return _string(value.name.lower())
    if isinstance(value, Order | Saturation) or value in (*MODES, *RULES):
        return _string(str(value))
    if isinstance(value, Rounding) and value.bits:
        return _string(str(value))
    if isinstance(value, ScaleRule | Rounding):
        return _inline(_written(value, None, private))
    if isinstance(value, str | Fraction):
        return _string(str(value))
    return json.dumps(value)


def _table(name: str, items: Mapping[Any, Any], private: dict[str, Specification]) -> dict[str, Any]:
    if isinstance(items, OnDemand):
        raise ValueError("a profile whose formats are made on demand cannot be written: they are too many")
    if name == "formats":
        return {
            _key(_name_of(fmt, private)): _inline(_written(rule, None, private))
            for fmt, rule in items.items()
        }
    return {_key(fmt.name): _inline(_written(of, fmt, private)) for fmt, of in items.items()}


def _inline(fields: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{key} = {value}' for key, value in fields.items())} }}" if fields else "{}"


def _name_of(fmt: Format, private: dict[str, Specification]) -> str:
    """Return the name that stands for a format; put a format that has none among the private ones.

    A format whose name another one has stands under a name with a number.
    """
    try:
        known = catalog.carrier(fmt.name) or catalog.format(fmt.name)
    except ValueError:
        known = None
    if known == fmt:
        return fmt.name
    numbered = (f"{fmt.name}_{number}" for number in itertools.count(2))
    is_free = known is None and fmt.name != "none"  # which is read as no format
    names = itertools.chain([fmt.name] if is_free else [], numbered)
    return next(name for name in names if private.setdefault(name, fmt) == fmt)


def _string(text: str) -> str:
    """Return printable text as TOML in ASCII; letters beyond 16 bits are one escape there, unlike in JSON."""
    letters = (f"\\U{ord(each):08x}" if each > "\uffff" else json.dumps(each)[1:-1] for each in text)
    return f'"{"".join(letters)}"'


def _key(name: str) -> str:
    bare = name and all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name)
    return name if bare else _string(name)
