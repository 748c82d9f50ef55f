"""Planted mutants: each changes one rule in a copy of the package, and the kit alone must find it.

`python -m tests.mutants` runs all of them and fails where one survives, or where what they are tried on
breaks a law without any; `--only NAME` one of them, `--write` puts the list, with the laws that caught each,
into docs/mutants.md; with both the rows of those alone.
It is no part of CI. `--laws` runs none, and writes the list of laws into docs/testing-your-format.md.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from lowprec.testing.laws import LAWS
from tests.mutations import MUTANTS, Mutant

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs" / "mutants.md"
LAWS_PAGE = ROOT / "docs" / "testing-your-format.md"

#: Seconds after which a mutant counts as found, since it never ends.
_LIMIT = 3600


class Fate(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    laws: tuple[str, ...]  #: that found it, on the first item that breaks any
    item: str
    case: str  #: the counterexample of the first
    seconds: float


def controls(mutants: list[Mutant]) -> list[Mutant]:
    """Mutants that change nothing, one for all that is tried on any: no law may find them."""
    items = dict.fromkeys((item, mutant.compiled) for mutant in mutants for item in mutant.tried)
    return [Mutant("control", "", "", "nothing", "", "", (item,), compiled) for item, compiled in items]


def planted(mutant: Mutant, text: str) -> str:
    """Return the text of a file with the mutant in it; comments and blank lines of the file are lost."""
    tree = ast.parse(text)
    old, new = (ast.parse(code).body[0] for code in (mutant.old, mutant.new))
    if isinstance(old, ast.Expr) and isinstance(new, ast.Expr):
        old, new = old.value, new.value
    planter = _Planter(old, new)
    planter.visit(_definition(tree, mutant))
    assert planter.count == 1, f"{mutant.name}: {planter.count} places in {mutant.place}"
    return ast.unparse(tree)


def _definition(tree: ast.AST, mutant: Mutant) -> ast.AST:
    """Return the function or class that the mutant names, or the whole module."""
    for name in filter(None, mutant.function.split(".")):
        found = [node for node in ast.walk(tree) if getattr(node, "name", None) == name and node is not tree]
        assert found, f"{mutant.name}: {mutant.place} is no function or class"
        tree = found[0]
    return tree


class _Planter(ast.NodeTransformer):
    """Replaces every node equal to one, and counts them."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._kind, self._old, self._new, self.count = type(old), ast.dump(old), new, 0

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, self._kind) or ast.dump(node) != self._old:
            return super().generic_visit(node)
        self.count += 1
        return self._new


def run(mutant: Mutant, source: pathlib.Path) -> Fate:
    """Plant a mutant in a copy of the package, and try the kit on it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        shutil.copytree(source / "lowprec", place / "lowprec")
        if mutant.file:
            path = place / "lowprec" / mutant.file
            path.write_text(planted(mutant, path.read_text()))
        environment = {
            **os.environ,
            "PYTHONPATH": folder,
            "LOWPREC_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        if mutant.compiled:
            environment["LOWPREC_CACHE_DIR"] = str(place / "cache")
        else:
            environment["NUMBA_DISABLE_JIT"] = "1"
        shutil.copy(source / "mutant_driver.py", place)  # the package beside it is the one that it imports
        command = [sys.executable, str(place / "mutant_driver.py"), json.dumps(mutant.tried)]
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_LIMIT
            )
            lines = done.stdout.strip().splitlines()
            found = (
                json.loads(lines[-1])
                if lines
                else {"item": "", "laws": [["crash", {"error": done.stderr[-200:]}]]}
            )
        except subprocess.TimeoutExpired:
            found = {"item": "", "laws": [["no end", {"error": f"after {_LIMIT} s"}]]}
    names = tuple(name for name, _ in found["laws"])
    case = ", ".join(f"{label} {text}" for label, text in found["laws"][0][1].items()) if names else ""
    return Fate(mutant, names, found["item"], case, time.monotonic() - began)


def page(fates: list[Fate]) -> str:
    """docs/mutants.md."""
    lines = [
        "# Mutants that the kit kills",
        "",
        "Each row is one deliberate mistake, planted in a copy of the package, the law of `lowprec.testing` "
        "that found",
        "it first, and how many others did on the same subject. Nothing but the kit is asked, and the oracle "
        "where no",
        "law tells: what an accumulation is, and what one engine alone does. Without a mistake no law is "
        "broken on any",
        "of these subjects.",
        "",
        "Made by `python -m tests.mutants --write`.",
        "",
        f"{sum(bool(fate.laws) for fate in fates)} of {len(fates)} mutants are found.",
        "",
        "| mutant | file | what is changed | law | others | on |",
        "|---|---|---|---|---|---|",
    ]
    for fate in fates:
        law = fate.laws[0] if fate.laws else "**survives**"
        others = len(fate.laws) - 1 if len(fate.laws) > 1 else ""
        told = (fate.mutant.name, f"`{fate.mutant.file}`", fate.mutant.what, law, others, fate.item)
        lines.append(f"| {' | '.join(str(part) for part in told)} |")
    lines += [
        "",
        "## Every law can fail",
        "",
        "A law that nothing breaks says nothing. These break each, on the first subject that breaks any law:",
        "",
        "| law | mutants |",
        "|---|---|",
    ]
    for law in LAWS:
        names = [fate.mutant.name for fate in fates if law in fate.laws]
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        lines.append(f"| {law} | {', '.join(names[:4]) or '**none**'}{more} |")
    return "\n".join(lines) + "\n"


def updated(text: str, fates: list[Fate]) -> str:
    """docs/mutants.md with some mutants' rows put in, and the laws that they are the first to break."""
    told = {
        line.split(" | ")[0].removeprefix("| "): line for line in page(fates).splitlines() if " | `" in line
    }
    rows = {
        line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines() if " | `" in line
    } | told
    head, _ = page([]).split("0 of 0 mutants")
    heading = "\n| mutant | file | what is changed | law | others | on |\n|---|---|---|---|---|---|\n"
    listed = [rows[mutant.name] for mutant in MUTANTS if mutant.name in rows]
    found = f"{sum('**' not in row for row in listed)} of {len(listed)} mutants are found.\n"
    before, now = (_laws(part.split("\n## Every law")[1]) for part in (text, page(fates)))
    broken = [now[law] if "**none**" in before.get(law, "**none**") else before[law] for law in LAWS]
    end = page([]).split("\n## Every law")[1].split("\n| values |")[0]
    return head + found + heading + "\n".join([*listed, "", "## Every law" + end, *broken]) + "\n"


