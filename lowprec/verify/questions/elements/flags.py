"""Exception flags of conversions, operations and dot products, as questions of comparison.

What is compared is what an implementation recorded beside each result, as `lowprec.Flag` numbers it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec.accumulation import Accumulation
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.projection import Flag, Projection
from lowprec.spec.rounding import TOWARD_ZERO
from lowprec.verify.codes.display import shown_code
from lowprec.verify.difference import Difference
from lowprec.verify.dumps.files import Held
from lowprec.verify.questions.dots.dot_changes import part_of, with_rule
from lowprec.verify.questions.elements.elements import Computation, ElementQuestion
from lowprec.verify.questions.features import Feature
from lowprec.verify.questions.question import Array, Batch, Change, Changes, Question
from lowprec.verify.reference.dots import check_flags, sums_with_flags
from lowprec.verify.reference.operations import OPERATIONS, flags_of

__all__ = ["FlagQuestion", "RecordedFlags", "SumFlagQuestion", "shown_flags"]

_NAMES = {flag: str(flag.name).lower().replace("_", " ") for flag in Flag}
_ALL = sum(Flag)


def shown_flags(flags: int) -> str:
    """Return flags by name.

    >>> shown_flags(5), shown_flags(0), shown_flags(-1)
    ('inexact, overflow', 'none', 'nothing')
    """
    if flags < 0:
        return "nothing"
    names = [name for flag, name in _NAMES.items() if flags & flag]
    return ", ".join([*names, *([f"{flags & ~_ALL:#x}"] if flags & ~_ALL else [])]) or "none"


class RecordedFlags(Question):
    """Flags that were recorded beside results: they are no codes, and what differs is counted by name."""

    coded = False
    #: Which results of a batch are right, once flags beside others are left out.
    right: Callable[[Batch], Array] | None = None
    situation_names = (
        *(f"{name} missing" for name in _NAMES.values()),
        *(f"{name} raised, though it must not be" for name in _NAMES.values()),
        "several flags differ",
        "no flags of lowprec.Flag",
    )

    def compared(self, batch: Batch) -> Array | None:
        """Return which flags are compared: those beside wrong results are left out, once these are known."""
        asked = super().compared(batch)
        if self.right is None:
            return asked
        return self.right(batch) & (True if asked is None else asked)

    def flag_changes(self) -> Iterator[Change]:
        """Yield flags that are lost, stuck or renumbered."""
        yield Change("flags", np.zeros_like, "no flags at all", 2)
        for flag, name in _NAMES.items():
            yield Change("flags", functools.partial(np.bitwise_and, ~flag), f"{name} is never raised")
            yield Change("flags", functools.partial(np.bitwise_or, flag), f"{name} is always raised")
        for first in (Flag.OVERFLOW, Flag.UNDERFLOW):
            words = f"{_NAMES[first]} raised without inexact"
            yield Change("flags", functools.partial(_alone, flag=first), words)
        for places, words in (
            ((4, 3, 2, 1, 0), "flags in reverse order: invalid is 1, inexact 16"),
            ((5, 4, 3, 2, 0), "flags numbered as in x86's MXCSR: inexact is 32"),
        ):
            yield Change("flags", functools.partial(_renumbered, places=places), words)

    def codes(self, answers: Array) -> Array:
        """Return no codes: flags are none."""
        return np.full(answers.shape, -1)

    def situations(self, batch: Batch, where: Array, want: Array) -> npt.NDArray[np.uint8]:
        """Return which flag differs."""
        return _situations(batch.got[where], want)

    def numbers(self, batch: Batch, where: Array, want: Array) -> npt.NDArray[np.float64]:
        """Return nothing: flags are counted by name."""
        return np.zeros(0)

    def random(self, batch: Batch) -> None:
        """Return nothing: flags are no neighbours."""

    def told(
        self, said: list[tuple[str, str]], data: dict[str, Any], result: tuple[str, str], got: int, want: int
    ) -> Difference:
        """Return flags that differ, with what was asked and the right result."""
        rows = [*said, result, ("got", shown_flags(got)), ("want", shown_flags(want))]
        kind = self.situation_names[_situations(np.array([got]), np.array([want]))[0]]
        codes = {"got": None if got < 0 else f"{got:02x}", "want": f"{want:02x}"}
        return Difference(tuple(rows), kind, None, data | codes | {"situation": kind, "ulps": None})


class FlagQuestion(RecordedFlags, ElementQuestion):
    """The flags that conversions or operations raise; `got` holds them, and is no code."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.situation_names = RecordedFlags.situation_names
        if self.received.dtype.kind not in "iu":
            raise ValueError(
                f"{self.received} holds {self.received.dtype}; flags are integers, numbered as lowprec.Flag"
            )
        self.values = self.any_nan = False

    def words(self) -> str:
        """Return what was asked, in words."""
        return f"flags of {super().words()}"

    def _got(self, results: Array) -> Array:
        return results.astype(np.int64)

    def answer(self, batch: Batch, changes: Changes = ()) -> Array:
        """Return the flags that must be raised, or would be."""
        fields = {change.field: change.value for change in changes}
        asked = self._asked(batch, fields)
        found = flags_of(asked.operation, asked.operands, asked.formats, asked.rule).astype(np.int64)
        if "raised" in fields:
            found = fields["raised"](found, asked)
        if "flags" in fields:
            found = fields["flags"](found)
        return found if asked.outside is None else np.where(asked.outside, -1, found)

    def own_features(self, batch: Batch, want: Array) -> Iterator[Feature]:
        """Yield features of the computation, and the flags that the line before must raise."""
        yield from super().own_features(batch, want)
        before = self.answer(self.sample(batch.places[:0], np.maximum(batch.places - 1, 0)))
        places = np.searchsorted(np.unique(np.maximum(batch.places - 1, 0)), np.maximum(batch.places - 1, 0))
        for flag, name in _NAMES.items():
            yield Feature(f"the line before raises {name}", before[places] & flag != 0, before=True)

    def changes(self) -> Iterator[Change]:
        """Yield flags that are lost, stuck or renumbered, and what changes the results, tininess first."""
        yield Change("raised", _always, "underflow raised for every tiny result, the exact ones too")
        yield from self.flag_changes()
        for change in super().changes():
            if change.field == "tininess":  # the results being right, it is likelier than another rounding
                yield dataclasses.replace(change, cost=0)
            elif change.field not in ("received", "format", "nan_code", "nan_sign", "unfused"):
                yield change

    def _factors(self) -> Iterator[Change]:
        return iter(())

    def difference(self, batch: Batch, place: int, want: int) -> Difference:
        """Return flags that differ, with the operands and the right result."""
        said, data = self._told(batch, place)
        one = [given[place : place + 1] for given in batch.given]
        result = int(OPERATIONS[self.operation].compute(one, self.formats, self._rule)[0])
        shown = "result", shown_code(result, self.target)
        return self.told(said, data, shown, int(batch.got[place]), want)


