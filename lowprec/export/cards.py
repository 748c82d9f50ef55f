"""Formats as text: the list, and a card for one with its limits, special codes and encoding.

Needs neither numba nor NumPy: what it shows comes from the parameters and the oracle.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from lowprec.oracle.convert import decode, project
from lowprec.oracle.exact import Exact, Special, to_float
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format, Sign
from lowprec.spec.profiles import PROFILES, Profile
from lowprec.spec.projection import Projection
from lowprec.verify.shown import plain

__all__ = ["card", "describe", "describe_profile", "differences", "listing", "number"]
__all__ += ["profile_card", "profile_listing", "sentence", "show"]

#: Formats that a row of the list of profiles names.
_NAMED = 6


def listing() -> RenderableType:
    """Every format of the catalog, a row each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("format", "bits", "e", "t", "bias"):
        table.add_column(name, justify="left" if name == "format" else "right", no_wrap=True)
    for name in ("max_finite", "min_normal", "min_subnormal", "Inf", "NaN", "-0"):
        table.add_column(name, justify="right", no_wrap=True)
    for fmt in catalog.FORMATS.values():
        table.add_row(
            fmt.name,
            str(fmt.width),
            str(fmt.exponent_bits),
            str(fmt.trailing_bits),
            str(fmt.bias),
            number(fmt.max_finite),
            number(fmt.min_normal),
            number(fmt.min_subnormal),
            _code(fmt.infinity_code, fmt),
            _code(fmt.nan_code, fmt),
            "yes" if fmt.has_negative_zero else "no",
        )
    return table


def card(fmt: Format) -> RenderableType:
    """What there is to say of one format; up to 8 bits with its whole encoding."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in describe(fmt).items():
        if name != "name":
            table.add_row(name, escape(plain(_shown(name, value, fmt))))
    parts: list[RenderableType] = [f"[bold]{fmt.name}[/bold]  {sentence(fmt)}", "", table]
    if fmt.width <= 8:
        parts += ["", "the value of every code; the row gives its upper bits, the column its lower", _encoding(fmt)]
    return Group(*parts)


def profile_card(profile: Profile, fmt: Format | None) -> RenderableType:
    """What a profile does: the projection of each of its formats, or for one also what telling operands become."""
    chosen = list(profile.formats) if fmt is None else [fmt]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in (
        "format",
        "overflow",
        "+Inf",
        "-Inf",
        "NaN",
        "-NaN",
        "0",
        "-0",
        "projection (what is not the default)",
    ):
        table.add_column(name, no_wrap=name != "projection (what is not the default)")
    for target in chosen:
        projection = profile.projection(target)
        codes = [_projected(operand, target, projection) for operand in _telling(target)]
        table.add_row(target.name, *codes, differences(projection))
    return Group(f"[bold]{profile.name}[/bold]  {profile.versions}; source {profile.source}", "", table)


def profile_listing() -> RenderableType:
    """Every profile, a row each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("profile", "formats", "block formats", "versions"):
        table.add_column(name, no_wrap=True)
    for profile in PROFILES.values():
        table.add_row(profile.name, _names(profile.formats), _names(profile.blocks), profile.versions)
    return table


def _names(formats: Iterable[Format | BlockFormat]) -> str:
    names = [fmt.name for fmt in formats]
    if len(names) > _NAMED:
        names[_NAMED - 1 :] = [f"and {len(names) - _NAMED + 1} more"]
    return " ".join(names) or "-"


def describe_profile(profile: Profile) -> dict[str, Any]:
    """Everything a profile says, as plain data in a fixed order: of each projection what is not the default."""
    return {
        "name": profile.name,
        "versions": profile.versions,
        "formats": {fmt.name: differences(projection) for fmt, projection in profile.formats.items()},
        "block_formats": [fmt.name for fmt in profile.blocks],
        "source": profile.source,
    }


def _telling(fmt: Format) -> list[Exact]:
    """Operands that tell stacks apart."""
    large = Fraction(fmt.max_finite) * 4
    return [
        large,
        Special.INFINITY,
        Special.NEGATIVE_INFINITY,
        Special.NAN,
        Special.NEGATIVE_NAN,
        Fraction(0),
        Special.NEGATIVE_ZERO,
    ]


