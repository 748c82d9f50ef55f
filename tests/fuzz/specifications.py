"""Draw specifications: any formats, rounding modes, projections, block formats and accumulations.

Everything that the constructors accept may come: extreme widths and biases, every field of a projection at
once.
"""

import dataclasses
import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any, get_args

from lowprec.spec import catalog
from lowprec.spec.accumulation import MACHINES, Accumulation, Cut, Window
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.block import RULES, BlockFormat, ScaleRule
from lowprec.spec.codebook import Codebook
from lowprec.spec.families import p3109
from lowprec.spec.format import Format, Sign
from lowprec.spec.layouts import check_layout
from lowprec.spec.order import EXACT, PAIRWISE, SEQUENTIAL, Deal, Order, Split, chunked
from lowprec.spec.projection import _CHOICES as POLICIES, Projection, Saturation
from lowprec.spec.rounding import MODES, VARIANTS, Rounding, Threshold, stochastic
from tests.fuzz.codebooks import any_codebook
from tests.fuzz.drawing import Draw, accepted

KNOWN_FORMATS = tuple(dict.fromkeys(catalog.FORMATS.values()))

#: Formats that kernels have ways of their own for.
SHORTCUTS = (
    catalog.BINARY32,
    catalog.TF32,
    catalog.BFLOAT16,
    catalog.BINARY16,
    catalog.E5M2,
    catalog.E8M0FNU,
)

# -- formats ----------------------------------------------------------------------------------------


def any_format(draw: Draw, *, widest: int = 32, exponents: bool = False, books: float = 0.0) -> Format:
    """A format: the catalog's, P3109's, one a field or two away from those, any parameters; or a codebook."""
    if draw.alike.random() < books:
        return accepted(lambda: _narrow(any_codebook(draw), widest))
    kind = draw.alike.choice(("known", "p3109", "near", "near", "any", "any", "any"))
    makers = {"known": _known, "p3109": _p3109, "near": _near, "any": _any}

    kinds = itertools.chain([kind] * 30, itertools.repeat("any"))  # few of a kind may be so narrow

    def make() -> Format:
        fmt = makers[next(kinds)](draw)
        if fmt.width > widest or (exponents and not fmt.exponent_bits):
            raise ValueError("too wide, or without exponents")
        return fmt

    return accepted(make)


def _narrow(fmt: Format, widest: int) -> Format:
    if fmt.width > widest:
        raise ValueError("too wide")
    return fmt


def _known(draw: Draw) -> Format:
    return draw.one_of_few("format", KNOWN_FORMATS)


def _p3109(draw: Draw) -> Format:
    width = draw.randint(3, 16)
    return p3109(width, draw.randint(1, width), signed=draw.chance(0.6), extended=draw.chance(0.5))


def _near(draw: Draw) -> Format:
    """What a special case for a usual format may be mistaken for."""
    fmt = draw.one_of_few("format", SHORTCUTS if draw.alike.random() < 0.5 else KNOWN_FORMATS)
    changes: dict[str, Callable[[], Any]] = {
        "negative_zero": lambda: not fmt.negative_zero,
        "infinity": lambda: not fmt.infinity,
        "subnormals": lambda: not fmt.subnormals,
        "sign": lambda: draw.choice(tuple(Sign)),
        "bias": lambda: fmt.bias + draw.choice((-2, -1, 1, 2, 16, -16)),
        "nans": lambda: max(0, draw.choice((0, 1, fmt.nans - 1, fmt.nans + 1, (1 << fmt.trailing_bits) - 1))),
        "trailing_bits": lambda: max(0, draw.choice((0, fmt.trailing_bits + draw.choice((-2, -1, 1, 2))))),
        "exponent_bits": lambda: max(0, fmt.exponent_bits + draw.choice((-1, 1))),
    }
    names = {draw.one_of_few("change", sorted(changes)) for _ in range(draw.choice((1, 1, 2)))}
    return dataclasses.replace(fmt, name="near", **{name: changes[name]() for name in sorted(names)})


