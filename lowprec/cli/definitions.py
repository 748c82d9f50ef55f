"""Private formats from the command line and from TOML files."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lowprec.spec.format import Format, Sign

__all__ = ["from_mapping", "from_text", "from_toml"]

#: Bytes of a definition. Time grows with the square of what a hostile one has.
_MOST = 1 << 13

_FIELDS = {field.name: str(field.type) for field in dataclasses.fields(Format)}


def from_text(text: str) -> Format:
    """Return a format from `key=value` pairs, separated by commas.

    Keys are the fields of `Format`. The bias is IEEE's where it is not given.

    >>> from_text("name=mine,exponent_bits=3,trailing_bits=4,nans=1").max_finite
    30.0

    Raises
    ------
    ValueError
        An unknown key, a value that the field does not take, or impossible parameters.
    """
    fields: dict[str, Any] = {}
    for pair in text.split(","):
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals:
            raise ValueError(f"{pair!r} of a format's definition is no key=value pair")
        if key in fields:
            raise ValueError(f"{key!r} is given twice in a format's definition")
        fields[key] = _parsed(key, value)
    return from_mapping(fields)


def from_toml(path: Path) -> Format:
    """Return a format from a TOML file whose keys are the fields of `Format`.

    Raises
    ------
    ValueError
        As for `from_text`, or no TOML.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MOST + 1)
        if len(text) > _MOST:
            raise ValueError(f"a format is defined in a few lines, and this has more than {_MOST:,} bytes")
        fields = tomllib.loads(text.decode())
    except RecursionError:
        raise ValueError(f"cannot read {str(path)!r} as TOML: it is nested too deeply") from None
    except (ValueError, OSError) as error:
        raise ValueError(f"cannot read {str(path)!r} as TOML: {error}") from None
    return from_mapping({"name": path.stem, **fields})


def from_mapping(fields: Mapping[str, Any]) -> Format:
    """Return a format from its fields; `sign` by name, `bias` and `name` optional."""
    given = {"name": "private", **fields}
    unknown = sorted(set(given) - set(_FIELDS))
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r} of a format; the fields are {', '.join(_FIELDS)}")
    for needed in ("exponent_bits", "trailing_bits"):
        if needed not in given:
            raise ValueError(f"a format's definition needs {needed}=")
    if "sign" in given:
        given["sign"] = _sign(given["sign"])
    if "bias" not in given:
        width = given["exponent_bits"]
        given["bias"] = (1 << width >> 1) - 1 if isinstance(width, int) and 0 <= width <= 32 else 0
    try:
        return Format(**given)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _parsed(key: str, value: str) -> Any:
    kind = _FIELDS.get(key, "str")
    if kind == "int":
        try:
            return int(value, 0)
        except ValueError:
            raise ValueError(f"{key}={value[:40]!r} of a format must be an integer") from None
    if kind == "bool":
        if value.lower() not in ("true", "false"):
            raise ValueError(f"{key}={value!r} of a format must be true or false")
        return value.lower() == "true"
    return value


def _sign(value: object) -> Sign:
    try:
        return Sign(value)
    except ValueError:
        names = ", ".join(sign.value for sign in Sign)
        raise ValueError(f"sign={value!r} of a format is unknown; use one of {names}") from None
