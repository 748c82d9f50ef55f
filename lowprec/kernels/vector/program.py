"""Programs of the vector engine: what fits 32-bit words, in SIMD lanes.

Floor 2b. Imports the vector kernels; never the oracle, which checks them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels import engine
from lowprec.kernels.codes import as_floats, as_words
from lowprec.kernels.compiling import is_worth
from lowprec.kernels.engine import Tensor
from lowprec.kernels.jit import bound
from lowprec.kernels.lower.block import lower_block
from lowprec.kernels.lower.scalar import lower_source, lower_target
from lowprec.kernels.lower.vector import (
    DECODER_SHAPE,
    ENCODER_SHAPE,
    NOTHING,
    Encoder,
    anywhere,
    is_usual,
    lower_decoder,
    lower_encoder,
    past_caches,
    plan as conversion_plan,
    refuses,
    shapes,
    specialized,
)
from lowprec.kernels.lower.vector_block import BlockPlan, lower_blocks, lower_factors, lower_products
from lowprec.kernels.lower.words import DOUBLE, SINGLE
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.request import CONVERT, BlockDecoding, BlockEncoding, Dot, Elementwise, Request
from lowprec.kernels.table.program import is_narrow
from lowprec.kernels.vector import block, block_values
from lowprec.kernels.vector.convert import DONE, UNSUITED, kernel
from lowprec.kernels.vector.ir.lanes import LANES
from lowprec.kernels.vector.rounding import nearest_singles
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import DEFAULT
from lowprec.spec.rounding import NEAREST_EVEN

__all__ = [
    "SERVES",
    "BlockDecoder",
    "BlockEncoder",
    "Conversion",
    "Operation",
    "kernels",
    "lower",
]

Codes = npt.NDArray[Any]
Plan = npt.NDArray[np.uint32]
Layout = tuple[int, ...]
Kernel = Callable[..., int]

#: For messages.
SERVES = "formats that fit 32-bit words, and rules without payloads of NaN operands"


def lower(request: Request) -> Any:
    """Return the program of a request; None if its words are too wide or a rule needs another engine."""
    if any(isinstance(fmt, Codebook) for fmt in request.formats):
        return None
    if isinstance(request, Elementwise) and request.operation in FUNCTIONS:
        return None
    if isinstance(request, Elementwise):
        from lowprec.kernels.vector import narrowed_program

        return narrowed_program.lower(request, _elementwise(request))
    if isinstance(request, BlockEncoding):
        return _block_encoder(request)
    if isinstance(request, BlockDecoding):
        return _block_decoder(request)
    if isinstance(request, Dot):
        from lowprec.kernels.vector import dot_program

        return dot_program.lower(request)
    return None


#: Operations whose vector kernels are faster than a table.
_PLAIN = (CONVERT, "add", "subtract", "multiply", "divide", "sqrt", "fma")


def _elementwise(request: Elementwise) -> Any:
    from lowprec.kernels.vector import (
        choice_program,
        flagged_program,
        widened_program,
    )

    if request.backend is None and is_narrow(request) and (request.flags or request.operation not in _PLAIN):
        return None  # a table is as fast, and nothing needs to be compiled
    if request.projection.grid_of(request.target) != request.target:
        return None
    program = choice_program.lower(request)
    if program is not None:
        return program
    if request.flags:
        return flagged_program.lower(request)
    own = _conversion(request) if request.operation == CONVERT else _operation(request)
    return own or widened_program.lower(request)


def kernels(plan: Plan, drawn: bool) -> tuple[Kernel, Kernel]:
    """Return the kernels for few results and for `MANY`, which draw their random integers or read them."""
    every = kernel(((),) * 4, drawn)
    return every, kernel(shapes(plan), drawn) if specialized(plan) else every


_NO_RANDOM = np.empty(0, np.uint32)

#: Steps of operands that have an element for each result.
_ALL = (1, 1, 1)


def _conversion(request: Elementwise) -> Conversion | Nearest | None:
    (source,), target, rule, carrier = request.sources, request.target, request.projection, request.carrier
    wide = source == DOUBLE
    carrier = None if carrier == target else carrier
    if target.contains(source):  # nothing is rounded
        rule = dataclasses.replace(rule, rounding=NEAREST_EVEN)
    whole = (target == SINGLE or target == DOUBLE) and carrier is None
    if whole and wide and target == SINGLE and rule == DEFAULT:
        return Nearest()
    if whole and (rule != DEFAULT or wide):
        return None
    first = NOTHING if wide else lower_decoder(source, target == DOUBLE, quiet=whole)
    stages = [first, NOTHING if whole else lower_encoder(target, rule, wide), NOTHING, NOTHING]
    if carrier is not None:
        stages[2] = lower_decoder(target, carrier == DOUBLE)
        if not (carrier == SINGLE or carrier == DOUBLE):
            stages[3] = lower_encoder(carrier, DEFAULT)
    if any(stage is None for stage in stages):
        return None
    return Conversion(conversion_plan(*stages))  # type: ignore[arg-type]


class Conversion:
    """Codes to codes of a target, and on to a type that carries its values."""

    draws = in_place = widens = floats = True

    def __init__(self, plan: Plan) -> None:
        self.plan, self.refuses, self.kernels = plan, refuses(plan), kernels(plan, False)

    @functools.cached_property
    def _past(self) -> Plan:
        """The plan that writes results past the caches."""
        return past_caches(self.plan)

    @functools.cached_property
    def _drawing(self) -> tuple[Kernel, Kernel]:
        """The kernels that draw their random integers."""
        return kernels(self.plan, True)

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write results; see `engine.ElementwiseProgram`. Codes and results may be the same memory."""
        codes, out = as_floats(operands[0]), as_floats(out)
        plan, many = self._past if past else self.plan, is_worth(self.kernels[1], out.size)
        status = self.kernels[many](plan, random, codes, out)
        if status != UNSUITED:
            return status
        plan = anywhere(plan)
        return kernels(plan, False)[many](plan, random, codes, out)

    def bound(self, operands: list[Codes], out: Codes) -> Callable[..., int]:
        """Return what converts arrays of these types; see `engine.ElementwiseProgram`."""
        return bound(self.kernels[0], (self.plan, _NO_RANDOM), (as_floats(operands[0]), as_floats(out)))

    def draw(self, operands: list[Codes], out: Codes, key: int, first: int, past: bool = False) -> int:
        """Write results rounded by random integers from number `first` on."""
        by, plan = self._drawing[is_worth(self._drawing[1], out.size)], self._past if past else self.plan
        return by(plan, np.uint64(key), np.uint64(first), as_floats(operands[0]), as_floats(out))