def _any(draw: Draw) -> Format:
    sign = draw.alike.choice(
        (Sign.MAGNITUDE, Sign.MAGNITUDE, Sign.MAGNITUDE, Sign.UNSIGNED, Sign.TWOS_COMPLEMENT)
    )
    bits = draw.choice((2, 3, 4, 6, 8, 8, 10, 16, 16, 17, 24, 31, 32, draw.randint(2, 32)))
    bits -= sign is not Sign.UNSIGNED
    whole = sign is Sign.TWOS_COMPLEMENT
    exponent_bits = 0 if whole else min(draw.choice((0, 1, 2, 5, 8, 8, 11, 12, draw.randint(0, bits))), bits)
    trailing_bits = bits - exponent_bits
    every = 1 << (exponent_bits + trailing_bits)
    subnormals = exponent_bits == 0 or draw.alike.random() < 0.8
    infinity = not whole and draw.alike.random() < 0.5
    some = (
        1,
        1,
        2,
        (1 << trailing_bits) - 1,
        1 << trailing_bits,
        draw.randint(0, every),
        every // 2,
        every - 3,
    )
    nans = 0 if whole or draw.alike.random() < 0.25 else max(0, draw.choice(some))
    biases = (
        (1 << exponent_bits >> 1) - 1,
        draw.randint(-8, 8),
        draw.choice((126, 127, 128)),  # the lowest exponents of binary32
        127 - trailing_bits + draw.randint(-2, 2),
        (1 << exponent_bits) - draw.choice((126, 127, 128, 129)),  # and its highest
        (1 << exponent_bits) - 1022 - draw.randint(0, 2),  # those of float64
        1074 - trailing_bits + draw.randint(-2, 2),
        draw.randint(-1100, 1100),
    )
    return Format(
        name="drawn",
        exponent_bits=exponent_bits,
        trailing_bits=trailing_bits,
        bias=draw.choice(biases),
        sign=sign,
        nans=nans,
        infinity=infinity,
        negative_zero=sign is not Sign.MAGNITUDE or not subnormals or draw.alike.random() < 0.6,
        subnormals=subnormals,
    )


# -- projections ------------------------------------------------------------------------------------


def any_rounding(draw: Draw, fmt: Format, *, random_share: float = 0.3, bits: int | None = None) -> Rounding:
    """A mode: named, of any four thresholds, or stochastic, with the layouts of hardware where they fit."""
    if draw.alike.random() >= random_share:
        if draw.chance(0.15):
            return Rounding("drawn", *(draw.choice(tuple(Threshold)) for _ in range(4)))
        return draw.one_of_few("mode", MODES)
    layouts = _layouts(fmt) if bits is None else []
    if layouts and draw.chance(0.3):
        return draw.choice(layouts)
    count = draw.choice((1, 2, 8, 16, 31, 32, draw.randint(1, 32))) if bits is None else bits
    return stochastic(count, draw.choice("ABC"))


def _layouts(fmt: Format) -> list[Rounding]:
    """The stochastic modes in the layouts of hardware that have conversions to a format."""
    found = []
    for variant in VARIANTS[3:]:
        for bits in (7, 8, 13, 16, 20, 21):
            mode = stochastic(bits, variant)
            try:
                check_layout(mode, fmt)
            except ValueError:
                continue
            found.append(mode)
    return found


def any_projection(draw: Draw, fmt: Format, **fixed: Any) -> Projection:
    """A projection: now and then of all fields at once, else of few, so that fast kernels are asked too."""
    share = draw.alike.choice((0.0, 0.1, 0.1, 0.6))
    fields: dict[str, Any] = {
        "rounding": any_rounding(draw, fmt),
        "saturation": draw.one_of_few("saturation", tuple(Saturation)),
        "nan": draw.one_of_few("nan", POLICIES["nan"]),
        "symmetric": draw.chance(0.3),
        "nan_sign": draw.often("keep", POLICIES["nan_sign"]),
        "negative": draw.often("nan", POLICIES["negative"]),
        "zero": draw.often("nan", POLICIES["zero"]),
        "smallest": draw.often("itself", POLICIES["smallest"]),
        "nan_payload": draw.often("drop", POLICIES["nan_payload"], share),
        "subnormals": draw.often("keep", POLICIES["subnormals"], share),
        "overflow_test": draw.often("after", POLICIES["overflow_test"], share),
        "tininess": draw.often("after", POLICIES["tininess"], share),
    }
    if not isinstance(fmt, Codebook) and fmt.trailing_bits and not fmt.subnormals:
        del fields["smallest"]
    if draw.chance(max(share, 0.1)):
        top = (1 << fmt.width) - 1
        some = () if isinstance(fmt, Codebook) else (fmt.sign_code, fmt.max_magnitude)
        fields["nan_code"] = draw.choice((0, top, *some, draw.randint(0, top)))
    if draw.chance(share):
        fields["via"] = tuple(any_stop(draw) for _ in range(draw.choice((1, 1, 2))))
    return Projection(**fields | fixed)


