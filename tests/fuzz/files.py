"""Files: arrays and blocks come back as they were saved, damaged files are refused, weights stay near."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import lowprec as lp
from lowprec.checkpoints.container import CheckpointError
from lowprec.checkpoints.targets import FAMILIES
from tests.fuzz import subjects
from tests.fuzz.drawing import Draw, accepted
from tests.fuzz.operands import FLOATS, INTEGERS, SMALL, codes
from tests.fuzz.runner import LAYOUTS, Answer, Call, Topic, Way
from tests.fuzz.specifications import any_block_format

#: Types that safetensors has.
TYPES = (*FLOATS, *INTEGERS, np.dtype(bool), np.dtype(np.complex64))
TYPES += tuple(kind for kind in SMALL if kind.name in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"))

#: Schemes that are written to safetensors files.
TARGETS = tuple(
    (family, to)
    for family in FAMILIES
    if family not in ("gguf", "onnx", "transformer-engine", "gpt-oss", "torchao", "plain")
    for to in FAMILIES[family]
)

# -- what comes back --------------------------------------------------------------------------------


def saved(call: Call) -> Answer:
    """The arrays themselves, in the byte order of this machine."""
    return Answer({"result": subjects.held(*call.operands)})


def near(call: Call) -> Answer:
    """Every value is near."""
    return Answer({"result": np.ones(sum(x.size for x in call.operands), np.uint8)})


def loaded(call: Call) -> Answer:
    """A zero, or a refusal."""
    return Answer({"result": np.zeros(1, np.uint64)}, raises=(CheckpointError,), may_refuse="")


# -- cases ------------------------------------------------------------------------------------------


def _array(draw: Draw) -> Any:
    kind = draw.choice(TYPES)
    shape = tuple(draw.choice((0, 1, 2, 3, 5)) for _ in range(draw.choice((0, 1, 1, 2, 3))))
    size = int(np.prod(shape)) * kind.itemsize
    words = np.array([draw.getrandbits(8) for _ in range(size)], np.uint8)
    x = (words & 1 if kind == np.bool_ else words).view(kind).reshape(shape)
    return x.astype(kind.newbyteorder(">")) if kind.kind in "iu" and draw.chance(0.2) else x


def _blocks(draw: Draw) -> lp.BlockArray:
    fmt = any_block_format(draw)
    shape = tuple(draw.choice((0, 1, 2, 5, 33)) for _ in range(draw.choice((2, 2, 3))))
    axes = tuple(draw.sample(range(len(shape)), len(fmt.sizes)))
    sizes = dict(zip(axes, fmt.sizes, strict=True))
    grid = tuple(-(-length // sizes.get(axis, 1)) for axis, length in enumerate(shape))
    parts = []
    for each, wanted in ((fmt.element, shape), (fmt.scale, grid)):
        part = np.resize(codes(draw, each, 24), wanted)
        parts.append(part.astype(part.dtype.newbyteorder(">")) if draw.chance(0.3) else part)
    tensor = None if fmt.tensor_scale == "none" else np.float32(draw.choice((1.0, 0.3, 2.0**-149)))
    return lp.BlockArray(*parts, fmt, axes, tensor)


def _saving(draw: Draw) -> tuple[Call, list[Way]]:
    count = draw.choice((1, 1, 2, 4))
    letters = ("w", "b", ".", "/", " ", "é", "\n", '"', "\\", "0", "層", "__metadata__")
    names = {"".join(draw.choice(letters) for _ in range(draw.randint(1, 6))) for _ in range(count)}
    names = sorted(name for name in names if name != "__metadata__") or ["w"]
    arrays = tuple(accepted(lambda: _blocks(draw)) if draw.chance(0.4) else _array(draw) for _ in names)
    layouts = [each for each in LAYOUTS if "newbyteorder" not in each]
    ways = [Way(), Way(layout=draw.choice(layouts))]
    many = all(isinstance(x, lp.BlockArray) or x.ndim for x in arrays)
    return Call("subjects.saved", arrays, (), {"names": tuple(names)}), ways[: 1 + many]


def _damaging(draw: Draw) -> Call:
    content = subjects.file_bytes(accepted(lambda: _blocks(draw)), _array(draw)).copy()
    header = 8 + int.from_bytes(content[:8].tobytes(), "little")
    for _ in range(draw.choice((1, 1, 2, 5))):
        place = draw.randrange(header if draw.chance(0.8) else content.size)
        how = draw.choice(("flip", "set", "cut", "digit"))
        if how == "flip":
            content[place] ^= 1 << draw.randrange(8)
        elif how == "set":
            content[place] = draw.choice((0, 9, 32, 34, 44, 91, 93, 123, 125, 255))
        elif how == "digit":
            digits = np.flatnonzero((content[8:header] >= 48) & (content[8:header] <= 57)).tolist()
            content[8 + draw.choice(digits) if digits else place] = draw.randint(48, 57)
        elif draw.chance(0.3):
            content = content[: max(place, 1)]
            header = min(header, content.size)
    return Call("subjects.loaded", (content,))


def _quantizing(draw: Draw) -> Call:
    family, to = draw.alike.choice(TARGETS)
    weights = []
    for rows in ((128,), (128, 128), (128, 0))[draw.randrange(3)]:
        shape = rows, draw.choice((128, 256))
        x = np.random.default_rng(draw.getrandbits(32)).standard_normal(shape)
        size = draw.choice((1.0, 1.0, 2.0**-10, 1e30, 3e37, 1e-30, 1e-37, 1e-40, 0.0))
        x = (x * size).astype(np.float32)
        x[: draw.choice((0, 1, 64))] = 0
        weights.append(x)
    return Call("subjects.near", tuple(weights), (), {"family": family, "to": to})


def cases(draw: Draw) -> Iterator[tuple[Call, Sequence[Way]]]:
    """Arrays that are saved, and a damaged file; sometimes a checkpoint."""
    yield _saving(draw)
    yield _damaging(draw), [Way()]
    if draw.chance(0.2):
        yield _quantizing(draw), [Way()]


def smaller(call: Call) -> Iterator[Call]:
    """The same with one array less."""
    names = call.keywords.get("names", ())
    for place in range(len(call.operands) if len(names) > 1 else 0):
        operands = call.operands[:place] + call.operands[place + 1 :]
        yield Call(call.verb, operands, (), {"names": names[:place] + names[place + 1 :]})


SUBJECTS = {"subjects.saved": saved, "subjects.near": near, "subjects.loaded": loaded}
TOPIC = Topic(cases, SUBJECTS, smaller=smaller, alike=48)
