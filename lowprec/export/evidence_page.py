"""The page of evidence: what accumulations, library calls and profiles were held against, as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lowprec.export.accumulation_cards import best_evidence
from lowprec.export.markdown import head, row
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.evidence.evidence import DOCUMENTS, EVIDENCE_KINDS, evidence_for
from lowprec.spec.library_calls import LIBRARY_CALLS
from lowprec.spec.profiles import PROFILES

__all__ = ["evidence_page"]

_TITLES = ("evidence", "of", "results of each", "differ", "by", "checked by")


def evidence_page() -> Iterator[str]:
    """Yield the lines of tables/silicon.md."""
    yield from (
        "# What was held against hardware",
        "",
        "What the claims about hardware rest on, and the commands that compare again. Of accumulations:",
        "",
    )
    counts = Counter(best_evidence(how) for how in ACCUMULATIONS.values())
    yield from head("best evidence", "accumulations", "means", right=("accumulations",))
    for kind, means in EVIDENCE_KINDS.items():
        if counts[kind]:
            yield row(kind, counts[kind], means)
    yield row(DOCUMENTS, counts[DOCUMENTS], "documents only: nobody's results were compared")
    yield row("-", counts["-"], "loops and exact sums, which are what they say")
    yield from (
        "",
        "*Results of each*: how many were compared for each accumulation, or each format of a profile.",
        "*By*: who recorded them or made the model, in [references](../docs/references.md). Of software",
        "*differ* counts what no reviewed [divergence](../docs/conformance.md) explains.",
    )
    yield from ("", "## Accumulations", "")
    yield from head("accumulation", *_TITLES, right=("results of each", "differ"))
    for name, how in ACCUMULATIONS.items():
        if how.source:
            yield from _rows(name, DOCUMENTS)
    yield from ("", "## Library calls", "")
    yield from head("library call", *_TITLES, right=("results of each", "differ"))
    for name in LIBRARY_CALLS:
        yield from _rows(name, DOCUMENTS)
    yield from (
        "",
        "## Casts, by profile",
        "",
        "A profile with `-` rests on documents, or on recorded results that tests hold it against and that",
        "are not counted here.",
        "",
    )
    yield from head("profile", *_TITLES, right=("results of each", "differ"))
    for name in PROFILES:
        yield from _rows(name, "-")


def _rows(name: str, without: str) -> Iterator[str]:
    """Yield a row for each piece of evidence, or one that says `without` where there is none."""
    for each in evidence_for(name):
        parts = [said.partition(" ")[2] for said in each.subjects if said.partition(" ")[0] == name]
        formats = f": {', '.join(parts)}" if any(parts) else ""
        yield row(
            f"`{name}`{formats}",
            each.kind,
            each.what,
            f"{each.values:,}",
            each.differ,
            each.by,
            f"`{each.check}`",
        )
    if not evidence_for(name):
        yield row(f"`{name}`", without, "", "", "", "", "")
