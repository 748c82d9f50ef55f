"""The mutants: a name, a file, what is replaced by what, and which checks of the kit are run on it.

They are written in `mutations.txt` beside this file, one a paragraph:

    name: the change, in words
    @ file:function by a check; another
    - an expression or a statement
    + what stands in its place

`compiled` behind the function says that it needs the compiler; a word in capitals is a tuple of this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["MUTANTS", "Mutant"]


class Mutant(NamedTuple):
    """One deliberate mistake: in a function, one expression or statement replaced by another.

    Code is compared as syntax: neither its layout nor its place in the function matters.
    """

    name: str
    file: str  #: below `lowprec/`
    function: str  #: its name, after those of the classes and functions around it; empty for the whole module
    what: str  #: the change, in words
    old: str  #: an expression or a statement that occurs once in the function
    new: str
    tried: tuple[str, ...]  #: checks of the driver, in order
    compiled: bool = False  #: whether it needs the compiler

    @property
    def place(self) -> str:
        """File and function."""
        return f"{self.file}:{self.function}" if self.function else self.file

    @classmethod
    def written(cls, paragraph: str) -> Mutant:
        """Return the mutant of a paragraph."""
        title, *lines = paragraph.splitlines()
        name, what = title.split(": ", 1)
        place, old, new = (
            [line[2:] for line in lines if line.startswith(sign)] for sign in ("@ ", "- ", "+ ")
        )
        where, checks = " ".join(place).split(" by ")
        file, _, function = where.removesuffix(" compiled").partition(":")
        assert len(lines) == len(place) + len(old) + len(new), f"{name}: a line without its sign"
        tried = [item for check in checks.split("; ") for item in _CHECKS.get(check, (check,))]
        compiled = where.endswith(" compiled")
        return cls(name, file, function, what, "\n".join(old), "\n".join(new), tuple(tried), compiled)


_NAMES = ("e2m1fn", "ieee", "fnuz", "unsigned", "int4", "powers")
_RULES = ("floor", "rceil", "even", "nearest", "ceil", "divide")
_OPERATIONS = ("add", "multiply", "divide", "sqrt", "fma", "subtract")

#: What several mutants are tried on, by a name.
_CHECKS = {
    "FORMATS": tuple(f"arrays:{name}" for name in _NAMES),
    "FLAGGED": tuple(f"flagged:{name}" for name in _NAMES),
    "ORACLE": tuple(f"oracle:{name}" for name in (*_NAMES[:4], "ieee_unsigned", *_NAMES[4:])),
    "BLOCKS": tuple(f"arrays blocks:{rule}" for rule in _RULES),
    "SCALAR_BLOCKS": tuple(f"scalar blocks:{rule}" for rule in _RULES),
    "ORACLE_BLOCKS": tuple(f"oracle blocks:{rule}" for rule in _RULES),
    "ARITH": tuple(f"flagged arithmetic:{name} ieee" for name in _OPERATIONS),
    "ORACLE_ARITH": tuple(f"oracle arithmetic:{name} ieee" for name in _OPERATIONS),
    "STREAM": ("arrays:e4m3fn", "arrays:e8m0fnu", "arrays:e5m2", "arrays:binary16"),
    "CDNA3": ("dots:cdna3_mfma_e4m3fnuz_binary32 e4m3fnuz", "dots:cdna3_mfma_binary16_binary32 binary16"),
    "FLAGS": ("engine:vector add binary32 e5m2 flags", "engine:vector multiply binary32 e5m2 flags"),
}

#: All of them: what is found by laws, and then what one engine alone does, which the oracle finds.
MUTANTS = tuple(
    Mutant.written(paragraph)
    for paragraph in Path(__file__).with_suffix(".txt").read_text().strip().split("\n\n")
    if not paragraph.startswith("#")
)
