"""Differences that a run may have: those of a baseline, a report of an earlier run, and known divergences.

A baseline is what `lowprec conform --json` or `lowprec compare --json` printed. A run against it fails where
it differs in a way that the baseline does not.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowprec.checkpoints.container import read_text
from lowprec.spec.evidence.reviewed import reviewed
from lowprec.spec.number_text import read_integer
from lowprec.verify.codes.display import quoted
from lowprec.verify.frameworks.tasks import KINDS

__all__ = ["Divergence", "known_divergences"]

if TYPE_CHECKING:
    from lowprec.verify.compare.report import Comparison
    from lowprec.verify.conform.conformance import Row

__all__ = ["Baseline", "read_baseline"]

#: The beginning of schemas whose reports can be baselines, and the command that writes them.
_COMMANDS = {"lowprec.conform/2": "conform", "lowprec.compare/3": "compare"}


@dataclass(frozen=True)
class Baseline:
    """A report of an earlier run.

    Attributes
    ----------
    path : Path
        The file that it was read from.
    data : dict
        The report.
    """

    path: Path
    data: dict[str, Any]

    def excuse(self, rows: Iterable[Row]) -> tuple[list[Row], list[str]]:
        """Return rows in which what the baseline has is known, and what it has that is gone.

        A difference is the baseline's if the framework, the task, the kind, the count and the smallest input
        are the same; the framework's version may be another. What is gone is told of the rows that were run.
        """
        then = {
            (*_key(row), finding["kind"]): finding for row in self.data["rows"] for finding in row["findings"]
        }
        made, now = [], set()
        for row in rows:
            findings = []
            for finding in row.findings:
                key = (row.framework, row.operation, row.source, row.target, finding.kind)
                now.add(key)
                same = then.get(key, {})
                if (
                    finding.known is None
                    and same.get("count") == finding.count
                    and same.get("smallest") == dict(finding.smallest.rows)
                ):
                    finding = replace(finding, known=f"accepted by {self.path}")
                findings.append(finding)
            row = replace(row, findings=tuple(findings))
            made.append(row if row.unexplained else replace(row, causes=()))
        ran = {(row.framework, row.operation, row.source, row.target) for row in made}
        gone = [" ".join(key) for key in then if key not in now and key[:4] in ran]
        return made, gone

    def judge(self, report: Comparison) -> list[str]:
        """Return what makes a comparison worse than the baseline, a line each; nothing if it is no worse.

        It is no worse if no count of mismatches, in all, by situation, by distance or by class, is above the
        baseline's, and at least as many results are compared; and if the same holds of flags.

        Raises
        ------
        ValueError
            The baseline answers another question, with other options or formats, or allows other distances.
        """
        now, then = report.as_dict(), self.data
        if now["question"] != then["question"]:
            raise ValueError(
                f"the baseline {str(self.path)!r} is about {quoted(then['question'])}, this comparison "
                f"about {quoted(now['question'])}; make one with the same options and --json"
            )
        was, is_now = _asked(then), _asked(now)
        if other := [name for name in {**was, **is_now} if was.get(name) != is_now.get(name)]:
            before, after = (quoted(each.get(other[0])) for each in (was, is_now))
            raise ValueError(
                f"the baseline {str(self.path)!r} was made with {quoted(other[0])}: {before}, "
                f"this comparison with {after}; make one with the same options and --json"
            )
        found = _worse(now, then, "results")
        if now["flags"] is not None:
            return found + _worse(now["flags"], then["flags"], "flags")
        if then["flags"] is not None:
            found.append(f"no flags were compared, {then['flags']['compared']:,} in the baseline")
        return found


def read_baseline(path: Path, command: str) -> Baseline:
    """Return the baseline in a file, of `conform` or of `compare`.

    Raises
    ------
    ValueError
        The file is no report of that command, or lacks a part of one.
    """
    way = f"write one with `lowprec {command} ... --json`"
    try:
        data = json.loads(read_text(path), parse_int=read_integer)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{str(path)!r} is no baseline, as it is no JSON ({error}); {way}") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    found = _COMMANDS.get(schema) if isinstance(schema, str) else None
    if found != command:
        what = f"has schema {quoted(schema)}" if schema is not None else "has no schema"
        raise ValueError(f"{str(path)!r} is no baseline of {command}: it {what}; {way}")
    try:
        if command == "conform":
            for row in data["rows"]:
                names = [*_key(row), *(finding["kind"] for finding in row["findings"])]
                if not all(isinstance(each, str) for each in names):
                    raise ValueError("what differs is named by texts")
                _ = [(finding["count"], finding["smallest"].items()) for finding in row["findings"]]
        else:
            if not isinstance(data.get("asked"), dict):
                raise ValueError("it does not tell all that was asked, as reports of 0.2.0 and before do not")
            _ = _counts(data), data["question"]
            _ = None if data["flags"] is None else _counts(data["flags"]), _asked(data)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        why = error.args[0] if isinstance(error, KeyError | ValueError) else "a part is of another kind"
        raise ValueError(f"{str(path)!r} is no whole report of {command} ({why}); {way}") from None
    return Baseline(path, data)


def _key(row: dict[str, Any]) -> tuple[str, str, str, str]:
    return row["framework"], row["operation"], row["source"], row["target"]


def _counts(data: dict[str, Any]) -> dict[str, int]:
    """Return the counts that must not grow, by what they count."""
    counts = {"mismatches": data["mismatches"], "results left out": data["left_out"]}
    counts["results that are missing"] = data["unanswered"]
    counts["mismatches without a distance"] = data["no_distance"]
    counts |= {f"mismatches {name}": count for name, count in data["situations"].items()}
    counts |= {f"mismatches off by {int(name):+,} codes": count for name, count in data["distances"].items()}
    for found in data["classes"]:
        counts[f"{found['want']} became {found['got']}"] = found["count"]
    if not all(isinstance(count, int) for count in (*counts.values(), data["compared"])):
        raise ValueError("counts are integers")
    return counts


def _asked(data: dict[str, Any]) -> dict[str, Any]:
    """Return what a report was asked besides its question, and how far results may be off."""
    return {**data["asked"], "ulps": None if data["budget"] is None else data["budget"]["ulps"]}


def _worse(now: dict[str, Any], then: dict[str, Any] | None, what: str) -> list[str]:
    """Return what is worse in one report, of results or of flags, than in another, where there is one."""
    found, before = [], {} if then is None else _counts(then)
    if then is not None and now["compared"] < then["compared"]:
        found.append(f"{now['compared']:,} {what} were compared, {then['compared']:,} in the baseline")
    for name, count in _counts(now).items():
        if count > before.get(name, 0):
            lead = "" if what == "results" else f"{what}: "
            found.append(f"{lead}{name}: {count:,}, {before.get(name, 0):,} in the baseline")
    return found


# -- known divergences: the reviewed file tables/divergences.toml, read strictly -------------------


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
    text = reviewed("divergences.toml") if path is None else path.read_text()
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