def _situations(got: Array, want: Array) -> npt.NDArray[np.uint8]:
    found = np.full(got.shape, 2 * len(_NAMES), np.uint8)
    for number, flag in enumerate(_NAMES):
        found[want & ~got == flag] = number
        found[got & ~want == flag] = len(_NAMES) + number
    both = (want & ~got != 0) & (got & ~want != 0)
    found[both] = 2 * len(_NAMES)
    found[(got < 0) | (got & ~_ALL != 0)] = 2 * len(_NAMES) + 1
    return found


# -- changes -----------------------------------------------------------------------------------------


def _tiny(asked: Computation) -> Array:
    """Return which exact results lie below the smallest normal number; zeros of any kind count too."""
    target = asked.formats[-1]
    cut = Projection(rounding=TOWARD_ZERO, nan="max" if target.nan_code is None else "error")
    codes = OPERATIONS[asked.operation].compute(asked.operands, asked.formats, cut).astype(np.int64)
    smallest = 1 << target.trailing_bits if target.exponent_bits else 0
    return np.asarray((codes & ~target.sign_code) < smallest)


def _always(flags: Array, asked: Computation) -> Array:
    target = asked.formats[-1]
    if isinstance(target, Codebook):  # nothing is tiny
        return flags
    codes = OPERATIONS[asked.operation].compute(asked.operands, asked.formats, asked.rule).astype(np.int64)
    raised = _tiny(asked) & (codes & ~target.sign_code != 0)
    return np.where(raised, flags | Flag.UNDERFLOW, flags)


