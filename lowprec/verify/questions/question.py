"""A question, such as "these values in e4m3fn", with the answers that were given, in pieces.

It knows the right answers, and those to the question with some changes: a `Change` is one respect in which
whoever answered may have understood it otherwise, and a hypothesis about the cause of differences is some
changes together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import UNSIGNED
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.verify.codes import codebooks
from lowprec.verify.codes.display import hex_of, shown_code
from lowprec.verify.codes.values import carrier_of, distances, is_nan, on_grid
from lowprec.verify.difference import Difference
from lowprec.verify.dumps.files import Dump
from lowprec.verify.questions.features import Feature, of_codes, of_neighbours, of_place

__all__ = ["Array", "Batch", "Budget", "Change", "Changes", "Each", "Judged", "Question", "budget", "differ"]
__all__ += ["count_columns", "each_here", "excluded", "judged"]

Array = npt.NDArray[Any]

#: Codes that a result may lie from the right one; "auto": as far as any order of summation can lead.
Budget = int | Literal["auto"]


@dataclass(frozen=True)
class Change:
    """An assumption that the implementation may not share."""

    field: str  #: of two changes of one field only one holds
    value: Any
    words: str
    cost: int = 1  #: of hypotheses that explain as much, the cheaper is told first
    learnt: bool = False  #: whether it is about a number that wrong results have, so that few prove nothing


Changes = tuple[Change, ...]

#: Fields that a change settles besides its own: none of them is changed together with it.
_WHOLE = {
    "profile": (
        *("rounding", "saturation", "subnormals", "via", "nan", "overflow_test"),
        *("rule", "element", "zero", "infinity", "flush_subnormals"),
    ),
    "shaping": ("element",),  # codes are changed by the bits of the element's format
}


def count_columns(rows: Array) -> int:
    """Return how many columns of a matrix of integers differ."""
    ordered = rows[:, np.lexsort(rows)]
    changes = np.count_nonzero((ordered[:, 1:] != ordered[:, :-1]).any(0))
    return int(changes) + int(rows.shape[1] > 0)


def excluded(changes: Iterable[Change]) -> set[str]:
    """Return the fields that these changes settle."""
    fields = {change.field for change in changes}
    parts = {part for field in fields for part in _WHOLE.get(field, ())}
    return fields | parts | {whole for whole, parts in _WHOLE.items() if fields & set(parts)}


def budget(ulps: int | str | None, operation: str, dots: tuple[str, ...] = ()) -> Budget | None:
    """Return a budget as it is asked for, or refuse it; "auto" is for dots.

    Raises ValueError: no number of codes, or less than 1.
    """
    if ulps is None:
        return None
    if ulps == "auto":
        if operation not in dots:
            raise ValueError(
                f"ulps='auto' is for dot and matmul, whose order of summation may differ; {operation!r} "
                f"has one right result: leave ulps out, or give a number of codes"
            )
        return "auto"
    if isinstance(ulps, bool) or not hasattr(ulps, "__index__"):
        raise ValueError(f"ulps={ulps!r} must be a number of codes, or 'auto'")
    if int(ulps) < 1:
        raise ValueError(f"ulps={ulps!r} must be 1 or more; leave it out to allow no difference")
    return int(ulps)


@dataclass
class Batch:
    """A piece of what is compared."""

    index: Array | slice  #: places of the results, of all that are compared
    got: Array  #: what was answered, one-dimensional
    given: Any  #: what was asked of

    @property
    def places(self) -> Array:
        """The places of the results, one by one."""
        if isinstance(self.index, slice):
            return np.arange(self.index.start, self.index.stop)
        return self.index


class Question(ABC):
    """A computation (operation, formats, projection, operands, how NaNs count) and the results given for it.

    `answer` says what the results must be, and with changes what they would be.
    """

    target: Format  #: of the codes that are counted and shown
    size: int  #: results
    received: Dump  #: the results
    values: bool  #: whether they are values, not codes
    coded: bool = True  #: whether distances and classes of results mean anything
    numbered: str = "line"  #: what the number of a result counts
    dear: bool = False  #: whether answers take so long that hypotheses are tried on a few results first
    any_nan: bool = False  #: whether any NaN is right where a NaN is
    budget: Budget | None = None  #: how far results may lie from the right ones; None: not at all

    @abstractmethod
    def words(self) -> str:
        """Return what was asked, in words."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return what was asked, as data."""

    def asked(self) -> dict[str, Any]:
        """Return what else a baseline must have been asked, as data: the words do not tell it."""
        return {"any_nan": self.any_nan}

    @abstractmethod
    def bounds(self) -> Iterator[tuple[int, ...]]:
        """Yield where pieces begin and end, in the order of results."""

    @abstractmethod
    def piece(self, *bounds: int) -> Batch:
        """Return the piece with these bounds."""

    def batches(self) -> Iterator[Batch]:
        """Yield all of it, in pieces."""
        return (self.piece(*bounds) for bounds in self.bounds())

    @abstractmethod
    def sample(self, different: Array, equal: Array) -> Batch:
        """Return a piece that holds these places, or many of them."""

    @abstractmethod
    def answer(self, batch: Batch, changes: Changes = ()) -> Array:
        """Return what results must be, or would be under changes: -1 where nothing can be said."""

    @abstractmethod
    def changes(self) -> Iterator[Change]:
        """Yield every respect in which the question may have been understood otherwise."""

    def codes(self, answers: Array) -> Array:
        """Return codes of the target that answers stand for; -1 for those that stand for none."""
        wide = answers.astype(np.int64)
        if not self.values:
            return np.where(wide < 1 << self.target.width, wide, -1)
        dtype = self.received.dtype
        return on_grid(answers.astype(UNSIGNED[dtype.itemsize]), dtype, self.target)

    situation_names: tuple[str, ...]  #: what the numbers of situations stand for

    @abstractmethod
    def situations(self, batch: Batch, where: Array, want: Array) -> npt.NDArray[np.uint8]:
        """Return where exact results lie between the target's values, as indices into `situation_names`."""

    @abstractmethod
    def numbers(self, batch: Batch, where: Array, want: Array) -> npt.NDArray[np.float64]:
        """Return operands of conversions, else the right results: their binades are counted."""

    def nans(self, answers: Array) -> npt.NDArray[np.bool_]:
        """Return which answers are NaN."""
        codes = self.codes(answers)
        return np.asarray((codes >= 0) & is_nan(np.maximum(codes, 0), self.target))

    def apart(self, got: Array, want: Array) -> tuple[Array, Array]:
        """Return by how many codes results exceed the right ones, and where both are finite numbers."""
        found, right = self.codes(got), self.codes(want)
        finite = _finite(found, self.target) & _finite(right, self.target)
        return np.where(finite, distances(found, right, self.target), 0), finite

    def limits(self, batch: Batch, places: Array, want: Array) -> tuple[Array, Array]:
        """Return the least and the greatest distance that the budget allows at some places of a batch."""
        assert isinstance(self.budget, int), "what has a budget of its own says how large it is"
        far = np.full(places.size, self.budget)
        return -far, far

    @abstractmethod
    def difference(self, batch: Batch, place: int, want: int) -> Difference:
        """Return a mismatch, told in full."""

    def differing(
        self, said: list[tuple[str, str]], data: dict[str, Any], got: int, want: int, situation: str
    ) -> Difference:
        """Return a difference: what was asked, then what came of it and what should have."""
        meant = np.concatenate([self.codes(np.array([code])) for code in (got, want)])  # each of its type
        distance = None if min(meant) < 0 else int(distances(meant[:1], meant[1:], self.target)[0])
        shown_as = carrier_of(self.received.dtype) if self.values else self.target
        came = "nothing" if got == -1 else shown_code(got, shown_as)
        if self.values and meant[0] < 0 <= meant[1]:
            came = f"{came}, which {self.target.name} does not have"
        rows = (*said, ("got", came), ("want", shown_code(want, shown_as)))
        codes = {"got": None if got == -1 else hex_of(got, shown_as), "want": hex_of(want, shown_as)}
        return Difference(
            rows, situation, distance, data | codes | {"situation": situation, "ulps": distance}
        )

    #: Places of results that a first cause explains, while a second one is sought.
    settled: Array | None = None

    def left(self, places: Array) -> npt.NDArray[np.bool_]:
        """Return which results no first cause explains."""
        return np.isin(places, [] if self.settled is None else self.settled, invert=True)

    def compared(self, batch: Batch) -> Array | None:
        """Return which results are compared; None: all."""
        return None

    def independent(self, places: Array) -> int:
        """Return how many of these results were computed apart: of a block all elements share a scale."""
        return places.size

    def edits(self) -> Iterator[Change]:
        """Yield changes that explain results together with a condition, besides those of `changes`."""
        yield from ()

    def narrowed(self, change: Change) -> Iterator[Change]:
        """Yield a change that holds for a part of the computation alone."""
        yield from ()

    def edited(self, answers: Array, change: Change) -> Array:
        """Return answers whose results are changed by an edit of their codes."""
        return np.asarray(change.value(answers.astype(np.int64), self.target))

    def features(self, batch: Batch, want: Array) -> Iterator[Feature]:
        """Yield what may tell wrong results from right ones, the telling first."""
        codes = self.codes(want)
        if self.coded and not self.values:
            yield from of_codes("the result", codes, self.target)
        yield from self.own_features(batch, want)
        before = self.before(batch)
        if before is not None:
            yield from of_neighbours("the result before", self.codes(before), self.target)
            if isinstance(batch.index, slice):
                yield from of_neighbours("the right result before", np.roll(codes, 1), self.target)
        yield from of_place(batch.places, self.numbered)

    def own_features(self, batch: Batch, want: Array) -> Iterator[Feature]:
        """Yield features of this kind of question: of operands and of how the result comes about."""
        yield from ()

    def swept(self, batch: Batch) -> bool:
        """Return whether results are in the order of an operand, so that those before are like them."""
        return False

    def before(self, batch: Batch) -> Array | None:
        """Return the results at the places before those of a batch; None where none come before."""
        return None

    def random(self, batch: Batch) -> tuple[Array, Array, Array] | None:
        """Return the two answers next to each exact result, and how far it lies from the first to the second.

        None where that is not known.
        """
        return None