def differences(projection: Projection) -> str:
    """The fields of a projection that are not the default, formats by name.

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
    """Parameters and everything derived from them, as plain data in a fixed order."""
    return {
        "name": fmt.name,
        "width": fmt.width,
        "exponent_bits": fmt.exponent_bits,
        "trailing_bits": fmt.trailing_bits,
        "precision": fmt.precision,
        "bias": fmt.bias,
        "emin": fmt.emin if fmt.exponent_bits else None,
        "emax": fmt.emax,
        "sign": fmt.sign.value,
        "infinity_code": fmt.infinity_code,
        "nan_code": fmt.nan_code,
        "nans": fmt.nans if fmt.negative_zero else 1,
        "negative_zero": fmt.has_negative_zero,
        "subnormals": fmt.subnormals and fmt.trailing_bits > 0 and fmt.exponent_bits > 0,
        "max_finite": fmt.max_finite,
        "min_finite": fmt.min_finite,
        "min_normal": fmt.min_normal,
        "min_subnormal": fmt.min_subnormal,
        "eps": fmt.eps,
        "code_bits": fmt.code_bits,
        "ml_dtypes": catalog.ml_dtypes_name(fmt),
        "source": fmt.source,
    }


def number(value: float | None) -> str:
    """A value as people write it: a power of two as such, others in decimal.

    >>> number(2.0**-9), number(448.0), number(None)
    ('2^-9', '448', '-')
    """
    if value is None:
        return "-"
    fraction, exponent = math.frexp(value)
    if abs(fraction) == 0.5 and not 1 <= abs(value) <= 256:
        return f"{'-' if value < 0 else ''}2^{exponent - 1}"
    return repr(value).removesuffix(".0")


def sentence(fmt: Format) -> str:
    """One sentence from the parameters."""
    kind = {Sign.MAGNITUDE: "signed", Sign.UNSIGNED: "unsigned", Sign.TWOS_COMPLEMENT: "two's complement"}[fmt.sign]
    if fmt.exponent_bits:
        what = f"{kind} floating point, {fmt.width} bits: {fmt.exponent_bits} exponent, {fmt.trailing_bits} trailing"
    else:
        step = fmt.scaled(0)[1]
        what = f"{kind} {'integer' if step == 0 else f'fixed point in steps of 2^{step}'}, {fmt.width} bits"
    infinity = "infinities" if fmt.infinity and fmt.sign is Sign.MAGNITUDE else "an infinity" if fmt.infinity else ""
    if not fmt.negative_zero:
        nan = "one NaN in the place of -0"
    elif fmt.has_nan:
        nan = f"{fmt.nans} NaN{'s' if fmt.nans > 1 else ''}{' of each sign' if fmt.sign is Sign.MAGNITUDE else ''}"
    else:
        nan = ""
    specials = " and ".join(part for part in (infinity, nan) if part) or "no specials"
    zero = "" if fmt.subnormals else "; no zero"
    return f"{what}; {specials}{zero}"


def _shown(name: str, value: Any, fmt: Format) -> str:
    if name.endswith("_code"):
        return _code(value, fmt)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        exact = number(value)
        return f"{exact} = {value!r}" if exact.lstrip("-").startswith("2^") else exact
    return "-" if value is None or value == "" else str(value)


def _code(code: int | None, fmt: Format) -> str:
    return "-" if code is None else f"{code:#0{2 - (-fmt.width // 4)}x}"


def _encoding(fmt: Format) -> Table:
    low = min(fmt.width, 3)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", style="dim", no_wrap=True)
    for column in range(1 << low):
        table.add_column(f"{column:x}", justify="right", no_wrap=True)
    digits = -(-fmt.width // 4)
    for row in range(0, 1 << fmt.width, 1 << low):
        values = [decode(code, fmt) for code in range(row, row + (1 << low))]
        table.add_row(
            f"{row:0{digits}x}",
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
