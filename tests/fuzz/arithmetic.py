"""Every operation: on operands of any types and shapes, into any format by any projection."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.oracle.arith import operate
from lowprec.oracle.convert import check
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.format import Format
from tests.fuzz.conversions import (
    FLOATS,
    asked_for,
    carried,
    integers_of,
    kept_type,
    laid,
    projected,
    resized,
    rule_of,
    unserved,
    ways,
)
from tests.fuzz.drawing import Draw
from tests.fuzz.operands import INTEGERS, NUMBERS, any_dtype, bits_of, values
from tests.fuzz.runner import Answer, Call, Topic, Way
from tests.fuzz.specifications import any_format
from tests.operations import chosen

Array = npt.NDArray[Any]

# -- the oracle -------------------------------------------------------------------------------------


def operation(call: Call) -> Answer:
    """What an operation gives of values: codes, or values of a type."""
    name, target = call.verb.removeprefix("lp."), lp.format(call.given[0])
    keywords = dict(call.keywords)
    rule = rule_of(keywords, target)
    arrays = [np.asarray(x) for x in call.operands]
    formats = [known for x in arrays if (known := catalog.carrier(x.dtype)) is not None]
    columns = np.broadcast_arrays(*(bits_of(x) for x in arrays))
    shape = columns[0].shape
    kind, carrier = result_type(keywords.get("dtype"), target)
    try:
        check(target, rule, 0 if rule.rounding.bits else None)
    except ValueError:
        return Answer({"result": np.zeros(shape, f"u{kind.itemsize}")}, kind, True)
    made, signals, refused = [], [], []
    integers = integers_of(keywords, rule.rounding, target, shape)
    for row, integer in zip(
        zip(*(c.reshape(-1).tolist() for c in columns), strict=True), integers, strict=True
    ):
        try:
            code, raised = operate(name, row, formats, target, rule, random=integer)
        except ValueError:
            code, raised = 0, 0  # type: ignore[assignment]
            refused.append(True)
        else:
            refused.append(False)
        made.append(code)
        signals.append(int(raised))
    result = (
        np.array(made, f"u{target.code_bits // 8}")
        if carrier is None
        else carried(made, target, kind, carrier, rule)
    )
    parts = {"result": result.reshape(shape), "flags": np.array(signals, np.uint8).reshape(shape)}
    return Answer(parts, kind, np.array(refused, bool).reshape(shape), may_refuse=unserved(target, rule))


def result_type(asked: Any, target: Format) -> tuple[np.dtype[Any], Format | None]:
    """The type of results, and its format; None where they are codes."""
    if asked is not None and np.dtype(asked).kind == "u":
        return np.dtype(asked), None
    kind, carrier = kept_type(None if asked is None else np.dtype(asked), target)
    return kind, None if carrier == target else carrier


# -- cases ------------------------------------------------------------------------------------------


def any_operands(draw: Draw, name: str, formats: Sequence[Format], count: int) -> list[Array]:
    """Columns: near what matters for the target, of one number, alike but for little, or of any numbers."""
    if draw.alike.random() < 0.3:
        fmt = draw.alike.choice(
            (catalog.BINARY16, catalog.BFLOAT16, catalog.BINARY32, catalog.E5M2, catalog.E4M3FN)
        )
        kind = lp.dtype(fmt)
        columns = [
            c.astype(f"u{kind.itemsize}").view(kind) for c in chosen(name, fmt, count, draw.getrandbits(32))
        ]
    else:
        kinds = [any_dtype(draw, NUMBERS) for _ in range(OPERANDS[name])]
        if draw.alike.random() < 0.5:
            kinds = kinds[:1] * len(kinds)
        columns = [values(draw, kinds[0], formats, count)]
        for kind in kinds[1:]:
            some = values(draw, kind, formats, count)
            how = draw.choice(("any", "any", "one", "alike", "power"))
            if how == "one":
                some = np.repeat(some[:1], count)
            elif how == "alike" and kind == columns[0].dtype:
                size = kind.itemsize
                first = columns[0]
                noise = np.array([draw.choice((0, 0, 1, 2, 3)) for _ in first], f"u{size}")
                turn = np.array([draw.choice((0, 1)) for _ in first], f"u{size}") << np.uint8(8 * size - 1)
                known = catalog.carrier(kind)
                if known is not None and known.width == 8 * size:
                    some = (bits_of(first) ^ noise ^ turn).view(kind)
            elif how == "power" and kind.kind == "f":
                some = np.ldexp(np.ones(count), [draw.randint(-14, 15) for _ in range(count)]).astype(kind)
            columns.append(some)
    count = min(x.size for x in columns)
    columns = [x[:count] for x in columns]
    if name == "scaleb":
        kind = draw.alike.choice([kind for kind in INTEGERS if kind.itemsize < 8] + [np.dtype(np.int64)])
        limits = np.iinfo(kind)
        powers = [
            draw.choice((0, 1, draw.randint(-30, 30), draw.randint(-2200, 2200), limits.max))
            for _ in range(count)
        ]
        columns[1] = np.array([min(max(p, limits.min), limits.max) for p in powers], kind)
    return columns


def _spread(draw: Draw, columns: list[Array]) -> list[Array]:
    """The columns in shapes that broadcast."""
    count = columns[0].size
    how = draw.choice(("same", "same", "same", "matrix", "outer", "one", "none"))
    if how == "matrix":
        return [x[: count // 3 * 3].reshape(3, -1) for x in columns]
    if how == "outer" and len(columns) > 1:
        return [columns[0][:12].reshape(-1, 1), *(x[:15] for x in columns[1:])]
    if how == "one" and len(columns) > 1:
        place = draw.randrange(len(columns))
        return [x[:1].reshape(draw.choice([(), (1,)])) if n == place else x for n, x in enumerate(columns)]
    return [x[:0] for x in columns] if how == "none" and draw.chance(0.3) else columns


def cases(draw: Draw) -> Iterator[tuple[Call, Sequence[Way]]]:
    """Calls of one operation."""
    name = draw.alike.choice(tuple(OPERANDS))
    fmt = any_format(draw, books=0.15) if draw.chance(0.8) else catalog.BINARY32
    keywords = projected(draw, fmt, (0,))
    operands = _spread(
        draw, any_operands(draw, name, [fmt, *rule_of(keywords, fmt).via], draw.choice((30, 90, 150)))
    )
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    if "random" in keywords or "rng" in keywords:
        keywords = resized(draw, keywords, fmt, shape)
    if draw.alike.random() < 0.7:
        holds = [known for known, carrier in FLOATS if carrier.contains(fmt)]
        codes = np.dtype(f"u{fmt.code_bits // 8}")
        keywords["dtype"] = codes if draw.alike.random() < 0.6 else draw.alike.choice(holds)
    counted = "rng" in keywords or ("random" in keywords and keywords["random"].shape != shape)
    call = Call(f"lp.{name}", tuple(operands), (asked_for(draw, fmt),), keywords, counted)
    yield call, laid(call, ways(draw))


def others(call: Call) -> Iterator[Call]:
    """The same by another policy."""
    if isinstance(rule := call.keywords.get("projection"), lp.Projection):
        policy = "finite" if str(rule.saturation) != "finite" else "none"
        other = dataclasses.replace(
            call, keywords={**call.keywords, "projection": dataclasses.replace(rule, saturation=policy)}
        )
        if not np.any(operation(other).refused):
            yield other


TOPIC = Topic(cases, {f"lp.{name}": operation for name in OPERANDS}, others)
