"""The formula of an operation in 64-bit words, which the kernels compute and C and SMT-LIB are written from.

Functions of the kernels run on words without a value (`words`), with the parameters of formats known.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lowprec.export.words import Word, cast, least, length, most, negated, select, word_of
from lowprec.kernels.general.kernel import element
from lowprec.kernels.general.operations import serves
from lowprec.kernels.general.rounding import drawn_limit, load_target
from lowprec.kernels.jit import bit_length, load_record
from lowprec.kernels.lower.records import Grid, Source
from lowprec.kernels.lower.scalar import lower_source, lower_target, may_refuse
from lowprec.kernels.request import CONVERT
from lowprec.spec.arith import OPERANDS, SIGN_ONLY
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format
from lowprec.spec.projection import Projection

__all__ = ["Formula", "formula"]


class _Double(NamedTuple):
    """A binary64 number of the kernels: a word with bit 52 set, times two to a power."""

    word: Word
    up: Word


class _Digits(NamedTuple):
    """The first digits of a quotient or a root, which kernels take from the processor and then correct."""

    operation: str
    args: tuple[Word, ...]

    def __mul__(self, power: Any) -> _Digits:
        return self


_FLOATS = types.SimpleNamespace(
    divide=lambda x, y: _Digits("quotient", (x.word, y.word)),
    sqrt=lambda x: _Digits("root", (x.word, x.up)),
)


def _digits(found: _Digits) -> Word:
    return Word(found.operation, found.args, "word")


# -- functions of the kernels ------------------------------------------------------------------------

#: What stands for names of the kernels, and for what they are.
_BY_NAME: dict[str, Any] = {
    "pick": select,
    "bit_length": length,
    "as_double": _Double,
    "as_integer": _digits,
    "np": _FLOATS,
    "min": least,
    "max": most,
}
_BY_IDENTITY = {id(np.uint64): cast("word"), id(np.int64): cast("signed"), id(bit_length): length}


class _OnWords(ast.NodeTransformer):
    """Let a function's `not` and `a if b else c` take words, and words remember the names they are given."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Replace `not`."""
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.Call(ast.Name("negated", ast.Load()), [node.operand], [])

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Replace `a if b else c`."""
        self.generic_visit(node)
        ways = [ast.Lambda(_NO_ARGUMENTS, way) for way in (node.body, node.orelse)]
        return ast.Call(ast.Name("_either", ast.Load()), [node.test, *ways], [])

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Let the value know its name."""
        self.generic_visit(node)
        if isinstance(node.targets[0], ast.Name):
            words = [ast.Constant(node.targets[0].id), node.value]
            node.value = ast.Call(ast.Name("_called", ast.Load()), words, [])
        return node


_NO_ARGUMENTS = ast.arguments(
    posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
)


def _either(condition: Any, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    if not isinstance(condition, Word) or condition.value is not None:
        return first() if condition else second()
    return select(condition, first(), second())


def _called(name: str, value: Any) -> Any:
    if isinstance(value, Word) and not value.name:
        value.name = name
    return value


def _plain(function: Any) -> Any:
    """Return a function of the kernels as Python has it."""
    return getattr(function, "py_func", function)


def _on_words(function: Any, made: dict[int, Any]) -> Any:
    """Return a function of the kernels that takes words, and whose functions do."""
    if id(function) in made:
        return made[id(function)]
    plain = _plain(function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(plain)))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    found = inspect.getclosurevars(plain)
    given = {**vars(builtins), **plain.__globals__, **found.nonlocals}
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names = read.difference(plain.__code__.co_varnames)
    scope = {name: _for_words(name, given[name], made) for name in names if name in given}
    scope |= {"negated": negated, "_either": _either, "_called": _called}
    tree = ast.fix_missing_locations(_OnWords().visit(tree))
    exec(compile(tree, f"<{plain.__name__} on words>", "exec"), scope)
    made[id(function)] = scope[plain.__name__]
    return made[id(function)]