class Nearest:
    """Binary64 numbers as the processor rounds them to binary32."""

    refuses = draws = in_place = floats = False
    widens = True
    bound = None

    @usual_arithmetic()
    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write the nearest numbers."""
        nearest_singles(operands[0].view(np.float64), out.view(f"f{out.itemsize}"))
        return DONE


def _operation(request: Elementwise) -> Operation | None:
    from lowprec.kernels.vector import arith

    operation, sources, target = request.operation, request.sources, request.target
    rule, carrier = request.projection, request.carrier
    if operation not in arith.OPERATIONS or any(source == DOUBLE for source in sources):
        return None
    if rule.nan_payload == "signaling_first":  # vectors know only the first NaN operand
        return None
    short = arith.is_short(operation, target, rule.rounding)
    native = target == SINGLE and rule == DEFAULT
    encoder = NOTHING if native else lower_encoder(target, rule, not short)
    result = NOTHING if carrier is None else lower_decoder(target, carrier == DOUBLE)
    plain = carrier is None or carrier == SINGLE or carrier == DOUBLE
    carry = NOTHING if plain or carrier is None else lower_encoder(carrier, DEFAULT)
    decoders = [decoder for source in sources if (decoder := lower_decoder(source)) is not None]
    if encoder is None or result is None or carry is None or len(decoders) < len(sources):
        return None
    stages = (*decoders, *decoders[:1] * (3 - len(decoders)), encoder, result, carry)
    every = arith.kernel(operation, ((),) * 6, short, native)
    sizes = (DECODER_SHAPE,) * 3 + (ENCODER_SHAPE, DECODER_SHAPE, ENCODER_SHAPE)
    own = tuple(tuple(int(word) for word in stage[:size]) for stage, size in zip(stages, sizes, strict=True))
    usual = (native or is_usual(encoder)) and own[0] == own[1] == own[2]
    return Operation(
        request,
        (every, arith.kernel(operation, own, short, native) if usual else every),
        arith.plan(stages, rule.rounding.downward),
        not native and bool(encoder[Encoder._fields.index("refuses")]),
    )


class Operation:
    """An operation of operands whose values are binary32 numbers."""

    draws = in_place = False
    floats = True

    def __init__(
        self, request: Elementwise, kernels: tuple[Kernel, Kernel], plan: Plan, refuses: bool
    ) -> None:
        self._request, self.kernels, self.plan, self.refuses = request, kernels, plan, refuses
        self.widens = (request.carrier or request.target) == SINGLE

    @functools.cached_property
    def _past(self) -> Plan:
        """The plan that writes results past the caches."""
        return past_caches(self.plan)

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write results; see `engine.ElementwiseProgram`. They must not lie in the operands' memory."""
        x, y, z = (*operands, *operands[:1] * (3 - len(operands)))
        steps, size = _ALL, out.size
        if x.size != size or y.size != size or z.size != size:
            steps = int(x.size == size), int(y.size == size), int(z.size == size)
            x, y, z = (codes if codes.size == size else np.repeat(codes, LANES) for codes in (x, y, z))
        x, y, z, made = map(as_floats, (x, y, z, out))
        plan = self._past if past else self.plan
        by = self.kernels[is_worth(self.kernels[1], size)]
        status: int = by(plan, random, steps, x, y, z, made)
        if status != DONE:  # unsuited to the thread's modes, or a NaN, maybe past the end
            operands, out = [as_words(codes) for codes in operands], as_words(out)
            status = self._scalar(out).run(operands, out, flags, random)
        return status

    def bound(self, operands: list[Codes], out: Codes) -> Callable[..., int]:
        """Return what operates on arrays of these types; see `engine.ElementwiseProgram`."""
        x, y, z = map(as_floats, (*operands, *operands[:1] * (3 - len(operands))))
        run = bound(self.kernels[0], (self.plan, _NO_RANDOM, _ALL), (x, y, z, as_floats(out)))
        if len(operands) == 1:
            return lambda x, out: run(x, x, x, out)
        return run if len(operands) == 3 else lambda x, y, out: run(x, y, x, out)

    def _scalar(self, out: Codes) -> Any:
        """Return the program of the scalar engine, which writes binary64 numbers where `out` has such."""
        carrier = DOUBLE if out.itemsize == 8 else self._request.carrier
        return engine.lower(dataclasses.replace(self._request, carrier=carrier, backend="scalar"))


