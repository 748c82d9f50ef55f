"""Prove by solvers that the kernels' formulas are floating-point arithmetic as SMT-LIB defines it.

    python -m tests.proofs                 all of them, which takes minutes
    python -m tests.proofs --only add      those whose names have this text

Each proof asks for operands for which the code of the formula, read as a float, is not the value of SMT-LIB's
theory. The solver answers that there are none. Zeros count with their signs; NaN is one value.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from lowprec.export.smt import operation_functions
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection

E4M3 = Format(name="e4m3", exponent_bits=4, trailing_bits=3, infinity=True, nans=7)

#: Rounding modes of SMT-LIB.
MODES = {
    "nearest_even": "RNE",
    "nearest_away": "RNA",
    "toward_zero": "RTZ",
    "toward_positive": "RTP",
    "toward_negative": "RTN",
}

#: What formulas are held against. A sum is also said as an fma: Z3 refuses additions of more exponent bits
#: than digits.
THEORY = {
    "add": "(fp.add {mode} {x} {y})",
    "add_by_fma": "(fp.fma {mode} {x} ((_ to_fp {exponent_bits} {precision}) RNE 1.0) {y})",
    "multiply": "(fp.mul {mode} {x} {y})",
    "divide": "(fp.div {mode} {x} {y})",
    "fma": "(fp.fma {mode} {x} {y} {z})",
    "convert": "((_ to_fp {exponent_bits} {precision}) {mode} {x})",
}


class Proof(NamedTuple):
    """A formula, what it is held against, and the solver that answers soonest."""

    operation: str
    source: Format
    target: Format
    mode: str
    solver: str
    usual: bool = False
    by: str = ""

    def __str__(self) -> str:
        """Return its name."""
        names = [self.source.name] * (self.source != self.target) + [self.target.name]
        words = [self.operation, " to ".join(names), self.mode, "usual" if self.usual else "general"]
        return " ".join(words)


def proofs() -> list[Proof]:
    """Return all of them."""
    binary16, binary32 = catalog.BINARY16, catalog.BINARY32
    found = []
    for mode in MODES:
        for source in (binary32, catalog.BINARY64):
            found += [Proof("convert", source, fmt, mode, "z3") for fmt in (catalog.E5M2, E4M3)]
            found += [Proof("convert", source, binary16, mode, "bitwuzla")]
        found.append(Proof("convert", catalog.BINARY64, binary32, mode, "bitwuzla"))
        found.append(Proof("add", E4M3, E4M3, mode, "z3"))
        found.append(Proof("add", catalog.E5M2, catalog.E5M2, mode, "z3", by="add_by_fma"))
        found += [Proof("multiply", fmt, fmt, mode, "z3") for fmt in (catalog.E5M2, E4M3)]
        found.append(Proof("add", binary16, binary16, mode, "bitwuzla"))
    for usual, fmt in ((False, catalog.E5M2), (True, E4M3)):
        found += [Proof(name, fmt, fmt, "nearest_even", "z3", usual) for name in ("divide", "fma")]
        found.append(Proof("add", binary32, binary32, "nearest_even", "bitwuzla", usual))
    found += [Proof("convert", catalog.BINARY64, binary32, mode, "bitwuzla", True) for mode in MODES]
    return found


def text_of(proof: Proof) -> str:
    """Return the question in SMT-LIB: whether any operands give another value."""
    count = {"convert": 1, "fma": 3}.get(proof.operation, 2)
    target, operands = proof.target, "xyz"[:count]
    functions = operation_functions(
        proof.operation,
        [proof.source] * count,
        target,
        Projection(rounding=proof.mode),
        str(proof),
        "formula",
        usual=proof.usual,
    )
    read = {
        word: f"((_ to_fp {proof.source.exponent_bits} {proof.source.precision}) {word})" for word in "xyz"
    }
    theory = THEORY[proof.by or proof.operation].format(
        mode=MODES[proof.mode], exponent_bits=target.exponent_bits, precision=target.precision, **read
    )
    lines = ["(set-logic QF_BVFP)", functions]
    lines += [f"(declare-const {word} (_ BitVec {proof.source.width}))" for word in operands]
    code = f"(formula {' '.join(operands)})"
    lines.append(f"(assert (not (= ((_ to_fp {target.exponent_bits} {target.precision}) {code}) {theory})))")
    return "\n".join(lines) + "\n"


def answer(proof: Proof) -> str:
    """Return what the solver says: "unsat" where no operands give another value."""
    text = text_of(proof)
    if proof.solver == "z3":
        import z3

        solver = z3.Solver()
        solver.from_string(text)
        return str(solver.check())
    import bitwuzla

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "question.smt2"
        path.write_text(text)
        parser = bitwuzla.Parser(bitwuzla.TermManager(), bitwuzla.Options())
        parser.parse(str(path), parse_only=True)
        return str(parser.bitwuzla().check_sat()).lower()


def main() -> int:
    """Print the answer to each; return 1 if any is another than unsat."""
    parser = argparse.ArgumentParser(description="Prove formulas of the kernels.")
    parser.add_argument("--only", default="", metavar="TEXT")
    chosen = [proof for proof in proofs() if parser.parse_args().only in str(proof)]
    wrong, begin = 0, time.monotonic()
    for proof in chosen:
        start = time.monotonic()
        found = answer(proof)
        wrong += found != "unsat"
        print(f"{proof}: {found}, {time.monotonic() - start:.1f} s", flush=True)
    print(f"{len(chosen) - wrong} of {len(chosen)} proved, {time.monotonic() - begin:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