def any_stop(draw: Draw) -> Format:
    """A format to round to on the way: mostly one that a library computes in."""
    usual = (
        catalog.BINARY32,
        catalog.BINARY32,
        catalog.BINARY16,
        catalog.BFLOAT16,
        catalog.BINARY64,
        catalog.E4M3FN,
    )
    return draw.choice(usual) if draw.chance(0.7) else any_format(draw, books=0.2)


# -- blocks -----------------------------------------------------------------------------------------

SCALES = (catalog.E8M0FNU, catalog.E8M0FNU, catalog.UE4M3, catalog.BINARY32, catalog.E5M2, catalog.BINARY16)


def any_block_format(draw: Draw) -> BlockFormat:
    """Any element with any scale, rule and policies."""
    if draw.alike.random() < 0.2:
        return draw.one_of_few("block format", tuple(catalog.BLOCK_FORMATS.values()))

    # Kernels are compiled for the types and the arithmetic: cases that are alike share them.
    widest = draw.alike.choice((4, 8, 8, 16, 32))
    usual, few = draw.alike.random() < 0.7, draw.alike.choice(SCALES)
    arithmetic = draw.alike.choice(("exact", "exact", "product", "reciprocal", "reciprocals"))
    tensor_scale = draw.alike.choice(("none", "none", "divide", "reciprocal"))

    def make() -> BlockFormat:
        element = any_format(draw, widest=widest, books=0.15)
        scale = few if usual else any_format(draw, books=0.5)
        thresholds = tuple(
            ScaleRule("drawn", "one", "nearest", Fraction(draw.randint(65, 127), 64)) for _ in range(2)
        )
        return BlockFormat(
            name="drawn",
            element=element,
            scale=scale,
            size=draw.choice((1, 2, 3, 8, 16, 32, draw.randint(1, 40), (2, 3), (1, 16))),
            rule=draw.choice((*RULES, *thresholds)),
            tensor_scale=tensor_scale,
            elements=any_projection(draw, element, via=()),
            scales=any_projection(draw, scale, via=()),
            arithmetic=arithmetic,
            min_scale=draw.often(0.0, (2.0**-9, 2.0**-6, 2.0**-126, 1.5)),
            smallest_divides_as=draw.often(None, (1.0, 2.0**-126)),
            zero=draw.choice(("smallest", "one", "rule")),
            nan=draw.choice(("block", "scale", "all", "elements")),
            infinity=draw.choice(("block", "power", "largest", "elements")),
            flush_subnormals=draw.chance(0.2),
        )

    return accepted(make)


# -- accumulations ----------------------------------------------------------------------------------

#: Operands that machines have.
MACHINE_FORMATS = (
    catalog.BINARY16,
    catalog.BFLOAT16,
    catalog.E4M3FNUZ,
    catalog.E5M2FNUZ,
    catalog.E4M3FN,
    catalog.E5M2,
)

PLACES = (catalog.BINARY32, catalog.BINARY32, catalog.BINARY16, catalog.BFLOAT16, catalog.TF32, catalog.E5M2)


