"""Formats as text: the list, and a card for one with its limits, special codes and encoding.

Needs neither numba nor NumPy: what it shows comes from the parameters and the oracle.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from lowprec.oracle.convert import decode, project
from lowprec.oracle.exact import Exact, Special, to_float
from lowprec.spec import catalog, codebooks
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.evidence.evidence import evidence_for
from lowprec.spec.format import Format, Sign
from lowprec.spec.naming import plain
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection
from lowprec.verify.codes.display import hex_code, hex_of, number

#: Formats that a row of the list of profiles names.
_NAMED = 6


def columns(*names: str, right: Sequence[str] = (), fold: Sequence[str] = ()) -> Table:
    """Return an empty table with these headings; columns are left-aligned unless named, and fold if named."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        kept = name not in fold
        table.add_column(name, justify="right" if name in right else "left", no_wrap=kept, overflow="fold")
    return table


def facts(described: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names and what they are."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in described:
        table.add_row(name, escape(plain(value)))
    return table


def text_of(value: Any) -> str:
    """Return a field's value as cards and pages show it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Projection):
        return differences(value) or "-"
    return "-" if value is None or value == "" else str(value)


def listing(formats: Iterable[Format] | None = None) -> RenderableType:
    """Return formats, by default all of the catalog, a row each."""
    names = ("bits", "e", "t", "bias", "max_finite", "min_normal", "min_subnormal", "Inf", "NaN", "-0")
    table = columns("format", *names, right=names)
    for fmt in catalog.FORMATS.values() if formats is None else formats:
        sizes = (fmt.width, fmt.exponent_bits, fmt.trailing_bits, fmt.bias)
        limits = (fmt.max_finite, fmt.min_normal, fmt.min_subnormal)
        specials = (_code(fmt.infinity_code, fmt), _code(fmt.nan_code, fmt), text_of(fmt.has_negative_zero))
        table.add_row(fmt.name, *map(str, sizes), *map(number, limits), *specials)
    return table


def card(fmt: Format) -> RenderableType:
    """Return what there is to say of one format; up to 8 bits with its whole encoding."""
    table = facts((name, shown(name, value, fmt)) for name, value in describe(fmt).items() if name != "name")
    parts: list[RenderableType] = [f"[bold]{fmt.name}[/bold]  {sentence(fmt)}", "", table]
    if fmt.width <= 4 and isinstance(fmt, Codebook):
        parts += ["", "every value, in ascending order, and the threshold above it", _ascending(fmt)]
    elif fmt.width <= 8:
        parts += [
            "",
            "the value of every code; the row gives its upper bits, the column its lower",
            _encoding(fmt),
        ]
    return Group(*parts)


def profile_card(profile: Profile, fmt: Format | None) -> RenderableType:
    """Return what a profile does: the projection of each of its formats, and what telling operands become."""
    chosen = list(profile.formats) if fmt is None else [fmt]
    rest = "projection (what is not the default)"
    table = columns("format", "overflow", "+Inf", "-Inf", "NaN", "-NaN", "0", "-0", rest, fold=(rest,))
    for target in chosen:
        projection = profile.projection(target)
        codes = [_projected(operand, target, projection) for operand in _telling(target)]
        table.add_row(target.name, *codes, differences(projection))
    said = escape(f"{profile.versions}; source {profile.source}")
    return Group(f"[bold]{profile.name}[/bold]  {said}", "", table)


def profile_listing(profiles: Iterable[Profile]) -> RenderableType:
    """Return profiles, a row each."""
    table = columns("profile", "formats", "block formats", "evidence", "versions")
    for profile in profiles:
        found = evidence_for(profile.name)
        names = _names(profile.formats), _names(profile.blocks)
        table.add_row(profile.name, *names, found[0].kind if found else "-", profile.versions)
    return table


def _names(formats: Iterable[Format | BlockFormat]) -> str:
    names = [fmt.name for fmt in formats]
    if len(names) > _NAMED:
        names[_NAMED - 1 :] = [f"and {len(names) - _NAMED + 1} more"]
    return " ".join(names) or "-"


def describe_profile(profile: Profile) -> dict[str, Any]:
    """Return a profile as plain data in a fixed order: of each projection what is not the default."""
    return {
        "name": profile.name,
        "versions": profile.versions,
        "formats": {fmt.name: differences(projection) for fmt, projection in profile.formats.items()},
        "block_formats": [fmt.name for fmt in profile.blocks],
        "evidence": [str(each) for each in evidence_for(profile.name)],
        "source": profile.source,
    }


def _telling(fmt: Format) -> tuple[Exact, ...]:
    """Return operands that tell stacks apart."""
    nans = (Special.NAN, Special.NEGATIVE_NAN)
    infinities = (Special.INFINITY, Special.NEGATIVE_INFINITY)
    return (Fraction(fmt.max_finite) * 4, *infinities, *nans, Fraction(0), Special.NEGATIVE_ZERO)


def differences(projection: Projection) -> str:
    """Return the fields of a projection that are not the default, formats by name.

    >>> differences(Projection(rounding="to_odd"))
    'rounding=to_odd'
    """
    said = []
    for field in dataclasses.fields(projection):
        value = getattr(projection, field.name)
        if value != field.default:
            shown = " ".join(stop.name for stop in value) if field.name == "via" else str(value)
            said.append(f"{field.name}={shown}")
    return ", ".join(said)


def _projected(operand: Exact, fmt: Format, projection: Projection) -> str:
    random = 0 if projection.rounding.bits else None
    try:
        return _code(project(operand, fmt, projection, random=random), fmt)
    except ValueError:
        return "refused"


def describe(fmt: Format) -> dict[str, Any]:
    """Return parameters and everything derived from them, as plain data in a fixed order."""
    if isinstance(fmt, Codebook):
        return _describe_codebook(fmt)
    changed = {
        "emin": fmt.emin if fmt.exponent_bits else None,
        "sign": fmt.sign.value,
        "nans": fmt.nans if fmt.negative_zero else 1,
        "negative_zero": fmt.has_negative_zero,
        "subnormals": fmt.subnormals and fmt.trailing_bits > 0 and fmt.exponent_bits > 0,
        "ml_dtypes": catalog.ml_dtypes_name(fmt),
    }
    names = "name width exponent_bits trailing_bits precision bias emin emax sign infinity_code nan_code nans"
    names += " negative_zero subnormals max_finite min_finite min_normal min_subnormal eps code_bits"
    names += " ml_dtypes"
    return _described(fmt, names, changed)


def _described(fmt: Any, names: str, changed: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of an object, of some of which something else is told, and its source."""
    every = (*names.split(), "source")
    return {name: changed[name] if name in changed else getattr(fmt, name) for name in every}


def _describe_codebook(fmt: Codebook) -> dict[str, Any]:
    finite = [value for value in fmt.values if math.isfinite(value)]
    midpoints = Codebook(fmt.name, fmt.values, ties=fmt.ties, overflow=fmt.overflow).thresholds
    changed = {
        "numbers": len(finite),
        "sign": fmt.sign.value if fmt.sign is Sign.UNSIGNED else "signed",
        "zero": fmt.subnormals,
        "negative_zero": fmt.has_negative_zero,
        "negative_infinity_code": fmt.infinity_codes[1],
        "min_positive": min((value for value in finite if value > 0), default=None),
        "thresholds": "midpoints" if fmt.thresholds == midpoints else "its own",
        "overflow": fmt.overflow if isinstance(fmt.overflow, str) else float(fmt.overflow),
    }
    names = "name width numbers sign zero negative_zero infinity_code negative_infinity_code nan_code nans"
    names += " max_finite min_finite min_positive eps thresholds ties overflow code_bits"
    return _described(fmt, names, changed)


def codebook_listing(names: Iterable[str]) -> RenderableType:
    """Return named codebooks, a row each, without making them."""
    table = columns("codebook", "bits", "what", "source", right=("bits",))
    for name in names:
        each = describe_entry(name)
        table.add_row(name, str(each["width"]), each["what"], each["source"])
    return table


def describe_entry(name: str) -> dict[str, Any]:
    """Return what is known of a named codebook before it is made, as plain data."""
    entry = codebooks.ENTRIES[name]
    return {"name": name, "width": entry.width, "what": entry.what, "source": entry.source}


def sentence(fmt: Format) -> str:
    """Return one sentence from the parameters."""
    several = fmt.sign is Sign.MAGNITUDE
    nan = f"{fmt.nans} NaN{'s' if fmt.nans > 1 else ''}" if fmt.nans else ""
    if isinstance(fmt, Codebook):
        what = f"{'signed' if several else 'unsigned'} codebook, {fmt.width} bits"
        both = None not in fmt.infinity_codes
    else:
        kinds = {
            Sign.MAGNITUDE: "signed",
            Sign.UNSIGNED: "unsigned",
            Sign.TWOS_COMPLEMENT: "two's complement",
        }
        step = fmt.scaled(0)[1]
        what = f"{'integer' if step == 0 else f'fixed point in steps of 2^{step}'}, {fmt.width} bits"
        if fmt.exponent_bits:
            fields = f"{fmt.exponent_bits} exponent, {fmt.trailing_bits} trailing"
            what = f"floating point, {fmt.width} bits: {fields}"
        what, both = f"{kinds[fmt.sign]} {what}", several
        nan = f"{nan} of each sign" if nan and several else nan
        nan = nan if fmt.negative_zero else "one NaN in the place of -0"
    infinity = ("infinities" if both else "an infinity") if fmt.infinity else ""
    specials = " and ".join(part for part in (infinity, nan) if part) or "no specials"
    return f"{what}; {specials}{'' if fmt.subnormals else '; no zero'}"


def shown(name: str, value: Any, fmt: Format) -> str:
    """Return a field of a description as cards and pages show it."""
    if name.endswith("_code"):
        return _code(value, fmt)
    if isinstance(value, float) and (exact := number(value)).lstrip("-").startswith("2^"):
        return f"{exact} = {value!r}"
    return text_of(value)


def _code(code: int | None, fmt: Format) -> str:
    return "-" if code is None else hex_code(code, fmt)


def _ascending(fmt: Codebook) -> Table:
    table = columns("value", "code", "threshold", right=("value", "threshold"))
    pairs = sorted((value, code) for code, value in enumerate(fmt.values) if math.isfinite(value))
    finite = [pair for pair in pairs if pair[0] or math.copysign(1, pair[0]) > 0]
    for (value, code), above in zip(finite, [*fmt.thresholds, None], strict=True):
        table.add_row(number(value), hex_code(code, fmt), "" if above is None else number(float(above)))
    return table


def _encoding(fmt: Format) -> Table:
    low = min(fmt.width, 3)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", style="dim", no_wrap=True)
    for column in range(1 << low):
        table.add_column(f"{column:x}", justify="right", no_wrap=True)
    for row in range(0, 1 << fmt.width, 1 << low):
        values = [decode(code, fmt) for code in range(row, row + (1 << low))]
        table.add_row(
            hex_of(row, fmt),
            *(value.value if isinstance(value, Special) else number(to_float(value)) for value in values),
        )
    return table


class _Console(Console):
    """A console that leaves a closed pipe to the command line, instead of exiting with 1."""

    def on_broken_pipe(self) -> None:
        raise


def show(renderable: RenderableType, console: Console | None = None) -> None:
    """Print, as wide as it needs to be: on a narrow terminal lines wrap, and no cell is cut short."""
    console = console or _Console(highlight=False)
    wide = console.options.update(width=10_000)
    needed = max(Measurement.get(console, wide, part).maximum for part in _parts(renderable))
    console.width = max(console.width if console.is_terminal else 80, needed)
    console.print(renderable, soft_wrap=not console.is_terminal)


def _parts(renderable: RenderableType) -> list[RenderableType]:
    return list(renderable.renderables) if isinstance(renderable, Group) else [renderable]
