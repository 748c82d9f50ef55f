"""Answers frozen at a release: their digests, and whether today's golden data still give them.

`tables/releases/VERSION.json` names every answer of the golden data by its SHA-256. Comments, and the
version that made a file, are no answers. docs/decisions/0056-versions-of-answers.md says which change needs
which version.
"""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

from lowprec import __version__, files
from lowprec.export.golden import Refused, read_digests
from lowprec.spec.number_text import read_integer
from lowprec.verify.codes.display import quoted

_SCHEMA = "lowprec.release/1"


def answers(tables: Path) -> dict[str, str]:
    """Return the SHA-256 of every answer in a folder of golden data, by name.

    Values and vectors are digested line by line without comments, so that another version that says the same
    has the same digest.

    Raises
    ------
    Refused
        The folder has no golden data, or damaged ones.
    """
    try:
        return _answers(tables, read_digests(tables))
    except Refused:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, csv.Error) as error:
        why = f"{type(error).__name__}: {error}"
        raise Refused(f"{str(tables)!r} does not hold the golden data, or they are damaged ({why})") from None


def _answers(tables: Path, digests: dict[str, Any]) -> dict[str, str]:
    found = {}
    for path in sorted([*tables.glob("values/*.csv"), *tables.glob("vectors/**/*.txt")]):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        found[path.relative_to(tables).with_suffix("").as_posix()] = _sha256("\n".join(lines))
    if (draft := tables / "p3109" / "digests.csv").is_file():
        columns = zip(*csv.reader(draft.read_text().splitlines()), strict=True)
        formats, *operations = columns
        for name, *column in operations:
            found[f"p3109/{name}"] = _sha256("\n".join(map(",".join, zip(formats[1:], column, strict=True))))
    for name, entry in digests["decode"].items():
        found[f"decode/{name}"] = entry["sha256"]
    for name, entry in digests["encode"].items():
        found |= {f"encode/{name}/{rule}": digest for rule, digest in entry["codes_sha256"].items()}
    for name, rules in digests.get("sweeps", {}).items():
        found |= {f"sweeps/{name}/{rule}": entry["sha256"] for rule, entry in rules.items()}
    return found


def name_of(found: dict[str, str]) -> str:
    """Return one SHA-256 for all answers: what to cite beside the version."""
    return _sha256(json.dumps(found, sort_keys=True))


def freeze(tables: Path) -> Path:
    """Write the answers of this version, and return the file.

    Raises
    ------
    Refused
        This version is frozen already, with other answers, or a file is not what digests.json lists, as
        after a `lowprec golden --write` that was killed.
    """
    found = answers(tables)
    document = {"schema": _SCHEMA, "version": __version__, "sha256": name_of(found), "answers": found}
    path = tables / "releases" / f"{__version__}.json"
    if path.exists() and _read(path) != document:
        raise Refused(
            f"{str(path)!r} froze other answers: a version's answers never change; raise the version"
        )
    listed = read_digests(tables).get("files", {})
    held = {name for name in found if name.startswith(("values/", "vectors/"))}
    named = {name.rsplit(".", 1)[0] for name in listed}
    wrong = [f"{name}, which it does not list" for name in sorted(held - named)]
    for name, digest in listed.items():
        file = tables / name
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            wrong.append(name)
    if wrong:
        raise Refused(
            f"{str(tables)!r} is not what its digests.json lists ({len(wrong):,} files, {quoted(wrong[0])}): "
            f"write it again with `lowprec golden --write`, and freeze it then"
        )
    path.parent.mkdir(exist_ok=True)
    files.write(path, (json.dumps(document, indent=1) + "\n").encode())
    return path


def changed(tables: Path) -> list[str]:
    """Return the frozen answers that today's golden data no longer give, a line each.

    Releases count whose answers this version must keep: of the same major version, before 1.0 of the same
    minor one.
    """
    found = answers(tables)
    problems = []
    for path in sorted((tables / "releases").glob("*.json")):
        frozen = _read(path)
        if frozen["sha256"] != name_of(frozen["answers"]):
            problems.append(f"releases/{path.name} was edited: its answers have not the digest that it names")
        if _line(frozen["version"]) != _line(__version__):
            continue
        problems += [
            f"{name} is not what {frozen['version']} froze: a changed answer needs {_next(__version__)}"
            for name, digest in frozen["answers"].items()
            if found.get(name) != digest
        ]
    return problems


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(), parse_int=read_integer)
        _line(document["version"]), document["answers"].items()
        if document["schema"] == _SCHEMA and "sha256" in document:
            return dict(document)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise Refused(f"{str(path)!r} is no file of `lowprec golden --freeze`")


def _line(version: str) -> tuple[str, ...]:
    """Return the part of a version in which answers do not change: the major one, or 0 and the minor one."""
    major, minor = version.split(".")[:2]
    return (major, minor) if major == "0" else (major,)


def _next(version: str) -> str:
    """Return the version that begins the next line."""
    major, minor = map(int, version.split(".")[:2])
    return f"{major}.{minor + 1}.0" if major == 0 else f"{major + 1}.0.0"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