def _alone(flags: Array, flag: Flag) -> Array:
    return np.where(flags & flag != 0, flags & ~Flag.INEXACT, flags)


def _renumbered(flags: Array, places: tuple[int, ...]) -> Array:
    found = np.zeros_like(flags)
    for flag, place in zip(_NAMES, places, strict=True):
        found |= np.where(flags & flag != 0, 1 << place, 0)
    return found


# -- of dot products ---------------------------------------------------------------------------------


class SumFlagQuestion(RecordedFlags):
    """The flags that dot products raise, of operands as codes."""

    values = False

    def __init__(
        self,
        x: Array,
        y: Array,
        addend: Array,
        formats: tuple[Format, Format, Format],
        how: Accumulation,
        got: Array,
        results: Array,
    ) -> None:
        """`got` : the flags of `results`, as codes. Raises ValueError: accumulations without flags."""
        check_flags(how)
        self.results = results.reshape(-1)
        self.operands, self.formats, self.how = (x, y, addend), formats, how
        self.received, self.size, self.target = Held(got.astype(np.int64), "flags"), got.size, how.output[0]

    def words(self) -> str:
        """Return what was asked, in words."""
        return f"flags of dot by {self.how}, K = {self.operands[0].shape[1]}"

    def facts(self) -> dict[str, Any]:
        """Return what was asked, as data."""
        return {"operation": "flags of dot", "formats": [self.target.name], "accumulation": str(self.how)}

    def bounds(self) -> Iterator[tuple[int, ...]]:
        """Yield one piece: lines are read whole."""
        yield 0, self.size

    def piece(self, *bounds: int) -> Batch:
        """Return the results of some lines."""
        index = slice(*bounds)
        return Batch(index, self.received.read(*bounds), tuple(part[index] for part in self.operands))

    def sample(self, different: Array, equal: Array) -> Batch:
        """Return the lines at these places."""
        index = np.union1d(different, equal).astype(np.int64)
        return Batch(index, self.received.take(index), tuple(part[index] for part in self.operands))

    def answer(self, batch: Batch, changes: Changes = ()) -> Array:
        """Return the flags that must be raised, or would be."""
        fields = {change.field: change.value for change in changes}
        how = fields["tininess"](self.how) if "tininess" in fields else self.how
        x, y, addend = batch.given
        found = sums_with_flags(x, y, addend, self.formats, how)[1].astype(np.int64)
        return fields["flags"](found) if "flags" in fields else found

    def agreeing(self, batch: Batch) -> Array:
        """Return which results of a batch are right."""
        x, y, addend = batch.given
        right = sums_with_flags(x, y, addend, self.formats, self.how)[0]
        return np.asarray(right == self.results[batch.places])

    def changes(self) -> Iterator[Change]:
        """Yield tininess judged otherwise, and flags that are lost, stuck or renumbered."""
        yield Change("tininess", _tininess, "tininess judged before rounding", 0)
        yield from self.flag_changes()

    def difference(self, batch: Batch, place: int, want: int) -> Difference:
        """Return flags that differ, with the right result."""
        x, y, addend = (part[place : place + 1] for part in batch.given)
        result = int(sums_with_flags(x, y, addend, self.formats, self.how)[0][0])
        data = {"index": int(batch.places[place]), "operands": []}
        return self.told([], data, ("result", shown_code(result, self.target)), int(batch.got[place]), want)


def _tininess(how: Accumulation) -> Accumulation:
    """Return the accumulation whose every rounding judges tininess otherwise."""
    for place in ("product", "accumulator", "total", "output"):
        into = part_of(how, place)
        if into is not None:
            how = with_rule(place, tininess="before" if into[1].tininess == "after" else "after")(how)
    return how
