"""Block formats as text: the list, a card for one, and what profiles make of them.

Needs neither numba nor NumPy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from lowprec.export.cards import differences, number
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.profiles import PROFILES, Profile

__all__ = ["block_card", "block_listing", "block_tables", "describe_block"]

#: Fields that say what a block format is; all others are policies.
_PARTS = ("name", "element", "scale", "size", "source")


def describe_block(fmt: BlockFormat) -> dict[str, Any]:
    """Every field, formats and projections by name, as plain data in a fixed order."""
    return {
        "name": fmt.name,
        "element": fmt.element.name,
        "scale": fmt.scale.name,
        "sizes": list(fmt.sizes),
        "bits_per_value": fmt.bits_per_value,
        **{field.name: _plain(getattr(fmt, field.name)) for field in _policies()},
        "source": fmt.source,
    }


def block_listing() -> RenderableType:
    """Every block format of the catalog, a row each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("block format", "element", "scale", "size", "bits", "rule", "tensor scale"):
        table.add_column(name, justify="right" if name in ("size", "bits") else "left", no_wrap=True)
    for fmt in catalog.BLOCK_FORMATS.values():
        table.add_row(fmt.name, *_parts(fmt), str(fmt.rule), fmt.tensor_scale)
    return table


def block_card(fmt: BlockFormat, profile: Profile | None = None) -> RenderableType:
    """What there is to say of one block format, or of what it is in a profile."""
    shown = fmt if profile is None else profile.block(fmt)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in describe_block(shown).items():
        if name != "name":
            table.add_row(name, _shown(value))
    title = f"[bold]{shown.name}[/bold]  {_sentence(shown)}"
    if profile is not None:
        return Group(title, f"as {profile.name} has it: {profile.versions}", "", table)
    known = [name for name, each in PROFILES.items() if fmt in each.blocks]
    return Group(title, "", table, "", f"profiles: {', '.join(known) or '-'}")


def block_tables() -> Iterator[str]:
    """The catalog's block formats and the policies of every profile, as lines of Markdown."""
    yield "# Block formats"
    yield ""
    yield from _rows(("block format", "element", "scale", "size", "bits a value", "rule", "tensor scale", "source"))
    for fmt in catalog.BLOCK_FORMATS.values():
        yield _row(f"`{fmt.name}`", *_parts(fmt), str(fmt.rule), fmt.tensor_scale, fmt.source)
    yield ""
    yield "# What profiles make of them"
    yield ""
    yield "Every policy, as the catalog has it and as each profile has it; an empty cell is as the catalog has it."
    names = [field.name for field in _policies()]
    for fmt in catalog.BLOCK_FORMATS.values():
        known = {name: each.blocks[fmt] for name, each in PROFILES.items() if fmt in each.blocks and name != "ocp"}
        yield ""
        yield f"## {fmt.name}"
        yield ""
        yield from _rows(("policy", "catalog, `ocp`", *(f"`{name}`" for name in known)))
        for name in names:
            ours = getattr(fmt, name)
            theirs = [getattr(other, name) for other in known.values()]
            yield _row(f"`{name}`", _text(ours), *("" if value == ours else _text(value) for value in theirs))


def _policies() -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(BlockFormat) if field.name not in _PARTS]


def _parts(fmt: BlockFormat) -> tuple[str, ...]:
    sizes = "x".join(map(str, fmt.sizes))
    return fmt.element.name, fmt.scale.name, sizes, f"{fmt.bits_per_value:.6g}"


def _sentence(fmt: BlockFormat) -> str:
    where = f"of {fmt.sizes[0]} along an axis" if len(fmt.sizes) == 1 else f"of {'x'.join(map(str, fmt.sizes))}"
    tensor = "" if fmt.tensor_scale == "none" else ", and a scale of the whole tensor"
    return f"blocks {where}: {fmt.element.name} elements, a scale in {fmt.scale.name}{tensor}"


def _plain(value: Any) -> Any:
    """A value of a field as plain data."""
    return value if value is None or isinstance(value, (str, bool, float)) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if dataclasses.is_dataclass(value) and hasattr(value, "saturation"):
        return differences(value) or "-"  # type: ignore[arg-type]
    return "-" if value is None else str(value)


def _shown(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list) else _text(value)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _rows(titles: tuple[str, ...]) -> Iterator[str]:
    """The head of a table."""
    yield _row(*titles)
    yield f"|{'---|' * len(titles)}"
