"""Formulas in SMT-LIB: a solver proves them, and finds the operands for which a planted one is wrong."""

import re

import pytest

from lowprec.export import formula, words
from lowprec.export.smt import operation_functions
from lowprec.spec import catalog
from tests.command import lowprec
from tests.proofs import answer, proofs

QUICK = [proof for proof in proofs() if proof.operation == "convert" and proof.solver == "bitwuzla"]


@pytest.mark.parametrize(
    "proof", [*QUICK[:3], *(pytest.param(proof, marks=pytest.mark.apart) for proof in QUICK[3:])], ids=str
)
def test_conversions_are_those_of_the_theory_of_floats(proof):
    """Ask for an operand of 2^32 or 2^64 that gives another value: there is none."""
    assert answer(proof) == "unsat"


def test_a_wrong_formula_has_a_model(monkeypatch):
    """Plant the limit of rounding away from zero: there are operands that differ."""
    monkeypatch.setitem(formula._BY_NAME, "limit_of", lambda negative, odd, target: odd & words.word_of(0))
    assert answer(QUICK[0]) == "sat"


def test_the_command_writes_both_functions():
    """Write those of the code and of the flags, with the widths of their formats."""
    asked = ["export", "smt", "--operation", "divide", "--format", "bfloat16"]
    result = lowprec(*asked)
    assert result.exit_code == 0
    given = "((x (_ BitVec 16)) (y (_ BitVec 16)))"
    assert f"(define-fun lowprec_divide_bfloat16 {given} (_ BitVec 16)\n" in result.output
    assert f"(define-fun lowprec_divide_bfloat16_flags {given} (_ BitVec 5)\n" in result.output


def test_roots_are_refused():
    """Refuse what is no term of bit vectors."""
    why = "a square root has no formula in bit vectors; use a header in C"
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        operation_functions("sqrt", [catalog.E5M2], catalog.E5M2)
