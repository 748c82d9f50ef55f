"""Frames of pandas: every verb gives of each column what it gives of the column alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import lowprec as lp
from lowprec.spec import catalog
from tests.fuzz import subjects
from tests.fuzz.drawing import Draw
from tests.fuzz.operands import codes, values
from tests.fuzz.runner import Answer, Call, Topic, Way

#: Verbs of codes, and of values; each with how many operands it takes.
OF_CODES = {"decode": 1, "classify": 1, "less": 2, "equal": 2, "unordered": 2, "total_order": 2}
OF_VALUES = {
    "encode": 1, "quantize": 1, "ulp": 1, "sqrt": 1, "add": 2, "multiply": 2, "fma": 3, "nextafter": 2,
}  # fmt: skip
VERBS = OF_CODES | OF_VALUES

TARGETS = ("binary32", "bfloat16", "e4m3fn", "e5m2")
KINDS = tuple(map(np.dtype, ("f4", "f4", "f8", "f2", "i8", "u8", "i4", "i2", "?")))


def columns(call: Call) -> Answer:
    """What the verb makes of columns by themselves; a missing value is a NaN."""
    keywords = call.keywords
    verb = getattr(lp, keywords["verb"])
    count = len(call.operands) // keywords["sides"]
    made = []
    try:
        for number in range(count):
            own, absent = [x.copy() for x in call.operands[number::count]], keywords["absent"][number]
            for x in own:
                x[list(absent)] = 0  # what is missing is not refused
            column = verb(*own, *keywords["given"]).copy()
            if absent:
                nans = [np.full(1, np.nan, np.float32)] * keywords["sides"]
                column[list(absent)] = verb(*nans, *keywords["given"])[0]
            made.append(column)
    except ValueError:
        return Answer({"result": np.zeros(1, np.uint64)}, None, True)
    return Answer({"result": subjects.numbers(*made)})


def _column(draw: Draw, kind: np.dtype[Any], fmt: Any, rows: int) -> Any:
    if kind.kind in "iu" and draw.chance(0.7):  # between numbers of binary32 and of binary64
        size = draw.randint(0, 8 * kind.itemsize - 2)
        found = [draw.getrandbits(size) + draw.choice((0, 1, 1 << size >> 25)) for _ in range(rows)]
        most = np.iinfo(kind).max
        return np.array([min(number, most) for number in found], kind)
    return np.resize(values(draw, kind, [fmt], 16), rows)


def cases(draw: Draw) -> Iterator[tuple[Call, Sequence[Way]]]:
    """One verb of one to three frames of a few columns."""
    verb = draw.alike.choice(tuple(VERBS))
    sides, rows, width = VERBS[verb], draw.choice((1, 2, 7, 0)), draw.choice((1, 2, 2, 3))
    name = draw.alike.choice(TARGETS if verb not in ("nextafter", *OF_CODES) else TARGETS[2:4])
    fmt = catalog.format(name)
    absent: list[tuple[int, ...]] = [()] * width
    if verb in OF_CODES:
        operands = [np.resize(codes(draw, fmt, 16), rows) for _ in range(sides * width)]
    else:
        kinds = [draw.one_of_few("kind", KINDS) for _ in range(width)]
        operands = [_column(draw, kind, fmt, rows) for _ in range(sides) for kind in kinds]
        for number, kind in enumerate(kinds):
            if kind in (np.int64, np.uint64, np.int32, np.float32) and draw.chance(0.2):
                absent[number] = tuple(row for row in range(rows) if draw.chance(0.4))
                if kind == np.float32:  # pandas has one kind of missing values there
                    operands[number::width] = [np.nan_to_num(x) for x in operands[number::width]]
    keywords = {"verb": verb, "given": (fmt,), "absent": tuple(absent), "sides": sides}
    yield Call("subjects.framed", tuple(operands), (), keywords), [Way()]


TOPIC = Topic(cases, {"subjects.framed": columns}, alike=24)
