"""Planted mutants: each changes one rule in a copy of the package, and the kit alone must find it.

`python -m tests.mutants` runs all of them and fails where one survives; `--only NAME` one of them, `--write`
puts the list, with the law that caught each, into docs/mutants.md. It is no part of CI.
"""

from __future__ import annotations

import argparse
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

from tests.mutations import MUTANTS, Mutant

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs" / "mutants.md"
LAWS_PAGE = ROOT / "docs" / "testing-your-format.md"

#: What a mutant is tried on: checks in this order, until one fails.
DRIVER = r"""
import json, sys, warnings
warnings.simplefilter("ignore")
try:
    import lowprec as lp
    from lowprec.spec import catalog, families
    from lowprec.testing import blockcheck, formatcheck, operationcheck
    from lowprec.testing.law import LAWS
    from lowprec.testing.subjects import Arrays, Flagged, Oracle

    what = json.loads(sys.argv[1])
    formatcheck.laws()
    LATE = ("types", "place", "quantize", "cast")
    SMALL = {
        "ieee": families.ieee("ieee", 3, 2), "fnuz": families.fnuz("fnuz", 2, 2),
        "powers": families.power_of_two("powers", 3), "int4": catalog.INT4, "e2m1fn": catalog.E2M1FN,
        "unsigned": lp.Format(name="unsigned", exponent_bits=2, trailing_bits=2, bias=1, sign=lp.Sign.UNSIGNED, nans=1),
        "ieee_unsigned": lp.Format(name="ieee_unsigned", exponent_bits=2, trailing_bits=2, bias=1,
                                   sign=lp.Sign.UNSIGNED, nans=3, infinity=True),
    }

    def verdicts():
        for item in what:
            kind, _, name = item.partition(":")
            if kind in ("arrays", "flagged", "oracle"):
                fmt = SMALL.get(name) or catalog.format(name)
                subject = {"arrays": Arrays, "flagged": Flagged, "oracle": Oracle}[kind](fmt)
                laws = [law for law in LAWS.values() if law.topic == "format" and law.applies(subject)]
                for law in sorted(laws, key=lambda law: law.name in LATE):
                    yield name, subject.path, law, law.check(subject)
            elif kind in ("arith", "flagged_arith", "oracle_arith"):
                operation, fmt = name.split()
                fmt = SMALL.get(fmt) or catalog.format(fmt)
                names = {"arith": "of_arrays", "flagged_arith": "of_flagged", "oracle_arith": "of_oracle"}
                make = getattr(operationcheck, names[kind])
                count = {"sqrt": 1, "fma": 3}.get(operation, 2)
                for mode in ("nearest_even", "toward_negative"):
                    how = lp.Projection(rounding=mode)
                    subject = make(operation, (fmt,) * count, fmt, how, 300, 0)
                    for law in LAWS.values():
                        if law.topic == "operation" and law.applies(subject):
                            yield f"{operation} {fmt.name}", subject.path, law, law.check(subject)
            else:
                for path in ("arrays", "oracle"):
                    if kind != "blocks" and kind != f"{path}_blocks":
                        continue
                    subject = blockcheck.Blocks(BLOCKS.get(name) or catalog.block_format(name), path, 4, 0)
                    for law in LAWS.values():
                        if law.topic == "blocks" and law.applies(subject):
                            yield name, path, law, law.check(subject)

    def small(rule):
        return lp.BlockFormat(name=rule, element=catalog.E2M1FN, scale=catalog.E8M0FNU, size=4, rule=rule)

    BLOCKS = {rule: small(rule) for rule in ("floor", "ceil", "even", "rceil", "nearest", "project", "nearest(3/2)")}
    BLOCKS["divide"] = lp.BlockFormat(name="divide", element=catalog.E2M1FN, scale=catalog.UE4M3, size=4, rule="divide")
    import numpy as np
    tried = 0
    with np.errstate(all="ignore"):
        for name, path, law, outcome in verdicts():
            tried += outcome.tried
            if outcome.found is not None:
                print(json.dumps({"law": law.name, "of": name, "path": path, "case": dict(outcome.found.rows)}))
                sys.exit(0)
    print(json.dumps({"law": None, "tried": tried}))
except Exception as error:
    import traceback
    place = traceback.extract_tb(error.__traceback__)[-1]
    print(json.dumps({"law": f"{type(error).__name__}", "of": "", "path": "", "case": {"error": str(error)[:200]}}))
"""