def _block_encoder(request: BlockEncoding) -> BlockEncoder | None:
    if request.given:
        return None
    plan = lower_blocks(request.source, request.format, request.source == DOUBLE, request.tensor)
    return None if plan is None else BlockEncoder(request.format, plan)


class BlockEncoder:
    """Values in blocks; what it cannot be exact for it leaves, and marks."""

    partial = True

    def __init__(self, fmt: BlockFormat, plan: BlockPlan) -> None:
        self._general = lower_block(fmt), lower_target(fmt.scale, fmt.scales), lower_source(fmt.scale)
        self._lowered, self.kernels = plan, self._kernels_of(plan.plan, plan)

    @staticmethod
    def _kernels_of(plan: Plan, lowered: BlockPlan) -> tuple[Kernel, Kernel]:
        """Return the kernels for few elements and for `MANY`."""
        every = block.encoder((), (), lowered.scales)
        return every, block.encoder(*shapes(plan)[:2], lowered.scales) if lowered.usual else every

    def run(
        self, values: Codes, codes: Codes, scales: Codes, marks: Codes, layout: Layout, tensor: Tensor,
        random: Codes, past: bool,
    ) -> int:  # fmt: skip
        """Write codes and scales; return how many blocks are left, which are marked."""
        lowered, many = self._lowered, is_worth(self.kernels[1], values.size)
        plan = past_caches(lowered.plan) if past else lowered.plan
        rule, target, source = self._general
        others = lowered.setup, lowered.tables, (rule, tensor.words, target, source), random
        undone = self.kernels[many](values, codes, scales, marks, layout, plan, *others)
        if undone >= block.UNSUITED:
            marks[:], plan = 0, anywhere(plan)
            by = self._kernels_of(plan, lowered)[many]
            undone = by(values, codes, scales, marks, layout, plan, *others)
        return undone


def _block_decoder(request: BlockDecoding) -> Any:
    from lowprec.kernels.vector import widened_program

    if request.carrier != SINGLE:
        return widened_program.lower_blocks(request)
    plan = lower_products(request.format, request.tensor)
    return None if plan is None else BlockDecoder(request, plan)


class BlockDecoder:
    """The values of blocks as binary32; what it cannot be exact for it leaves, and marks."""

    partial = True

    def __init__(self, request: BlockDecoding, plan: Plan) -> None:
        own = shapes(plan)[0] if specialized(plan) else ()
        self._plan, self._of = plan, (request.format, request.tensor)
        self.kernels = tuple(block_values.decoder(shape, request.tensor) for shape in ((), own))

    def run(
        self, codes: Codes, out: Codes, scales: Codes, marks: Codes, layout: Layout, tensor: Tensor,
        past: bool,
    ) -> int:  # fmt: skip
        """Write values; return how many blocks are left, which are marked."""
        factors, undone = lower_factors(*self._of, *tensor.number), block.UNSUITED
        if factors is not None:
            plan = past_caches(self._plan) if past else self._plan
            by = self.kernels[is_worth(self.kernels[1], out.size)]
            undone = by(codes, out, scales, marks, layout, plan, factors)
        if undone >= block.UNSUITED:
            marks[:] = 1
            undone = marks.size
        return undone
