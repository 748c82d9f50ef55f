"""The private format of a command line: --define says its parameters, and arguments name it."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from lowprec.spec.format import Format
from lowprec.spec.toml_reading import format_of

#: The key under which click's context keeps the definition.
_KEY = __name__

_FIELDS = {field.name: str(field.type) for field in dataclasses.fields(Format)}


@dataclasses.dataclass
class Definition:
    """A format that --define defines, its text, and whether an argument named it."""

    text: str
    fmt: Format
    named: bool = False


def keep(context: click.Context, text: str) -> None:
    """Keep what --define says, for the arguments of this command."""
    context.meta[_KEY] = Definition(text, from_text(text))


def given() -> Definition | None:
    """Return the definition of this command; None without --define."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_KEY)


def named(name: str) -> Format | None:
    """Return the format that is defined, if this is its name."""
    definition = given()
    if definition is None or definition.fmt.name != name:
        return None
    definition.named = True
    return definition.fmt


def check_named() -> None:
    """Refuse a definition that no argument names."""
    definition = given()
    if definition is not None and not definition.named:
        name = definition.fmt.name
        raise click.UsageError(
            f"--define defines {name!r}, which no argument names; name {name}, or leave --define out"
        )


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