def _laws(part: str) -> dict[str, str]:
    """The rows of the second table, by the name of the law."""
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines}


def listed_laws() -> str:
    """The laws as a table, from the code."""
    lines = ["| law | about | where | statement |", "|---|---|---|---|"]
    lines += [f"| {law.name} | {law.topic} | {law.domain} | {law.statement} |" for law in LAWS.values()]
    return "\n".join(lines)


def with_laws(text: str) -> str:
    """docs/testing-your-format.md with the table of laws put in."""
    head, rest = text.split("<!-- laws -->\n")
    _, tail = rest.split("<!-- end of laws -->")
    return f"{head}<!-- laws -->\n{listed_laws()}\n<!-- end of laws -->{tail}"


def main() -> int:
    """Run mutants, two at a time."""
    parser = argparse.ArgumentParser(description="Plant mutants, and hold the kit against them.")
    parser.add_argument("--only", action="append", help="this mutant; may be repeated")
    parser.add_argument("--write", action="store_true", help="write docs/mutants.md")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--laws", action="store_true", help="write the list of laws into docs/testing-your-format.md"
    )
    asked = parser.parse_args()
    if asked.laws:
        LAWS_PAGE.write_text(with_laws(LAWS_PAGE.read_text()))
        return 0
    chosen = [mutant for mutant in MUTANTS if not asked.only or mutant.name in asked.only]
    if not chosen:
        parser.error(f"no such mutant; there are {', '.join(mutant.name for mutant in MUTANTS)}")
    fates = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.jobs) as pool:
        source = pathlib.Path(folder)  # so that the tree may be edited meanwhile
        shutil.copytree(ROOT / "lowprec", source / "lowprec", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "tests" / "mutant_driver.py", source)
        sound = True
        for fate in pool.map(lambda mutant: run(mutant, source), controls(chosen)):
            if fate.laws:
                sound = False
                print(f"no mutant, but {fate.item} breaks {fate.laws[0]}: {fate.case}", flush=True)
        for fate in pool.map(lambda mutant: run(mutant, source), chosen):
            fates.append(fate)
            said = fate.laws[0] if fate.laws else "SURVIVES"
            print(f"{said:24} {fate.seconds:5.0f}s  {fate.mutant.name}: {fate.item}: {fate.case}", flush=True)
    alive = [fate.mutant.name for fate in fates if not fate.laws]
    print(f"{len(fates) - len(alive)} of {len(fates)} mutants are found; alive: {', '.join(alive) or 'none'}")
    if asked.write and sound:
        PAGE.write_text(updated(PAGE.read_text(), fates) if asked.only else page(fates))
    unbroken = [law for law in LAWS if not any(law in fate.laws for fate in fates)]
    if not asked.only:
        print(f"laws that no mutant breaks: {', '.join(unbroken) or 'none'}")
    return 1 if alive or not sound or (unbroken and not asked.only) else 0


if __name__ == "__main__":
    sys.exit(main())
