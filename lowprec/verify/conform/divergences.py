"""Known divergences: the reviewed file tables/divergences.toml, read strictly."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from lowprec.verify.frameworks.tasks import KINDS

__all__ = ["Divergence", "known_divergences"]

_LISTS = ("frameworks", "versions", "operations", "sources", "targets")
_SMALLEST = ("operation", "source", "target", "operand", "got", "want")


@dataclass(frozen=True)
class Divergence:
    """A known difference: where it is seen, of what kind, why, and the smallest input that shows it."""

    frameworks: tuple[str, ...]
    versions: tuple[str, ...]  #: prefixes, such as "0.6"
    operations: tuple[str, ...]
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    kind: str
    why: str
    smallest: dict[str, str] = field(hash=False)  #: of the first framework

    def covers(self, row: Any, kind: str) -> bool:
        """Return whether a finding of this kind in this row is this divergence."""
        return (
            row.framework in self.frameworks
            and kind == self.kind
            and row.operation in self.operations
            and row.source in self.sources
            and row.target in self.targets
            and self.concerns(row.version)
        )

    def concerns(self, version: str) -> bool:
        """Return whether it is about a version."""
        return any(f"{version}.".startswith(f"{prefix}.") for prefix in self.versions)


def known_divergences(path: Path | None = None) -> tuple[Divergence, ...]:
    """Return the reviewed file of divergences, read and checked.

    Raises
    ------
    ValueError
        An entry that lacks a field or has one too many, lists nothing or no names, or names an unknown kind.
    """
    if path is None:
        packed = resources.files("lowprec") / "tables" / "divergences.toml"
        beside = Path(__file__).parents[3] / "tables" / "divergences.toml"
        text = packed.read_text() if packed.is_file() else beside.read_text()
    else:
        text = path.read_text()
    entries = []
    for number, entry in enumerate(tomllib.loads(text).get("divergence", []), 1):
        wanted = set(Divergence.__dataclass_fields__)
        if set(entry) != wanted or set(entry["smallest"]) != set(_SMALLEST):
            wrong = sorted(set(entry) ^ wanted) or sorted(entry["smallest"])
            raise ValueError(f"divergence {number} has missing or unknown fields: {', '.join(wrong)}")
        for name in _LISTS:
            given = entry[name]
            if (
                not isinstance(given, list)
                or not given
                or not all(isinstance(item, str) and item for item in given)
            ):
                raise ValueError(
                    f"divergence {number} has {name} = {given!r}; it must be a list of names, not empty"
                )
        if entry["kind"] not in KINDS or entry["kind"] == "other":
            raise ValueError(f"divergence {number} has kind {entry['kind']!r}, which explains nothing")
        if not entry["why"]:
            raise ValueError(f"divergence {number} does not say why")
        entries.append(Divergence(**entry | {name: tuple(entry[name]) for name in _LISTS}))
    return tuple(entries)
