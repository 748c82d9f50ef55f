"""An operation as functions of SMT-LIB: the kernels' formula in bit vectors, which solvers read."""

from __future__ import annotations

from collections.abc import Sequence

from lowprec.export.c.c_operation import operation_name
from lowprec.export.filling import filled
from lowprec.export.formula import formula
from lowprec.export.words import Word, in_order
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Projection

__all__ = ["operation_functions"]

_TERMS = {
    "add": "bvadd",
    "subtract": "bvsub",
    "multiply": "bvmul",
    "up": "bvshl",
    "select": "ite",
    "equal": "=",
    "not": "not",
    "length": "lowprec_bits",
    "quotient": "lowprec_quotient",
}


def operation_functions(
    operation: str,
    sources: Sequence[Format],
    target: Format,
    projection: Projection = DEFAULT,
    provenance: str = "",
    name: str = "",
    *,
    usual: bool = False,
) -> str:
    """Return two functions, of the code and of the flags (NAME_flags), in the logic of bit vectors.

    Parameters
    ----------
    operation, sources, target, projection, provenance, name
        As of `operation_header`.
    usual : bool
        As of `formula`.

    Raises ValueError: what `formula` refuses, and "sqrt", whose formula is no term of bit vectors.
    """
    found = formula(operation, sources, target, projection, usual=usual)
    name = name or operation_name(operation, sources, target, projection)
    widths = [fmt.width for fmt in sources] + [32] * (len(found.given) - len(sources))
    given = " ".join(
        f"({word.name} (_ BitVec {width}))" for word, width in zip(found.given, widths, strict=True)
    )
    lines = [f"; {provenance}", f"; {operation}: the result in {target.name}, {projection}"]
    lines.append(filled("words.smt2").rstrip())
    for suffix, word, bits in (("", found.code, target.width), ("_flags", found.flags, 5)):
        ordered, (end,) = in_order([word])
        lines.append(f"(define-fun {name}{suffix} ({given}) (_ BitVec {bits})")
        for place, (each, args) in enumerate(ordered):
            term = _term(each, [f"w{arg}" for arg in args], dict(zip("xyz", widths, strict=False)))
            lines.append(f"(let ((w{place} {term}))")
        lines.append(f"((_ extract {bits - 1} 0) w{end}){')' * (len(ordered) + 1)}")
    return "\n".join(lines) + "\n"


def _term(word: Word, args: Sequence[str], widths: dict[str, int]) -> str:
    if word.operation == "given":
        return f"((_ zero_extend {64 - widths.get(word.name, 32)}) {word.name})"
    if word.value is not None:
        if word.kind == "truth":
            return "true" if word.value else "false"
        return f"(_ bv{word.value} 64)"
    first = word.args[0]
    if word.operation == "root":
        raise ValueError("a square root has no formula in bit vectors; use a header in C")
    if word.operation == "same":
        return args[0]
    if word.operation == "of_truth":
        return f"(ite {args[0]} (_ bv1 64) (_ bv0 64))"
    if word.operation == "less":
        term = "bvslt" if first.kind == "signed" else "bvult"
    elif word.operation == "down":
        term = "bvashr" if word.kind == "signed" else "bvlshr"
    elif word.operation in ("and", "or", "xor"):
        term = word.operation if word.kind == "truth" else f"bv{word.operation}"
    else:
        term = _TERMS[word.operation]
    return f"({term} {' '.join(args)})"
