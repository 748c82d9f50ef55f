"""HTML page that explores formats: the package's parameters as data, and scripts that compute with them.

The scripts are files in `explorer/`; they know no format. Needs neither numba nor NumPy.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Container, Iterable
from fractions import Fraction
from importlib import resources
from typing import Any

from lowprec import __version__
from lowprec.oracle.codebook import decode
from lowprec.oracle.exact import Exact, Special
from lowprec.spec.block import RULES, BlockFormat
from lowprec.spec.catalog import BINARY32, BINARY64, BLOCK_FORMATS, FORMATS
from lowprec.spec.codebook import TIES, Codebook, Number, Ray
from lowprec.spec.codebooks import ENTRIES, named
from lowprec.spec.fields import by_field
from lowprec.spec.format import Format, Sign
from lowprec.spec.profiles import PROFILES
from lowprec.spec.projection import DEFAULT, Projection, Saturation
from lowprec.spec.rounding import MODES, Rounding

_SCRIPTS = (
    *("numbers.js", "formats.js", "rounding.js", "state.js", "order.js", "define.js", "blocks.js"),
    *("code_view.js", "line_view.js", "table_view.js", "round_view.js", "block_view.js", "start.js"),
)

#: Bits of the codebooks that the page has; wider ones are tables of 65,536 values.
_WIDEST = 8


def page(others: Iterable[Format] = (), first: str = "e4m3fn") -> str:
    """Return the explorer as one HTML page, which loads nothing.

    >>> page().count("<script")
    2

    Parameters
    ----------
    others : iterable of Format
        Formats beside the catalog's.
    first : str
        The name of the format that the page opens with.
    """
    folder = resources.files("lowprec.export") / "explorer"
    scripts = "\n".join((folder / name).read_text("utf-8") for name in _SCRIPTS)
    data = json.dumps({**page_data(others), "first": first}, separators=(",", ":")).replace("<", "\\u003c")
    made = (folder / "page.html").read_text("utf-8")
    for mark, content in (
        ("/*STYLE*/", (folder / "style.css").read_text("utf-8")),
        ("/*SCRIPTS*/", scripts.replace('"use strict";\n', "")),
        ("/*DATA*/", data),
    ):
        made = made.replace(mark, content, 1)
    return made


def page_data(others: Iterable[Format] = ()) -> dict[str, Any]:
    """Return what the page knows: formats, modes, saturations and profiles, as JSON takes them.

    Left out are projections of profiles that round stochastically: they need random integers.
    """
    books = [named(name) for name, entry in ENTRIES.items() if entry.width <= _WIDEST]
    known = {fmt.name: fmt for fmt in (*FORMATS.values(), *books) if fmt is not None}
    formats = known | {fmt.name: fmt for fmt in others}
    stops = {
        stop.name: stop
        for profile in PROFILES.values()
        for fmt in formats.values()
        if fmt in profile.formats
        for stop in profile.formats[fmt].via
    }
    parts = {
        fmt.name: fmt for block in BLOCK_FORMATS.values() for fmt in (block.element, block.scale, BINARY32)
    }
    return {
        "single": BINARY32.name,
        "double": _format(BINARY64),
        "own": _own_name(formats),
        "private": [name for name, fmt in formats.items() if known.get(name) != fmt],
        "signs": [each.value for each in Sign],
        "ties": {name: _mode(mode) for name, mode in TIES.items()},
        "block_parts": {name: _format(fmt) for name, fmt in parts.items()},
        "blocks": {name: _block(block) for name, block in BLOCK_FORMATS.items()},
        "rules": [
            {**dataclasses.asdict(rule), "threshold": rule.threshold and str(rule.threshold)}
            for rule in RULES
        ],
        "version": __version__,
        "formats": {name: _format(fmt) for name, fmt in formats.items()},
        "stops": {name: _format(fmt) for name, fmt in stops.items()},
        "modes": [_mode(mode) for mode in MODES],
        "saturations": [each.value for each in Saturation],
        "default": _projection(DEFAULT),
        "profiles": {
            profile.name: {
                "versions": profile.versions,
                "formats": {
                    name: _projection(profile.formats[fmt])
                    for name, fmt in formats.items()
                    if fmt in profile.formats and not profile.formats[fmt].rounding.bits
                },
            }
            for profile in PROFILES.values()
        },
    }


def _own_name(taken: Container[str]) -> str:
    """Return a name for the format that is defined on the page."""
    return next(name for name in map("mine{}".format, ("", *range(2, 100))) if name not in taken)


def _format(fmt: Format) -> dict[str, Any]:
    if isinstance(fmt, Codebook):
        names = ("name", "source", "sign", "subnormals", "has_negative_zero", "nan_code", "infinity_codes")
        return {name: getattr(fmt, name) for name in names} | {
            "sign": fmt.sign.value,
            "tie_mode": _mode(TIES[fmt.ties]),
            "values": [_exact(decode(code, fmt)) for code in range(1 << fmt.width)],
            "rays": [_ray(fmt.ray(negative)) for negative in (False, True)],
        }
    return by_field(fmt) | {"sign": fmt.sign.value}


def _block(block: BlockFormat) -> dict[str, Any]:
    return by_field(block) | {
        "size": list(block.sizes),
        "element": block.element.name,
        "scale": block.scale.name,
        "rule": block.rule.name,
        "elements": _projection(block.elements),
        "scales": _projection(block.scales),
        "min_scale": _number(block.min_scale),
        "smallest_divides_as": _number(block.smallest_divides_as),
    }


def _ray(ray: Ray) -> dict[str, Any]:
    return {
        "sizes": [_number(each) for each in ray.sizes],
        "codes": ray.codes,
        "thresholds": [_number(each) for each in ray.thresholds],
        "beyond": _number(ray.beyond),
    }


def _exact(value: Exact) -> Any:
    return value.value if isinstance(value, Special) else _number(value)


def _number(value: Number | None) -> list[Any] | None:
    """Return a binary fraction as its significand, in text, and its exponent."""
    if value is None:
        return None
    number = Fraction(value)
    return [str(number.numerator), 1 - number.denominator.bit_length()]


def _mode(mode: Rounding) -> dict[str, Any]:
    thresholds = (
        mode.threshold(negative=negative, odd=odd) for negative in (False, True) for odd in (False, True)
    )
    return {"name": mode.name, "thresholds": [each.name.lower() for each in thresholds]}


def _projection(how: Projection) -> dict[str, Any]:
    return by_field(how) | {
        "rounding": _mode(how.rounding),
        "saturation": how.saturation.value,
        "via": [fmt.name for fmt in how.via],
    }
