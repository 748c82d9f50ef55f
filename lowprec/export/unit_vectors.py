"""Test vectors of units: dot products, products of matrices, and comparisons of codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowprec import __version__
from lowprec.arrays.checks import Array, code_dtype
from lowprec.arrays.orders import comparisons, order
from lowprec.export.tabulate import provenance
from lowprec.export.vector_files import Column, VectorFile
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format
from lowprec.spec.rounding import NEAREST_EVEN
from lowprec.verify.codes import codebooks
from lowprec.verify.coverage.dots import plan_of_dots
from lowprec.verify.coverage.points import Plan
from lowprec.verify.inputs.dot_shape import DotCases, Shape, answers, shape_of, values_of
from lowprec.verify.inputs.dots import dots
from lowprec.verify.inputs.operands import combinations, special_codes
from lowprec.verify.reference.dots import check_flags, drawn_codes, random_bits_of, roundings, sums_with_flags

#: The relations of two codes, as columns.
RELATIONS = ("less", "equal", "greater", "unordered")


@dataclass(frozen=True)
class UnitSuite:
    """Vectors of a unit, and how its verification plan is made of them."""

    file: VectorFile
    make_plan: Callable[[], Plan]

    def render(self, kind: str, *, packed: bool = False) -> bytes:
        """Return the suite as a file."""
        return self.file.render(kind, packed=packed)

    def operand_lines(self, *, packed: bool = False) -> str:
        """Return the operands alone, a case a line."""
        return self.file.operand_lines(packed=packed)

    def plan(self) -> Plan:
        """Return the points of the verification plan, with the cases that hit each."""
        return self.make_plan()


def unit_file(
    columns: tuple[Column, ...], words: list[str], command: str, facts: dict[str, Any]
) -> VectorFile:
    """Return columns with a header that says where they come from and what they are."""
    count = len(columns[0].codes)
    named = [
        column.name if column.codes.ndim == 1 else f"{column.names[0]} to {column.names[-1]}"
        for column in columns
    ]
    header = [provenance(command), *words, f"{count} cases: {', '.join(named)}; codes in hexadecimal"]
    said = {
        "schema": "lowprec.vectors/1",
        "lowprec": __version__,
        "command": command,
        **facts,
        "columns": [
            {"name": column.name, "bits": column.bits, "lanes": column.lanes, "result": column.result}
            for column in columns
        ],
        "cases": count,
    }
    return VectorFile(columns, header, said)


# -- dot products -----------------------------------------------------------------------------------


def dot_suite(
    how: Accumulation,
    formats: tuple[Format, Format] | None = None,
    *,
    length: int | None = None,
    samples: int = 1024,
    seed: int = 0,
    flags: bool = False,
    added: bool = True,
    command: str = "",
) -> UnitSuite:
    """Return vectors of a dot unit: x, y and the addend, scales where it takes them, and the result.

    >>> from lowprec.spec.accumulations import ACCUMULATIONS
    >>> made = dot_suite(ACCUMULATIONS["volta_mma_binary16_binary32"])
    >>> [(column.name, column.lanes, column.bits) for column in made.file.columns]
    [('x', 4, 16), ('y', 4, 16), ('addend', 1, 32), ('result', 1, 32)]

    Parameters
    ----------
    how : Accumulation
    formats : (Format, Format), optional
        Of the operands, where the accumulation takes any.
    length : int, optional
        K, by default what the accumulation sums in one step, or a chunk.
    samples, seed : int
        Aimed cases; special codes in every lane, and as many random codes as one recipe has, come on top.
    flags : bool
        Whether the flags that each case raises are a column, of sums made of IEEE 754 operations.
    added : bool
        Whether the unit takes an addend.
    command : str
        For the header.

    Raises
    ------
    ValueError
        Formats or a length that the accumulation does not take; stochastic sums of operands in blocks; flags
        of sums that no standard says any of; flags, stochastic sums and a plan without an addend.

    Notes
    -----
    Where sums are rounded stochastically, the random integers of all roundings of a case are a column, in
    their order: of five cases one has zeros, one all ones, and the others any. The verification plan is then
    that of the sums rounded to nearest, whose operands these are.
    """
    shape = shape_of(how, formats, length)
    if flags:
        check_flags(how)
    if not added and (flags or how.rounds_randomly):
        what = "flags" if flags else "random integers"
        raise ValueError(f"{what} of dot products are of units with an addend; leave --addend none out")
    if how.rounds_randomly:
        return _drawn_suite(shape, samples, seed, command)
    cases = dots(shape, samples, seed)
    results = answers(shape, cases, added=added)
    columns = _columns(shape, cases.x, cases.y, cases.scales, cases.addend, results)
    words = [_words("dot", shape, f"K = {shape.lanes}", added)]
    if not added:
        columns = tuple(column for column in columns if column.name != "addend")
        return UnitSuite(unit_file(columns, words, command, _facts("dot", shape, added)), _no_plan)
    if flags:
        all_formats = *shape.formats, shape.addend
        x, y, addend = (
            codes.astype(code_dtype(fmt))
            for codes, fmt in zip((cases.x, cases.y, cases.addend), all_formats, strict=True)
        )
        codes, raised = sums_with_flags(x, y, addend, all_formats, how)
        assert (codes == results).all(), "the steps are those of the accumulation"
        columns = (*columns, Column("flags", raised, 5, result=True))
        words.append("flags of all steps: 1 inexact, 2 underflow, 4 overflow, 8 division by zero, 10 invalid")
    file = unit_file(columns, words, command, _facts("dot", shape))
    return UnitSuite(file, lambda: plan_of_dots(shape, cases, results))


def _no_plan() -> Plan:
    raise ValueError("the verification plan is that of a unit with an addend; leave --addend none out")


def _drawn_suite(shape: Shape, samples: int, seed: int, command: str) -> UnitSuite:
    """Return vectors of a unit that rounds stochastically."""
    if shape.how.scale is not None:
        raise ValueError(
            f"{shape.how} rounds stochastically, and takes scales; vectors have one or the other"
        )
    nearest = replace(shape, how=_nearest(shape.how))
    cases, bits = dots(nearest, samples, seed), random_bits_of(shape.how)
    width = len(roundings(shape.how, shape.lanes))
    words = np.random.default_rng(seed).integers(0, 1 << bits, (len(cases.x), width), dtype=np.uint64)
    words[::5], words[1::5] = 0, (1 << bits) - 1
    x, y = (values_of(codes, fmt) for codes, fmt in zip((cases.x, cases.y), shape.formats, strict=True))
    results = drawn_codes(shape.how, x, y, values_of(cases.addend, shape.addend), words)
    columns = _columns(shape, cases.x, cases.y, None, cases.addend, results)
    columns = (*columns[:-1], Column("random", words, bits), columns[-1])
    file = unit_file(columns, [_words("dot", shape, f"K = {shape.lanes}")], command, _facts("dot", shape))
    return UnitSuite(file, lambda: plan_of_dots(nearest, cases, answers(nearest, cases)))


def _nearest(how: Accumulation) -> Accumulation:
    """Return the accumulation that rounds to nearest where this one rounds stochastically."""

    def to_nearest(place: Any) -> Any:
        if isinstance(place, Window):
            return replace(place, result=to_nearest(place.result))
        if place is None or not place[1].rounding.bits:
            return place
        return place[0], replace(place[1], rounding=NEAREST_EVEN)

    return replace(
        how,
        accumulator=to_nearest(how.accumulator),
        total=to_nearest(how.total),
        output=to_nearest(how.output),
    )


def _columns(
    shape: Shape, x: Array, y: Array, scales: tuple[Array, Array] | None, addend: Array, results: Array
) -> tuple[Column, ...]:
    made = [Column("x", x, shape.formats[0].width), Column("y", y, shape.formats[1].width)]
    if scales is not None and shape.how.scale is not None:
        width = shape.how.scale[0].width
        made[1:1] = [Column("xscale", scales[0], width)]
        made.append(Column("yscale", scales[1], width))
    made.append(Column("addend", addend, shape.addend.width))
    made.append(Column("result", results, shape.how.output[0].width, result=True))
    return tuple(made)


def _words(verb: str, shape: Shape, size: str, added: bool = True) -> str:
    x, y = (fmt.name for fmt in shape.formats)
    scales = (
        "" if shape.how.scale is None else f", a scale in {shape.how.scale[0].name} for {shape.how.scale[1]}"
    )
    name = shape.how.name or "an accumulation"
    to = f"{f'addend {shape.addend.name}' if added else 'no addend'}, to {shape.how.output[0].name}"
    return f"{verb} {x} {y}{scales}, {to}, {size}, by {name}"


def _facts(verb: str, shape: Shape, added: bool = True) -> dict[str, Any]:
    formats = [*shape.formats, *[shape.addend] * added, shape.how.output[0]]
    return {"operation": verb, "formats": [fmt.name for fmt in formats], "accumulation": shape.how.name}


# -- matrices ---------------------------------------------------------------------------------------


def matmul_suite(
    how: Accumulation,
    size: tuple[int, int, int],
    formats: tuple[Format, Format] | None = None,
    *,
    samples: int = 1024,
    seed: int = 0,
    command: str = "",
) -> UnitSuite:
    """Return vectors of a matrix unit: x of M rows, y of N columns, an addend and a result for each pair.

    Each output by turns is a dot product that `dot_suite` has; the others mix its operands. Lanes run along
    the rows of each matrix: x[0, 0], x[0, 1] and so on. Scales do too: of rows of x, and of columns of y.

    >>> from lowprec.spec.accumulations import ACCUMULATIONS
    >>> made = matmul_suite(ACCUMULATIONS["volta_mma_binary16_binary32"], (2, 3, 4), samples=64)
    >>> [(column.name, column.lanes) for column in made.file.columns]
    [('x', 8), ('y', 12), ('addend', 6), ('result', 6)]

    Parameters
    ----------
    how : Accumulation
    size : (int, int, int)
        M, N and K.
    formats, samples, seed, command
        As for `dot_suite`.
    """
    m, n, k = size
    if min(size) < 1 or m * n * k > 1 << 16:
        raise ValueError(
            f"matrices of {m} x {k} and {k} x {n} are too large for vectors, or empty; use smaller ones"
        )
    if how.rounds_randomly:
        raise ValueError(
            f"{how} rounds sums stochastically, and vectors of matrices are of deterministic accumulations: "
            f"use dot"
        )
    shape = shape_of(how, formats, k)
    chosen = dots(shape, samples, seed)
    rows, columns, addend = _drawn_matrices(chosen, m, n, seed)
    matrices = len(rows)
    pairs = np.broadcast_arrays(rows[:, :, None], columns[:, None, :])
    flat = DotCases(
        chosen.x[pairs[0]].reshape(-1, k), chosen.y[pairs[1]].reshape(-1, k), addend.reshape(-1),
        _scales_at(chosen, pairs, addend.size),
    )  # fmt: skip
    results = answers(shape, flat)
    held = _columns(
        shape, chosen.x[rows].reshape(matrices, -1), chosen.y[columns].swapaxes(1, 2).reshape(matrices, -1),
        _scales_at(chosen, (rows, columns), matrices),
        *(each.reshape(matrices, -1) for each in (addend, results)),
    )  # fmt: skip
    words = _words("matmul", shape, f"M = {m}, N = {n}, K = {k}")
    return UnitSuite(
        unit_file(held, [words], command, {**_facts("matmul", shape), "size": list(size)}),
        lambda: _plan_of_matrices(shape, flat, results.reshape(addend.shape), pairs[0] == pairs[1]),
    )


def _drawn_matrices(chosen: DotCases, m: int, n: int, seed: int) -> tuple[Array, Array, Array]:
    """Return whose x are the rows and whose y are the columns of each pair of matrices, and the addends.

    Of each pair min(m, n) outputs are aimed dot products, one a row and a column, at other places by turns.
    """
    count, wide = len(chosen.x), min(m, n)
    matrices = -(-count // wide)
    random = np.random.default_rng(seed + 1)
    rows, columns = random.integers(0, count, (matrices, m)), random.integers(0, count, (matrices, n))
    place = np.arange(matrices)[:, None]
    aimed = (place * wide + np.arange(wide)) % count
    rows[place, (place + np.arange(wide)) % m] = aimed
    columns[place, (place // m + np.arange(wide)) % n] = aimed
    first, second = rows[:, :, None], columns[:, None, :]
    # The addend is that of the aimed dot product where there is one, else of either side.
    return (
        rows,
        columns,
        chosen.addend[np.where((place % 2 == 0)[:, :, None] | (first == second), first, second)],
    )


def _scales_at(chosen: DotCases, places: Sequence[Array], count: int) -> tuple[Array, Array] | None:
    """Return the scales of the cases at places in x and in y, in `count` rows."""
    if chosen.scales is None:
        return None
    of_x, of_y = (scales[at].reshape(count, -1) for scales, at in zip(chosen.scales, places, strict=True))
    return of_x, of_y


def _plan_of_matrices(shape: Shape, flat: DotCases, results: Array, same: Array) -> Plan:
    """Return the points that matrices hit: those of their dot products, and which operands each output has.

    `results` and `same`, whether an output is an aimed dot product, are in the shape of the matrices.
    """
    matrices, m, n = results.shape
    made = plan_of_dots(shape, flat, results.reshape(-1)).grouped(matrices)
    for i, j in np.ndindex(m, n):
        made.add("outputs", f"an aimed dot product at {i}, {j}", same[:, i, j])
    shifted = np.roll(flat.addend.reshape(matrices, -1), 1, axis=1).reshape(-1)
    for name, other in (
        ("the rows of x one further", _rolled(flat, results.shape, 1)),
        ("the columns of y one further", _rolled(flat, results.shape, 2)),
        ("the addend of another output", replace(flat, addend=shifted)),
    ):
        told = answers(shape, other).reshape(results.shape) != results
        made.add("tells", name, told.any((1, 2)))
    return made


def _rolled(flat: DotCases, grid: tuple[int, ...], axis: int) -> DotCases:
    """Return the cases with the rows of x, or the columns of y, one further."""
    side = flat.x if axis == 1 else flat.y
    moved = np.roll(side.reshape(*grid, -1), 1, axis=axis).reshape(side.shape)
    return replace(flat, x=moved) if axis == 1 else replace(flat, y=moved)


# -- comparisons ------------------------------------------------------------------------------------


def comparison_suite(
    fmt: Format, *, samples: int = 1024, seed: int = 0, flags: bool = False, command: str = ""
) -> UnitSuite:
    """Return vectors of a comparator: two codes, and whether they are less, equal, greater or unordered.

    All pairs of up to 8 bits each; of wider formats special codes, neighbours, and `samples` random pairs.

    >>> from lowprec.spec.catalog import E2M1FN
    >>> made = comparison_suite(E2M1FN, flags=True)
    >>> [column.name for column in made.file.columns]
    ['x', 'y', 'less', 'equal', 'greater', 'unordered', 'quietflags', 'flags']

    Parameters
    ----------
    fmt : Format
    samples, seed : int
    flags : bool
        Whether to add the flags of `equal`, raised by signaling NaNs, and of `less`, raised by all NaNs.
    command : str

    Raises ValueError: a type that values come in, such as binary64.
    """
    if isinstance(fmt, Carrier):
        raise ValueError(
            f"{fmt.name!r} is a type that values come in; codes are compared of formats up to 32 bits"
        )
    kept = np.dtype(f"u{fmt.code_bits // 8}")
    if fmt.width <= 8:
        x, y = combinations([np.arange(1 << fmt.width, dtype=kept)] * 2)
    else:
        random = np.random.default_rng(seed)
        x, y = combinations([special_codes(fmt).astype(kept)] * 2)
        drawn = random.integers(0, 1 << fmt.width, samples, dtype=np.uint64)
        beside = (drawn.view(np.int64) + random.integers(-1, 2, samples)) % (1 << fmt.width)
        other = _negated(beside, fmt)
        flipped = np.where((random.random(samples) < 0.2) & (other >= 0), other, beside)
        x = np.concatenate([x, drawn.astype(kept)])
        y = np.concatenate([y, flipped.astype(kept)])
    raised = {name: np.zeros(x.size, np.uint8) for name in RELATIONS}
    found = {
        name: np.asarray(getattr(comparisons, name)(x, y, fmt, flags=raised[name])) for name in RELATIONS
    }
    columns = [Column("x", x, fmt.width), Column("y", y, fmt.width)]
    columns += [Column(name, found[name].astype(np.uint8), 1, result=True) for name in RELATIONS]
    if flags:
        columns.append(Column("quietflags", raised["equal"], 5, result=True))
        columns.append(Column("flags", raised["less"], 5, result=True))
    words = [f"compare {fmt.name}, IEEE 754 relations"]
    if flags:
        words.append("quietflags: of equal and unordered; flags: of less and greater; 10 invalid")

    def plan() -> Plan:
        made = Plan(x.size)
        for name in RELATIONS:
            made.add("result", name, found[name])
        classes = [np.asarray(order.classify(codes, fmt)) for codes in (x, y)]
        for left in np.unique(classes[0]):
            for right in np.unique(classes[1]):
                words = " against ".join(_class(number) for number in (left, right))
                made.add("classes", words, (classes[0] == left) & (classes[1] == right))
        made.add(
            "neighbours", "codes that differ by one", np.abs(x.astype(np.int64) - y.astype(np.int64)) == 1
        )
        made.add("neighbours", "codes that differ in the sign alone", (_negated(x, fmt) == y) & (x != y))
        return made

    return UnitSuite(
        unit_file(tuple(columns), words, command, {"operation": "compare", "formats": [fmt.name]}), plan
    )


def _negated(codes: Array, fmt: Format) -> Array:
    """Return the codes of the other sign; of a codebook -1 where there is none."""
    if isinstance(fmt, Codebook):
        return codebooks.negated(fmt)[codes]
    return codes ^ fmt.sign_code


def _class(number: Any) -> str:
    from lowprec.spec.arith import Class

    return Class(int(number)).name.lower().replace("_", " ")
