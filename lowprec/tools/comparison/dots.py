"""Dot products and products of matrices, as a subject of comparison.

Floor 5.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.arrays.checks import UNSIGNED, code_dtype
from lowprec.spec import catalog
from lowprec.spec.accumulation import PAIRWISE, SEQUENTIAL, Accumulation, Window, chunked
from lowprec.spec.accumulations import ACCUMULATIONS, E8M13
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import rounding
from lowprec.tools.comparison.dumps import Dump
from lowprec.tools.comparison.elementwise import carried, is_values, on_grid
from lowprec.tools.comparison.misreadings import ROUNDINGS
from lowprec.tools.comparison.shown import hex_of, shown_code, shown_value
from lowprec.tools.comparison.subject import Array, Batch, Change, Changes, Detail, Subject
from lowprec.tools.comparison.tally import distances

__all__ = ["Dots", "could_be"]

#: Products of a piece, rows and columns of a sample, and outputs of one.
_PIECE, _SIDE, _OUTPUTS = 1 << 25, 64, 1 << 12

_STEPS = (1, 2, 4, 8, 16, 32, 64, 128)
_CHUNKS = (4, 8, 16, 32, 64, 128, 256, 512)


class Dots(Subject):
    """Sums of products by an accumulation."""

    def __init__(
        self,
        verb: str,
        x: Dump,
        y: Dump,
        how: Accumulation,
        got: Dump,
        *,
        formats: tuple[Format | None, Format | None] = (None, None),
        addend: Dump | None = None,
        any_nan: bool = False,
    ) -> None:
        self.verb, self.how, self.received, self.target = verb, how, got, how.output[0]
        operands = how.operands or formats
        self.x, self.y = (_numbers(side, fmt) for side, fmt in zip((x, y), operands, strict=True))
        self.addend = None if addend is None else _numbers(addend, None)
        shape = _shape(verb, self.x, self.y)
        if got.shape != shape:
            raise ValueError(f"{verb} of shapes {x.shape} and {y.shape} has {shape} results, not {got.shape}")
        self.shape, self.size = shape, got.size
        if self.addend is not None:
            self.addend = np.broadcast_to(self.addend, shape)
        self.values = is_values(got.dtype, self.target)
        self.any_nan = any_nan or self.values
        self.rows = shape[0] if shape else 1

    def question(self) -> str:
        """What was asked, in words."""
        return f"{self.verb} by {self.how.name or 'an accumulation'}, K = {self.x.shape[-1]}"

    def facts(self) -> dict[str, Any]:
        """What was asked, as data."""
        return {"operation": self.verb, "formats": [self.target.name], "accumulation": self.how.name or str(self.how)}

    def batches(self) -> Iterator[Batch]:
        """All of it, in pieces of whole rows."""
        columns = max(self.size // max(self.rows, 1), 1)
        step = max(_PIECE // max(columns * self.x.shape[-1], 1), 1)
        for start in range(0, self.rows, step):
            stop = min(start + step, self.rows)
            given = self._part(slice(start, stop), None)
            got = self._words(self.received.read(start * columns, stop * columns))
            yield Batch(slice(start * columns, stop * columns), got, given)

    def _part(self, rows: Any, columns: Any) -> tuple[Array, Array, Array | None]:
        x, y, addend = self.x, self.y, self.addend
        if self.verb == "dot":
            return x[rows], y[rows] if y.ndim == x.ndim else y, None if addend is None else addend[rows]
        x = x[rows] if x.ndim > 1 else x
        if columns is None:
            part = y[rows] if y.ndim > 2 else y
            return x, part, None if addend is None else addend[rows]
        return x, y[:, columns], None if addend is None else addend[rows][:, columns]

    @staticmethod
    def _words(elements: Array) -> Array:
        return elements.view(UNSIGNED[elements.dtype.itemsize])

    def sample(self, different: Array, equal: Array) -> Batch:
        """Rows and columns, those with mismatches first; or some results."""
        if self.verb == "matmul" and self.x.ndim == self.y.ndim == 2:
            columns = self.shape[1]
            chosen = []
            for part in (0, 1):
                places = np.concatenate([np.divmod(different, columns)[part], np.divmod(equal, columns)[part]])
                _, first = np.unique(places, return_index=True)
                chosen.append(np.sort(places[np.sort(first)][:_SIDE]))
            index = (chosen[0][:, None] * columns + chosen[1]).reshape(-1)
            return Batch(index, self._words(self.received.take(index)), self._part(*chosen))
        if self.verb == "dot" and self.x.shape == self.y.shape and self.x.ndim == 2:
            half = _OUTPUTS // 2
            index = np.sort(np.concatenate([different[:half], equal[:half]]))
            return Batch(index, self._words(self.received.take(index)), self._part(index, None))
        return next(self.batches())

    # -- answers --------------------------------------------------------------------------------

    def answer(self, batch: Batch, changes: Changes = ()) -> Array:
        """What the results must be, or would be."""
        how, (x, y, addend) = self.how, batch.given
        for change in changes:
            if change.field != "backward":
                how = change.value(how)
        if any(change.field == "backward" for change in changes):
            x, y = x[..., ::-1], (y[..., ::-1] if self.verb == "dot" else np.flip(y, -2 if y.ndim > 1 else 0))
        verb: Callable[..., Any] = lp.dot if self.verb == "dot" else lp.matmul
        target = how.output[0]
        codes = np.asarray(verb(x, y, how, addend=addend, dtype=code_dtype(target))).reshape(-1)
        return carried(codes, target, self.received.dtype) if self.values else codes

    def changes(self) -> Iterator[Change]:
        """Everything that might be otherwise."""
        how = self.how
        if isinstance(how.accumulator, Window):
            yield from _windows(how, how.accumulator)
        elif how.accumulator is not None:
            yield from _sums(how)
        for name in could_be(self.x, self.y, self.target):
            if ACCUMULATIONS[name] != how:
                yield Change("named", _named(name), f"accumulation {name!r}", 2)
        if how.order.name != "exact":
            yield Change("backward", None, "the products in reverse order", 2)
        mode = how.output[1].rounding
        for name in ("nearest_even", "toward_zero", "nearest_away"):
            if name != str(mode):
                yield Change("output", _output(name), f"output: {ROUNDINGS[name]}", 2)

    # -- what is counted and told ---------------------------------------------------------------

    def codes(self, answers: Array) -> Array:
        """Codes of the target that answers stand for; -1 for those that stand for none."""
        if not self.values:
            return np.where(answers.astype(np.int64) < 1 << self.target.width, answers.astype(np.int64), -1)
        patterns = answers.astype(UNSIGNED[self.received.dtype.itemsize])
        return on_grid(patterns, self.received.dtype, self.target)

    situation_names = ("sums",)

    def situations(self, batch: Batch, where: Array) -> npt.NDArray[np.uint8]:
        """Nothing is known of sums, which are rounded many times."""
        return np.zeros(int(np.count_nonzero(where)), np.uint8)

    def numbers(self, batch: Batch, where: Array) -> npt.NDArray[np.float64]:
        """The right results."""
        codes = np.maximum(self.codes(self.answer(batch)[where]), 0).astype(code_dtype(self.target))
        return np.asarray(lp.decode(codes, self.target, dtype=np.float64))

    def detail(self, batch: Batch, place: int, want: int) -> Detail:
        """A mismatch, told in full."""
        got = int(batch.got[place])
        at = int(batch.places[place])
        where = tuple(int(part) for part in np.unravel_index(at, self.shape)) if self.shape else ()
        carrier = catalog.carrier(self.received.dtype) if self.values else None
        shown_as = self.target if carrier is None else carrier
        value = self._exact(where)
        said = [("exact", "NaN or infinite" if value is None else shown_value(value))]
        said += [("got", shown_code(got, shown_as)), ("want", shown_code(want, shown_as))]
        meant = self.codes(np.array([got, want]))
        distance = None if min(meant) < 0 else int(distances(meant[:1], meant[1:], self.target)[0])
        data = {
            "index": at,
            "at": list(where),
            "operands": [],
            "exact": said[0][1],
            "got": hex_of(got, shown_as),
            "want": hex_of(want, shown_as),
            "situation": "sums",
            "ulps": distance,
        }
        return Detail(tuple(said), "sums", distance, data)

    def _exact(self, where: tuple[Any, ...]) -> Fraction | None:
        """The sum of the products, without any rounding."""
        if self.verb == "dot":
            x = np.broadcast_to(self.x, (*self.shape, self.x.shape[-1]))[where]
            y = np.broadcast_to(self.y, (*self.shape, self.y.shape[-1]))[where]
        else:
            columns = () if self.y.ndim == 1 else where[-1:]
            rows = () if self.x.ndim == 1 else (where[-2:-1] if columns else where[-1:])
            outer = where[: len(where) - len(rows) - len(columns)]
            x = self.x[(*(outer if self.x.ndim > 2 else ()), *rows)]
            place: tuple[Any, ...] = (*(outer if self.y.ndim > 2 else ()), Ellipsis, *columns)
            y = self.y[place]
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            return None
        total = sum((Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), y.tolist(), strict=True)), Fraction(0))
        first = None if self.addend is None else float(self.addend[where])
        if first is None:
            return total
        return total + Fraction(first) if np.isfinite(first) else None


def could_be(x: Array, y: Array, target: Format) -> Iterator[str]:
    """The names of accumulations that take such factors and give such results."""
    has: dict[tuple[int, Format], bool] = {}

    def holds(number: int, side: Array, fmt: Format) -> bool:
        if (number, fmt) not in has:
            codes = lp.encode(side.reshape(-1)[: 1 << 16], fmt, projection=Projection(nan="max", negative="zero"))
            back = np.asarray(lp.decode(codes, fmt, dtype=np.float64))
            numbers = side.reshape(-1)[: 1 << 16].astype(np.float64)
            has[number, fmt] = bool(np.array_equal(back, numbers, equal_nan=True))
        return has[number, fmt]

    for name, how in ACCUMULATIONS.items():
        if how.output[0] != target or how.scale is not None:
            continue
        if how.operands is None or all(
            holds(number, side, fmt) for number, (side, fmt) in enumerate(zip((x, y), how.operands, strict=True))
        ):
            yield name


def _numbers(side: Dump, fmt: Format | None) -> Array:
    whole = side.read(0, side.size).reshape(side.shape)
    if whole.dtype.kind in "iu":
        if fmt is None:
            raise ValueError(f"{side.name!r} holds {whole.dtype}: say of which format its codes are")
        return np.asarray(lp.decode(whole, fmt))
    return whole


def _shape(verb: str, x: Array, y: Array) -> tuple[int, ...]:
    if verb == "dot":
        if x.shape[-1:] != y.shape[-1:]:
            raise ValueError(f"dot of shapes {x.shape} and {y.shape}: both need the same K")
        return np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    if not x.ndim or not y.ndim or x.shape[-1] != y.shape[max(-2, -y.ndim)]:
        raise ValueError(f"matmul of shapes {x.shape} and {y.shape}: both need the same K")
    outer = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    if len(outer) and x.ndim != y.ndim:
        raise ValueError(f"matmul of shapes {x.shape} and {y.shape} is compared with as many axes on either side")
    return (*outer, *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ()))


# -- changes -----------------------------------------------------------------------------------------

How = Callable[[Accumulation], Accumulation]


def _named(name: str) -> How:
    return lambda how: ACCUMULATIONS[name]


def _field(**fields: Any) -> How:
    return lambda how: dataclasses.replace(how, **fields)


def _window(**fields: Any) -> How:
    def changed(how: Accumulation) -> Accumulation:
        if not isinstance(how.accumulator, Window):
            raise ValueError("no window")
        return dataclasses.replace(how, accumulator=dataclasses.replace(how.accumulator, **fields))

    return changed


def _result(**fields: Any) -> How:
    def changed(how: Accumulation) -> Accumulation:
        if not isinstance(how.accumulator, Window):
            raise ValueError("no window")
        fmt, rule = how.accumulator.result
        fmt, rule = fields.get("fmt", fmt), dataclasses.replace(rule, rounding=fields.get("rounding", rule.rounding))
        return _window(result=(fmt, rule))(how)

    return changed


def _output(name: str) -> How:
    def changed(how: Accumulation) -> Accumulation:
        return dataclasses.replace(
            how, output=(how.output[0], dataclasses.replace(how.output[1], rounding=rounding(name)))
        )

    return changed


def _windows(how: Accumulation, window: Window) -> Iterator[Change]:
    for bits in range(1, 49):
        if bits != window.fraction_bits:
            words = f"F = {bits} instead of {window.fraction_bits}: fraction bits that alignment keeps"
            yield Change("fraction_bits", _window(fraction_bits=bits), words)
    if window.fraction_bits is not None:
        yield Change("fraction_bits", _window(fraction_bits=None), "steps summed exactly: nothing cut by alignment")
    for step in _STEPS:
        if step != window.step:
            words = f"L = {step} instead of {window.step}: products in a step"
            yield Change("step", _window(step=step), words)
    for name in ("toward_zero", "nearest_even", "nearest_away"):
        if name != str(window.result[1].rounding):
            yield Change("result_rounding", _result(rounding=rounding(name)), f"sums of steps: {ROUNDINGS[name]}")
    for fmt in (catalog.BINARY32, E8M13, catalog.BINARY16, catalog.BFLOAT16):
        if fmt != window.result[0]:
            yield Change("result", _result(fmt=fmt), f"sums of steps in {fmt.name}, not {window.result[0].name}")
    for cut in ("toward_zero", "floor"):
        if cut != window.cut:
            yield Change("cut", _window(cut=cut), f"terms cut {cut.replace('_', ' ')}")
    for groups in ("consecutive", "alternate_pairs"):
        if groups != window.groups:
            yield Change("groups", _window(groups=groups), f"steps of {groups.replace('_', ' ')} products")
    for size in _CHUNKS:
        total = (catalog.BINARY32, Projection())
        words = f"sums of {size} products added up in binary32"
        if size != how.order.size:
            yield Change("order", _field(order=chunked(size), total=total), words)
    if how.order.name == "chunked":
        yield Change("order", _field(order=SEQUENTIAL, total=None), "one running sum, without chunks")


def _sums(how: Accumulation) -> Iterator[Change]:
    assert isinstance(how.accumulator, tuple)
    fmt, rule = how.accumulator
    for order in (SEQUENTIAL, PAIRWISE, *(chunked(size) for size in _CHUNKS)):
        if order != how.order:
            yield Change("order", _field(order=order, total=None), f"order {order} instead of {how.order}")
    for other in (catalog.BINARY64, catalog.BINARY32, E8M13, catalog.BFLOAT16, catalog.BINARY16):
        if other != fmt:
            words = f"accumulated in {other.name}, not {fmt.name}"
            yield Change("accumulator", _field(accumulator=(other, Projection())), words)
    for name in ("toward_zero", "nearest_even", "nearest_away"):
        if name != str(rule.rounding):
            changed = (fmt, dataclasses.replace(rule, rounding=rounding(name)))
            yield Change("accumulator", _field(accumulator=changed), f"sums: {ROUNDINGS[name]}")
    if how.product is not None:
        yield Change("product", _field(product=None), "products not rounded (fused multiplication and addition)")
    for other in (catalog.BINARY32, catalog.BFLOAT16, catalog.BINARY16):
        if how.product is None or how.product[0] != other:
            yield Change("product", _field(product=(other, Projection())), f"products rounded to {other.name}")