def _for_words(name: str, value: Any, made: dict[int, Any]) -> Any:
    """Return what stands for a value in a function of words."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if id(value) in _BY_IDENTITY:
        return _BY_IDENTITY[id(value)]
    if isinstance(value, np.generic):
        return word_of(value)
    return _on_words(value, made) if hasattr(value, "py_func") else value


def _record(record: Any) -> Any:
    """Return a record of numbers as one of words."""
    return type(record)(*(_record(field) if isinstance(field, tuple) else word_of(field) for field in record))


# -- formulas ----------------------------------------------------------------------------------------


class Formula(NamedTuple):
    """An operation: the words that it is given, the code that it gives, and its flags (`Flag`)."""

    given: Sequence[Word]  #: a code for each operand, and the random integer of a stochastic mode
    code: Word
    flags: Word


def formula(
    operation: str,
    sources: Sequence[Format],
    target: Format,
    projection: Projection,
    *,
    usual: bool = False,
) -> Formula:
    """Return the formula of an operation, "convert" or one of `lowprec.spec.arith.OPERANDS`.

    `usual` asks for the shorter one, which kernels take for formats as `project_usual` says.

    Raises ValueError: an operation or formats that need more than 64 bits, or a rule that takes several
    steps; the message names it.
    """
    if why := _unsaid(operation, sources, target, projection):
        raise ValueError(f"{operation} into {target.name!r} has no formula in 64-bit words: it has {why}")
    flushes = projection.flushes_operands and operation not in SIGN_ONLY
    reads = [lower_source(fmt, flushes) for fmt in sources]
    words, wide = lower_target(target, projection), serves(operation, [*sources], target, projection)[1]
    if may_refuse(words):
        raise ValueError(
            f"{operation} into {target.name!r} refuses some results, and a formula gives a code for each; "
            f"use another Projection(nan=...), of the commands --nan-becomes, or Projection(negative=...)"
        )
    stochastic, made = projection.rounding.bits > 0, dict[int, Any]()
    records = [_record(load_record(Source, each, 0)) for each in reads]
    goal = _record(_plain(load_target)(words))
    given = [Word("given", (), "word", name=name) for name in "xyz"[: len(sources)]]
    drawn = word_of(np.uint64(0))
    if stochastic:
        given.append(Word("given", (), "word", name="random"))
        drawn = _on_words(drawn_limit, made)(given[-1], _record(load_record(Grid, words, 0)))
    result = _on_words(element(operation, wide, stochastic, False, usual, True), made)
    code, flags = result(
        *[*given[: len(sources)], *[word_of(np.uint64(0))] * (3 - len(sources))],
        *[*records, *records[:1] * (3 - len(records))],
        goal, projection.rounding.downward, drawn, projection.nan_payload == "signaling_first",
    )  # fmt: skip
    return Formula(given, code, word_of(flags))


def _unsaid(operation: str, sources: Sequence[Format], target: Format, projection: Projection) -> str:
    """Return what a formula cannot say, in words; nothing where it says all."""
    if operation != CONVERT and operation not in OPERANDS:
        raise ValueError(f"{operation!r} has no formula; use {CONVERT} or one of {', '.join(OPERANDS)}")
    wanted = OPERANDS.get(operation, 1)
    if len(sources) != wanted:
        raise ValueError(f"{operation} takes {wanted} formats of operands, not {len(sources)}")
    for fmt in (*sources, target):
        if isinstance(fmt, Codebook):
            return f"the codebook {fmt.name!r}"
        if isinstance(fmt, Carrier) and not fmt.exponent_bits:
            return f"the integers {fmt.name!r}"
    if projection.via:
        return "a rounding on the way (via)"
    if operation == "remainder":
        return "as many steps as the quotient is long"
    if not serves(operation, [*sources], target, projection)[0]:
        return f"results of more bits ({', '.join(fmt.name for fmt in sources)})"
    return ""
