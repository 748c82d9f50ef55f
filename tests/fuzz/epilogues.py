"""Epilogues, split-K and kept sums of dot and matmul, against a reading in fractions.

What is done with sums is computed by operations that every engine shares, so another backend is no check.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Rounded
from lowprec.spec.epilogue import Epilogue, ScaleOrder
from lowprec.spec.order import Deal, Split, order
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import MODES
from tests.fraction_sums import code_of, dot, library_dot, value_of
from tests.fuzz.drawing import Draw, accepted
from tests.fuzz.runner import Answer, Call, Topic, Way

Array = npt.NDArray[Any]

#: Formats with subnormals, infinities and NaN, as IEEE 754 has them.
PLACES = (catalog.BINARY32, catalog.BINARY32, catalog.BFLOAT16, catalog.BINARY16, catalog.TF32, catalog.E5M2)

# -- the oracle -------------------------------------------------------------------------------------


def _at(values: Any, shape: tuple[int, ...], place: tuple[int, ...]) -> Any:
    """Return what joins one result."""
    return None if values is None else value_of(float(np.broadcast_to(values, shape)[place]))


def _scale(values: Any, number: int, paired: bool, place: tuple[int, ...], blocks: bool) -> Any:
    """Return the scale of one side for one result, or those of its blocks."""
    if values is None:
        return None
    row = place[0] if paired else place[number]
    rows = values.T if number and not paired and values.ndim else values
    if blocks and rows.ndim and rows.shape[1] > 1:
        return [value_of(float(each)) for each in rows[row % len(rows)]]
    return value_of(float(rows.reshape(-1)[row % rows.size]))


def products(call: Call) -> Answer:
    """Dot products of rows, or of rows and columns, with an epilogue."""
    x, y = call.operands
    how, keywords = call.given[0], dict(call.keywords)
    paired, epilogue = call.verb == "lp.dot", keywords.get("epilogue", Epilogue())
    columns = y if paired else y.T
    shape = (len(x),) if paired else (len(x), len(columns))
    scales, fmt = keywords.get("scales", (None, None)), (epilogue.output or how.output)[0]
    codes = np.zeros(shape, code_dtype(fmt))
    for place in np.ndindex(shape):
        rows = [
            [value_of(float(each)) for each in side[number]]
            for side, number in ((x, place[0]), (columns, place[-1]))
        ]
        joins = {name: _at(keywords.get(name), shape, place) for name in ("bias", "addend", "output_scale")}
        pair = tuple(
            _scale(values, number, paired, place, epilogue.block > 0) for number, values in enumerate(scales)
        )
        if "epilogue" in keywords:
            made = library_dot(*rows, how, epilogue, pair, **joins)  # type: ignore[arg-type]
        else:
            made = dot(*rows, how)
        codes[place] = code_of(made, fmt)
    return Answer({"result": codes}, codes.dtype)


# -- cases ------------------------------------------------------------------------------------------


def _numbers(draw: Draw, shape: tuple[int, ...]) -> Array:
    """Draw numbers of few bits and exponents, so that sums cancel and tie; some are zeros or huge."""
    bits, spread = draw.choice((1, 2, 4, 8, 11, 24)), draw.choice((0, 1, 3, 12, 30))
    middle = draw.choice((0, 0, 0, -8, 8, -70, 60))
    count = int(np.prod(shape))
    made = [
        draw.choice((-1, 1))
        * draw.randrange(1 << bits)
        * 2.0 ** (middle - bits + draw.randint(-spread, spread))
        for _ in range(count)
    ]
    return np.array(made, np.float32).reshape(shape)


def _place(draw: Draw, what: str, *, doubles: bool = False) -> Rounded:
    if doubles and draw.chance(0.2):
        return catalog.BINARY64, Projection()
    mode = draw.one_of_few(f"{what} mode", MODES)
    saturation = Saturation.FINITE if draw.chance(0.1) else Saturation.NONE
    return draw.one_of_few(what, PLACES), Projection(rounding=mode, saturation=saturation)


def _accumulation(draw: Draw) -> Accumulation:
    """Draw sums of any order, of exact and rounded products, with splits and without."""
    orders = (
        "exact",
        "sequential",
        "pairwise",
        f"chunked({draw.choice((1, 2, 3, 4))})",
        "chunked(2, pairwise)",
    )
    fields: dict[str, Any] = {"name": "drawn", "output": _place(draw, "output"), "order": draw.choice(orders)}
    if fields["order"] != "exact":
        fields["accumulator"] = _place(draw, "accumulator", doubles=True)
        if order(fields["order"]).name == "chunked" and draw.chance(0.5):
            fields["total"] = _place(draw, "total", doubles=True)
        if draw.chance(0.3):
            fields["product"] = _place(draw, "product")
    if draw.chance(0.4):
        fields["split"] = Split(
            draw.choice((2, 3, 5, 200)),
            draw.choice((1, 2, 4)),
            draw.choice(get_args(Deal)),
            draw.choice(("sequential", "pairwise", "halves", "slots(2)")),
            stored=_place(draw, "stored") if draw.chance(0.5) else None,
            total=_place(draw, "sum of splits") if draw.chance(0.5) else None,
        )
    return Accumulation(**fields)


def cases(draw: Draw) -> Iterator[tuple[Call, Sequence[Way]]]:
    """One product with an epilogue: rows with rows, or of matrices."""
    how = accepted(lambda: _accumulation(draw))
    length, verb = draw.choice((0, 1, 1, 2, 3, 5, 8, 17)), draw.choice(("dot", "matmul"))
    shape = (3,) if verb == "dot" else (3, 2)
    x = _numbers(draw, (3, length))
    y = _numbers(draw, (3, length) if verb == "dot" else (length, 2))
    fused = draw.chance(0.4)
    block = draw.choice((1, 2, 4)) if how.split is None and draw.chance(0.3) else 0
    block = block if block < length else 0
    saturating = catalog.E4M3FN, Projection(saturation=Saturation.FINITE)
    epilogue = Epilogue(
        output=draw.choice((None, _place(draw, "result"), saturating)),
        compute=_place(draw, "compute"),
        scales=draw.choice(get_args(ScaleOrder)),
        block=block,
        fused_bias=fused,
    )

    def scale(number: int) -> Array | None:
        if draw.chance(0.2):
            return None
        count = -(-length // block) if block else 1
        rows = draw.choice((1, 2 if number and verb == "matmul" else 3))
        made = _numbers(draw, (rows, count))
        if made.size == 1 and draw.chance(0.5):
            return made.reshape(())
        return made.T if number and verb == "matmul" else made

    if draw.chance(0.15):
        yield Call(f"lp.{verb}", (x, y), (how,), {"dtype": code_dtype(how.output[0])}, counted=True), [Way()]
        return
    keywords: dict[str, Any] = {"epilogue": epilogue}
    if draw.chance(0.8):
        keywords["scales"] = scale(0), scale(1)
    names = ["bias"] * draw.chance(0.5) + ["output_scale"] * draw.chance(0.3)
    for name in [*names, *["addend"] * (draw.chance(0.5) and not (fused and "bias" in names))]:
        keywords[name] = _numbers(draw, draw.choice((shape, shape[-1:], ())))
    keywords["dtype"] = code_dtype((epilogue.output or how.output)[0])
    if draw.chance(0.4):
        keywords["backend"] = draw.choice(("scalar", "oracle"))
    yield Call(f"lp.{verb}", (x, y), (how,), keywords, counted=True), [Way(), Way(out="new")]


# -- shrinking --------------------------------------------------------------------------------------


def smaller(call: Call) -> Iterator[Call]:
    """One result alone, and fewer products where no blocks lie along K."""
    (x, y), keywords = call.operands, call.keywords
    paired = call.verb == "lp.dot"
    shape = (len(x),) if paired else (len(x), y.shape[1])
    for place in np.ndindex(shape) if max(shape) > 1 else ():
        some = tuple(slice(i, i + 1) for i in place)
        made = dict(keywords)
        for name in ("bias", "addend", "output_scale"):
            if name in made:
                made[name] = np.broadcast_to(made[name], shape)[some].copy()
        if "scales" in made:
            parts = []
            for number, values in enumerate(made["scales"]):
                axis = 1 if number and not paired else 0
                several = values is not None and values.ndim and values.shape[axis] > 1
                row = place[number if not paired else 0]
                parts.append(np.take(values, [row], axis) if several else values)
            made["scales"] = tuple(parts)
        other = y[some] if paired else y[:, some[1]]
        yield dataclasses.replace(call, operands=(x[some[0]], other), keywords=made)
    if not keywords.get("epilogue", lp.Epilogue()).block:
        for k in range(x.shape[1]):
            yield dataclasses.replace(
                call, operands=(np.delete(x, k, 1), np.delete(y, k, 1 if paired else 0))
            )


TOPIC = Topic(cases, {"lp.dot": products, "lp.matmul": products}, smaller=smaller)