def differ(question: Question, got: Array, want: Array) -> npt.NDArray[np.bool_]:
    """Return where results are not what they must be."""
    wrong = got != want
    if question.any_nan and wrong.any():
        places = np.flatnonzero(wrong)
        wrong[places[question.nans(got[places]) & question.nans(want[places])]] = False
    return np.asarray(wrong)


def _finite(codes: Array, fmt: Format) -> npt.NDArray[np.bool_]:
    """Return which codes of a format are finite numbers; -1 is none."""
    if isinstance(fmt, Codebook):
        return np.asarray((codes >= 0) & np.isfinite(codebooks.values(fmt))[np.maximum(codes, 0)])
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return np.asarray((codes >= 0) & ~is_nan(np.maximum(codes, 0), fmt))
    return np.asarray((codes >= 0) & (codes & ~fmt.sign_code <= fmt.max_magnitude) & ~is_nan(codes, fmt))


@dataclass
class Judged:
    """The results of a batch, each right, within the budget, or wrong."""

    want: Array
    wrong: npt.NDArray[np.bool_]  #: those that differ, and lie outside the budget
    right: npt.NDArray[np.bool_]  #: those that are equal
    differing: Array  #: places of those that differ, within the budget or not
    far: Array  #: by how many codes each of these exceeds the right one
    finite: npt.NDArray[np.bool_]  #: which of these distances mean anything
    limits: tuple[Array, Array]  #: the least and the greatest distance that are allowed to each of these


def judged(question: Question, batch: Batch) -> Judged:
    """Judge the results of a batch; those that are not compared are neither right nor wrong."""
    want = question.answer(batch)
    wrong = differ(question, batch.got, want)
    asked = question.compared(batch)
    right = ~wrong
    if asked is not None:
        wrong, right = wrong & asked, right & asked
    places = np.flatnonzero(wrong) if question.budget is not None else np.empty(0, np.int64)
    if not places.size:
        none = np.empty(0, np.int64)
        return Judged(want, wrong, right, none, none, none > 0, (none, none))
    far, finite = question.apart(batch.got[places], want[places])
    low, high = question.limits(batch, places, want[places])
    wrong[places[finite & (low <= far) & (far <= high)]] = False
    return Judged(want, wrong, right, places, far, finite, (low, high))


class Each(Protocol):
    """Calls a function with the question, each of its pieces and what else is given; yields the results."""

    def __call__(self, function: Callable[..., Any], *given: Any) -> Iterator[Any]:
        """Yield the results in the order of pieces."""


def each_here(question: Question) -> Each:
    """Return what goes through a question in this process."""
    return lambda function, *given: (function(question, batch, *given) for batch in question.batches())
