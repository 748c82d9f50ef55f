"""Private formats from the command line."""

from __future__ import annotations

import dataclasses
from typing import Any

from lowprec.spec.format import Format
from lowprec.spec.toml_reading import format_of

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
    return format_of(fields)


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
