"""Block formats as text: the list, a card for one, and what profiles make of them.

Needs neither numba nor NumPy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Group, RenderableType

from lowprec.export.cards import columns, facts, text_of
from lowprec.export.markdown import head, row
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.fields import by_field
from lowprec.spec.profiles import PROFILES, Profile

#: Fields that say what a block format is; all others are policies.
_PARTS = ("name", "element", "scale", "size", "source")


def describe_block(fmt: BlockFormat) -> dict[str, Any]:
    """Return every field, formats and projections by name, as plain data in a fixed order."""
    return {
        "name": fmt.name,
        "element": fmt.element.name,
        "scale": fmt.scale.name,
        "sizes": list(fmt.sizes),
        "bits_per_value": fmt.bits_per_value,
        **{name: _plain(value) for name, value in by_field(fmt).items() if name not in _PARTS},
        "source": fmt.source,
    }


def block_listing(formats: Iterable[BlockFormat] | None = None) -> RenderableType:
    """Return block formats, by default all of the catalog, a row each."""
    names = ("block format", "element", "scale", "size", "bits", "rule", "tensor scale")
    table = columns(*names, right=("size", "bits"))
    for fmt in catalog.BLOCK_FORMATS.values() if formats is None else formats:
        table.add_row(fmt.name, *_parts(fmt), str(fmt.rule), fmt.tensor_scale)
    return table


def block_card(fmt: BlockFormat, profile: Profile | None = None) -> RenderableType:
    """Return what there is to say of one block format, or of what it is in a profile."""
    shown = fmt if profile is None else profile.block(fmt)
    table = facts((name, _shown(value)) for name, value in describe_block(shown).items() if name != "name")
    title = f"[bold]{shown.name}[/bold]  {_sentence(shown)}"
    if profile is not None:
        return Group(title, f"as {profile.name} has it: {profile.versions}", "", table)
    known = [name for name, each in PROFILES.items() if fmt in each.blocks]
    return Group(title, "", table, "", f"profiles: {', '.join(known) or '-'}")


def block_tables() -> Iterator[str]:
    """Yield the catalog's block formats and the policies of every profile, as lines of Markdown."""
    yield from ("# Block formats", "")
    yield from head(
        "block format", "element", "scale", "size", "bits a value", "rule", "tensor scale", "source"
    )
    for fmt in catalog.BLOCK_FORMATS.values():
        yield row(f"`{fmt.name}`", *_parts(fmt), str(fmt.rule), fmt.tensor_scale, fmt.source)
    yield from ("", "# What profiles make of them", "")
    yield (
        "Every policy, as the catalog has it and as each profile has it; an empty cell is as the "
        "catalog has it."
    )
    names = [field.name for field in dataclasses.fields(BlockFormat) if field.name not in _PARTS]
    for fmt in catalog.BLOCK_FORMATS.values():
        known = {
            name: each.blocks[fmt] for name, each in PROFILES.items() if fmt in each.blocks and name != "ocp"
        }
        yield from ("", f"## {fmt.name}", "")
        yield from head("policy", "catalog, `ocp`", *(f"`{name}`" for name in known))
        for name in names:
            ours = getattr(fmt, name)
            theirs = [getattr(other, name) for other in known.values()]
            yield row(
                f"`{name}`", text_of(ours), *("" if value == ours else text_of(value) for value in theirs)
            )


def _parts(fmt: BlockFormat) -> tuple[str, ...]:
    sizes = "x".join(map(str, fmt.sizes))
    return fmt.element.name, fmt.scale.name, sizes, f"{fmt.bits_per_value:.6g}"


def _sentence(fmt: BlockFormat) -> str:
    where = (
        f"of {fmt.sizes[0]} along an axis" if len(fmt.sizes) == 1 else f"of {'x'.join(map(str, fmt.sizes))}"
    )
    tensor = "" if fmt.tensor_scale == "none" else ", and a scale of the whole tensor"
    return f"blocks {where}: {fmt.element.name} elements, a scale in {fmt.scale.name}{tensor}"


def _plain(value: Any) -> Any:
    """Return a value of a field as plain data."""
    return value if value is None or isinstance(value, (str, bool, float)) else text_of(value)


def _shown(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list) else text_of(value)