class Fate(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    law: str | None
    of: str
    case: str
    seconds: float


def run(mutant: Mutant) -> Fate:
    """Plant a mutant in a copy of the package, and try the kit on it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        shutil.copytree(ROOT / "lowprec", place / "lowprec", ignore=shutil.ignore_patterns("__pycache__"))
        path = place / "lowprec" / mutant.file
        text = path.read_text()
        if mutant.old:
            assert text.count(mutant.old) == 1, f"{mutant.name}: {text.count(mutant.old)} places in {mutant.file}"
        path.write_text(text.replace(mutant.old, mutant.new) if mutant.old else text)
        environment = {
            **os.environ,
            "PYTHONPATH": folder,
            "LOWPREC_CACHE_DIR": str(place / "cache") if mutant.compiled else "",
            "LOWPREC_NUM_THREADS": "1",
        }
        if not mutant.compiled:
            environment["NUMBA_DISABLE_JIT"] = "1"
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, json.dumps(mutant.tried)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
        )
    lines = done.stdout.strip().splitlines()
    found = json.loads(lines[-1]) if lines else {"law": "crash", "of": "", "path": "", "case": {"error": done.stderr}}
    of = " ".join(part for part in (found.get("of", ""), found.get("path", "")) if part)
    case = ", ".join(f"{label} {text}" for label, text in found.get("case", {}).items())
    return Fate(mutant, found["law"], of, case, time.monotonic() - began)


def page(fates: list[Fate]) -> str:
    """docs/mutants.md."""
    lines = [
        "# Mutants that the kit kills",
        "",
        "Each row is one deliberate mistake, planted in a copy of the package, and the law of `lowprec.testing` that",
        "found it first. Made by `python -m tests.mutants --write`; nothing but the kit is asked.",
        "",
        f"{sum(fate.law is not None for fate in fates)} of {len(fates)} mutants are found.",
        "",
        "| mutant | file | what is changed | law | on |",
        "|---|---|---|---|---|",
    ]
    for fate in fates:
        law = fate.law or "**survives**"
        lines.append(f"| {fate.mutant.name} | `{fate.mutant.file}` | {fate.mutant.what} | {law} | {fate.of} |")
    return "\n".join(lines) + "\n"


def listed_laws() -> str:
    """The laws as a table, from the code."""
    from lowprec.testing.formatcheck import laws

    lines = ["| law | about | where | statement |", "|---|---|---|---|"]
    lines += [f"| {law.name} | {law.topic} | {law.domain} | {law.statement} |" for law in laws().values()]
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
    parser.add_argument("--laws", action="store_true", help="write the list of laws into docs/testing-your-format.md")
    asked = parser.parse_args()
    if asked.laws:
        LAWS_PAGE.write_text(with_laws(LAWS_PAGE.read_text()))
        return 0
    chosen = [mutant for mutant in MUTANTS if not asked.only or mutant.name in asked.only]
    if not chosen:
        print(f"no such mutant; there are {', '.join(mutant.name for mutant in MUTANTS)}", file=sys.stderr)
        return 2
    fates = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        for fate in pool.map(run, chosen):
            fates.append(fate)
            said = f"{fate.law or 'SURVIVES':24} {fate.seconds:5.0f}s  {fate.mutant.name}: {fate.of}: {fate.case}"
            print(said, flush=True)
    alive = [fate.mutant.name for fate in fates if fate.law is None]
    print(f"{len(fates) - len(alive)} of {len(fates)} mutants are found; alive: {', '.join(alive) or 'none'}")
    if asked.write:
        PAGE.write_text(page(fates))
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
