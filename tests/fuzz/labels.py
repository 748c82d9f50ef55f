"""Arrays with names, and in chunks: verbs go by the names of dimensions, and chunks change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.spec import catalog
from tests.fuzz.drawing import Draw
from tests.fuzz.operands import bits_of, codes, values
from tests.fuzz.runner import Answer, Call, Topic, Way

Array = npt.NDArray[Any]

OF_CODES = {"decode": 1, "classify": 1, "less": 2, "not_equal": 2, "unordered": 2, "total_order": 2}
OF_VALUES = {"encode": 1, "quantize": 1, "ulp": 1, "add": 2, "multiply": 2, "fma": 3, "nextafter": 2}
PRODUCTS = {"dot": 2, "matmul": 2}
VERBS = OF_CODES | OF_VALUES | PRODUCTS

FORMATS = ("e4m3fn", "bfloat16")
HOW = "bf16_sequential"


def aligned(call: Call) -> Answer:
    """What the verb makes of plain arrays, all with the dimensions of the result in the order of names."""
    keywords, plain = call.keywords, list(call.operands)
    verb, names, dims = keywords["verb"], keywords["names"], keywords["dims"]
    if keywords["named"] and verb not in PRODUCTS:
        order = sorted({name for own in dims for name in own})
        plain = [_spread(x, own, order) for x, own in zip(plain, dims, strict=True)]
    elif keywords["named"] and names:
        plain[-1] = _spread(
            plain[-1], dims[-1], [name for name in dict.fromkeys(dims[0] + dims[1]) if name != "k"]
        )
    count = len(plain) - len(names)
    others = dict(zip(names, plain[count:], strict=True))
    others |= {name: value for name, value in keywords.items() if name == "rounding"}
    made = getattr(lp, verb)(*plain[:count], *keywords["given"], **others)
    refusal = "" if names else None  # arrays among the keywords may be refused, but not be taken by place
    return Answer({"result": bits_of(np.asarray(made))}, None, False, (ValueError, TypeError), refusal)


def _spread(x: Array, own: tuple[str, ...], order: list[str]) -> Array:
    """An array with its dimensions in this order, those that it has not of length 1."""
    x = np.transpose(x, [own.index(name) for name in order if name in own])
    return x.reshape(
        [x.shape[[n for n in order if n in own].index(name)] if name in own else 1 for name in order]
    )


# -- cases ------------------------------------------------------------------------------------------


def _parts(draw: Draw, length: int) -> tuple[int, ...]:
    """Lengths of chunks, some of them 0."""
    found = []
    while sum(found) < length or not found:
        found.append(draw.randint(0 if draw.chance(0.3) else min(1, length), length - sum(found)))
    return tuple(found)


def _array(draw: Draw, fmt: Any, shape: tuple[int, ...], of_codes: bool) -> Array:
    kind = np.dtype(draw.alike.choice((np.float32, np.float64)))
    x = codes(draw, fmt, 24) if of_codes else values(draw, kind, [fmt], 24)
    return np.resize(x, shape)


def cases(draw: Draw) -> Iterator[tuple[Call, Sequence[Way]]]:
    """One verb of arrays whose dimensions come in any order, each in memory or in chunks."""
    verb, named = draw.alike.choice(tuple(VERBS)), draw.chance(0.7)
    same = draw.chance(0.5)  # so that what is taken by place has the right shape
    length = {name: 3 if same else draw.choice((0, 1, 2, 3, 5)) for name in "abkmn"}
    fmt = catalog.format(draw.alike.choice(FORMATS if verb != "nextafter" else FORMATS[:1]))
    names: tuple[str, ...] = ()
    given: tuple[Any, ...] = (fmt,)
    if verb in PRODUCTS:
        dims = [("m", "k"), ("k", "n")] if verb == "matmul" else [("m", "n", "k")] * 2
        given = (HOW,)
        if draw.chance(0.6):
            names = ("addend",)
            dims.append(tuple(draw.sample("mn", 2)) if named else ("m", "n"))
    else:
        most = tuple(draw.sample("abk", draw.choice((1, 2, 2, 3))))
        dims = [most]
        for _ in range(VERBS[verb] - 1):
            some = draw.sample(most, len(most)) if named else most
            dims.append(tuple(some[: len(some) if draw.chance(0.7) else 1]) if named else tuple(some))
        if verb == "encode" and draw.chance(0.5):
            names = ("random",)
            dims.append(tuple(draw.sample(most, len(most))) if named else most)
    arrays = [_array(draw, fmt, tuple(length[name] for name in own), verb in OF_CODES) for own in dims]
    keywords: dict[str, Any] = {}
    if names == ("random",):
        arrays[-1] = np.resize(
            np.array([draw.getrandbits(8) for _ in range(60)], np.uint32), arrays[-1].shape
        )
        keywords["rounding"] = "stochastic(8)"
    if names == ("addend",):
        with np.errstate(all="ignore"):
            arrays[-1] = arrays[-1].astype(np.float32)
    lazy = [draw.chance(0.5) for _ in arrays]
    lazy[0] |= not named
    chunks = tuple(
        tuple(_parts(draw, n) for n in x.shape) if cut else None for x, cut in zip(arrays, lazy, strict=True)
    )
    keywords |= {"verb": verb, "dims": tuple(dims), "chunks": chunks, "given": given, "names": names}
    yield Call("subjects.labelled", tuple(arrays), (), {**keywords, "named": named}), [Way()]


TOPIC = Topic(cases, {"subjects.labelled": aligned}, alike=24)