def any_accumulation(draw: Draw) -> Accumulation:
    """Named hardware, and others of every order, accumulator and window."""
    kind = draw.choice(("known", "sums", "sums", "sums", "window", "window", "exact", "machine"))
    if kind == "known":
        return draw.choice(tuple(ACCUMULATIONS.values()))
    bits = draw.randint(1, 32)  # all that is random has as many, since a step's random integer has one size

    def place(*, doubles: bool = False) -> tuple[Format, Projection]:
        if doubles and draw.chance(0.1):
            return catalog.BINARY64, Projection()
        fmt = draw.choice(PLACES) if draw.chance(0.6) else any_format(draw, books=0.2)
        share = 0.2 if draw.chance(0.3) else 0.0
        mode = draw.choice(MODES) if share == 0.0 else any_rounding(draw, fmt, random_share=share, bits=bits)
        flush = draw.often("keep", ("flush_results",))
        rule = any_projection(draw, fmt, via=(), nan_payload="drop", subnormals=flush, rounding=mode)
        return fmt, dataclasses.replace(rule, negative=draw.choice(("nan", "zero", "drop_sign")))

    def operands(exponents: bool) -> tuple[Format, Format] | None:
        if not exponents and draw.chance(0.6):
            return None
        widest = draw.choice((8, 8, 16, 32))  # groups with scales take narrow formats alone
        return tuple(any_format(draw, widest=widest, exponents=exponents) for _ in range(2))  # type: ignore[return-value]

    def make() -> Accumulation:
        fields: dict[str, Any] = {"name": "drawn", "output": place()}
        if kind == "machine":
            pair = draw.choice(MACHINE_FORMATS), draw.choice(MACHINE_FORMATS)
            fields |= {"machine": draw.choice(MACHINES), "operands": pair}
            fields["output"] = catalog.BINARY32, fields["output"][1]
            return Accumulation(**fields)
        fields |= {"operands": operands(kind == "window")}
        if fields["operands"] and draw.chance(0.3):
            fields["operand_rounding"] = Projection(
                rounding=draw.choice(MODES), nan="max", saturation="finite"
            )
        if kind == "exact":
            return Accumulation(**fields, order=EXACT)
        fields["addend"] = draw.choice(("first", "last"))
        if kind == "window":
            fields |= _window(draw, place)
            return Accumulation(**fields)
        size, inner = draw.choice((1, 2, 3, 5, 16, 1 << 20)), draw.choice(("sequential", "pairwise"))
        fields["order"] = draw.choice(
            (SEQUENTIAL, PAIRWISE, Order("reversed"), chunked(size, inner), Order("lanes", size, inner))  # type: ignore[arg-type]
        )
        if fields["order"].name == "chunked" and draw.chance(0.6):
            fields["total"] = place(doubles=True)
        if draw.chance(0.4):
            fields["product"] = place()
        return Accumulation(**fields, accumulator=place(doubles=True))

    def make_split() -> Accumulation:
        made = make()
        if not draw.chance(0.15):
            return made
        return dataclasses.replace(made, split=_split(draw, place))

    return accepted(make_split)


def _split(draw: Draw, place: Callable[..., tuple[Format, Projection]]) -> Split:
    """Some products to each of several sums."""
    return Split(
        draw.choice((2, 3, 4, 5, 8)),
        draw.choice((1, 2, 3, 16)),
        draw.choice(get_args(Deal)),
        draw.choice(("sequential", "pairwise", "halves", "slots(2)")),
        stored=place() if draw.chance(0.2) else None,
        total=place() if draw.chance(0.5) else None,
    )


def _window(draw: Draw, place: Callable[..., tuple[Format, Projection]]) -> dict[str, Any]:
    """An accumulation's fields of a window: the accumulator, its order, and its scales."""
    scales = draw.often("none", ("products", "groups"))
    group = draw.choice((2, 4)) if scales == "groups" else 1
    step = group * (1 << draw.choice((20, 62)) if draw.chance(0.03) else draw.choice((1, 2, 3, 4, 8, 16)))
    window = Window(
        step=step,
        fraction_bits=draw.choice((None, 1, 2, 10, 23, 24, 25, 35, 48, draw.randint(1, 48))),
        result=place(),
        lowest_exponent=draw.choice((-4096, -133, -20, 0, 12, draw.randint(-300, 300))),
        cut=draw.choice(get_args(Cut)),
        groups=draw.choice(("consecutive", "alternate_pairs")),
        scales=scales,
        group=group,
        negative_zero=draw.chance(0.5),
    )
    fields: dict[str, Any] = {"accumulator": window}
    if draw.chance(0.4):
        fields |= {"order": chunked(2 * step * draw.choice((1, 1, 3))), "total": place(doubles=True)}
    if scales != "none":
        scale = draw.choice((catalog.E8M0FNU, catalog.UE4M3, catalog.UE5M3))
        fields["scale"] = scale, draw.choice((group, 2 * group, 4 * group) if group > 1 else (step, 2 * step))
    return fields
