"""Every engine gives the same codes, values and flags of whatever is drawn, and of what mutants are tried on.

The usual engine, whichever serves a call, is held against the scalar one on all operands and against the
oracle, which shares no algorithm with either, on some.
"""

import dataclasses
import re

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays import calls
from lowprec.kernels import engine
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.vector import flagged_program, narrowed_program, program
from lowprec.kernels.vector.choice_program import OPERATIONS as CHOICES
from lowprec.kernels.vector.flags import LEFT, OPERATIONS as FLAGGED
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.projection import Projection
from tests import mutant_driver
from tests.fuzz.arithmetic import any_operands
from tests.fuzz.conversions import FLOATS, words_for
from tests.fuzz.drawing import Draw
from tests.fuzz.operands import any_dtype, codes, values
from tests.fuzz.specifications import any_format, any_projection
from tests.mutations import MUTANTS
from tests.support import engines_agree

# -- what mutants are tried on ----------------------------------------------------------------------

ITEMS = dict.fromkeys(item for mutant in MUTANTS for item in mutant.tried)


@pytest.mark.apart
@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
@pytest.mark.parametrize("kind", dict.fromkeys(item.partition(":")[0] for item in ITEMS))
def test_what_finds_mutants_finds_nothing_in_the_package(kind, many, monkeypatch):
    """Try every item in kernels that requests for few results share, and in those of the requests' own.

    So every mutant of tests/mutations.txt that the driver finds fails this test.
    """
    monkeypatch.setattr(engine, "MANY", 0 if many else 1 << 62)
    monkeypatch.setattr(calls, "_known", {})
    for item in ITEMS:
        if item.partition(":")[0] == kind:
            _, name, only = (*item.split(":"), "")[:3]
            assert list(mutant_driver.broken(*mutant_driver.subjects()[kind](name), only)) == [], item


# -- what is drawn ----------------------------------------------------------------------------------

SIZE, SOME = 2000, 60


def drawn(operation, draw):
    """Return a verb, operands, formats and options, as the fuzzer draws them."""
    fmt = any_format(draw, books=0.15)
    fields = {"subnormals": "keep", "overflow_test": "after", "via": ()} if draw.chance(0.5) else {}
    rule = any_projection(draw, fmt, **fields)
    if not fmt.has_nan and rule.nan == "error":
        rule = dataclasses.replace(rule, nan="max")
    options, formats = {"projection": rule, "flags": draw.chance(0.5)}, (fmt,)
    if operation == "cast":
        formats = any_format(draw), fmt
        operands = [codes(draw, formats[0], SIZE)]
    elif operation in OPERANDS:
        operands = any_operands(draw, operation, [fmt, *rule.via], SIZE)
        holds = [known for known, carrier in FLOATS if carrier.contains(fmt)]
        options["dtype"] = draw.choice([*holds, f"u{fmt.code_bits // 8}"])
    else:
        operands = [values(draw, any_dtype(draw), [fmt, *rule.via], SIZE)]
    if rule.rounding.bits and draw.chance(0.5):
        options["rng"] = draw.getrandbits(64)
    elif rule.rounding.bits:
        options["random"] = words_for(draw, rule.rounding, fmt, operands[0].shape)
    return getattr(lp, operation), operands, formats, options


def agree_where_drawn(operation, seed, count):
    """Hold engines against each other; what a format or a projection cannot serve is refused by all."""
    compared = 0
    for number in range(count):
        verb, operands, formats, options = drawn(operation, Draw(seed, operation, number))
        some = dict(options)
        if "random" in options:  # a word may be for several elements
            some["random"] = options["random"][: SOME * options["random"].size // operands[0].size]
        try:
            engines_agree(verb, *operands, *formats, **options)
        except ValueError as refusal:
            with pytest.raises(ValueError, match=re.escape(str(refusal))):
                engines_agree(verb, *operands, *formats, backends=("scalar",), **options)
            continue
        engines_agree(
            verb,
            *(operand[:SOME] for operand in operands),
            *formats,
            backends=(None, "scalar", "oracle"),
            **some,
        )
        compared += 1
    return compared


@pytest.mark.apart
@pytest.mark.parametrize("operation", ["encode", "quantize", "cast", *OPERANDS])
def test_engines_agree_on_what_is_drawn(operation):
    """Any formats, types, projections and flags, in kernels that all requests for few results share."""
    assert agree_where_drawn(operation, 0, 100) > 50


@pytest.mark.apart
@pytest.mark.parametrize(
    "operation", ["encode", "quantize", "cast", "add", "divide", "sqrt", "fma", "minimum"]
)
def test_kernels_of_a_requests_own_agree_on_what_is_drawn(operation, monkeypatch):
    """Hold kernels that requests for many results have against the others, and narrow operands in chunks."""
    monkeypatch.setattr(engine, "MANY", 0)
    monkeypatch.setattr(narrowed_program, "_PART", 512)
    assert agree_where_drawn(operation, 1, 12) > 6


# -- blocks -----------------------------------------------------------------------------------------

BLOCKS = ("mxfp4", "mxfp6_e2m3", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4", "bnb_nf4", "bfp4")
BLOCKS += ("fp8_block_1x128", "nvfp4_2d")
SHAPES = [((3, 64), 1), ((3, 70), 1), ((70, 5), 0), ((2, 40, 7), 1), ((3, 17000), 1), ((64, 600), 0)]


@np.errstate(all="ignore")
def rows(name, shape, kind):
    """Numbers of many sizes, some of them subnormal in binary32, and specials where a format takes them."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 20, shape)
    x[-1] *= 2.0**-130
    x[0, ::9] = 0
    if lp.block_formats[name].scale.has_nan:
        x.reshape(-1)[[5, 77]] = np.nan, np.inf
    return x.astype(kind)


@pytest.mark.apart
@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_are_the_same_on_every_engine(name, many, monkeypatch):
    """Compare blocks of every type, along both axes, with a cut end; values of any scales, NaN too."""
    monkeypatch.setattr(engine, "MANY", 0 if many else 1 << 62)
    for shape, axis in SHAPES:
        axis = (len(shape) - 2, len(shape) - 1) if name == "nvfp4_2d" else axis
        for kind in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)[: 2 if many else 4]:
            made = engines_agree(lp.encode, rows(name, shape, kind), name, axis=axis)
        scales = made.scales.copy()
        scales.reshape(-1)[:3] = (0x7F, 0x7E, 0) if name.startswith("nvfp4") else (0xFF, 0xFE, 0)
        for each in (made, lp.BlockArray(made.codes, scales, made.format, made.axes, made.tensor_scale)):
            for dtype in (np.float32, np.float64):
                engines_agree(lp.decode, each, dtype=dtype)
    engines_agree(lp.encode, rows(name, (2, 70), np.float32), name, backends=(None, "oracle"))


@pytest.mark.apart
@pytest.mark.parametrize("rule", ["floor", "ceil", "even", "nearest"])
@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp4", "mxint8", "nvfp4"])
def test_blocks_of_tiny_numbers_are_the_same(name, rule):
    """Subnormal in binary32, and with scales below the smallest; some blocks are, some are not."""
    rng = np.random.default_rng(0)
    low, high = (-20, 20) if name == "nvfp4" else (-150, -110)
    for kind in (np.float32, ml_dtypes.bfloat16):
        x = (rng.standard_normal((40, 70)) * 2.0 ** rng.integers(low, high, (40, 1))).astype(kind)
        x[3], x[4, 1], x[5, 2] = 0, np.nan, -np.inf
        for axis in (0, 1):
            for rounding in ({}, {"rounding": "toward_zero"}, {"rounding": "stochastic(8)", "rng": 1}):
                engines_agree(lp.encode, x, name, axis=axis, rule=rule, **rounding)


# -- what programs leave, and what they do not serve ------------------------------------------------


@pytest.mark.apart
@pytest.mark.parametrize("operation", CHOICES)
def test_signaling_nans_beside_operands_of_another_type_signal(operation):
    """They are read as numbers of one type, in which they may be quiet."""
    nan, number = np.full(300, 0x7C01, np.uint16).view(np.float16), np.ones(300, np.float32)
    for operands in ((nan, number), (number, nan), (nan, number.astype(np.int8))):
        flags, expected = np.empty(300, np.uint8), np.empty(1, np.uint8)
        getattr(lp, operation)(*operands, "bfloat16", flags=flags)
        getattr(lp, operation)(*(each[:1] for each in operands), "bfloat16", flags=expected, backend="oracle")
        assert set(flags.tolist()) == set(expected.tolist()) == {16}


@pytest.mark.apart
@pytest.mark.parametrize("operation", FLAGGED)
def test_vectors_leave_few(monkeypatch, operation):
    """Count what the scalar engine gets: of ordinary numbers those on borders; one operand may be for all."""
    rng = np.random.default_rng(0)
    x, z = (np.abs(rng.standard_normal(1 << 16)).astype(np.float32) + 1 for _ in range(2))
    left, part = [], flagged_program.Flagged.part

    def counted(self, *given):
        found = part(self, *given)
        left.append(found.size)
        return found

    monkeypatch.setattr(flagged_program.Flagged, "part", counted)
    flags = np.empty(x.size, np.uint8)
    verb = lp.encode if operation == "convert" else getattr(lp, operation)
    verb(*[x, np.float32(1.5), z][: OPERANDS.get(operation, 1)], "bfloat16", flags=flags)
    assert len(left) == 2
    assert sum(left) < x.size / 100
    assert set(flags.tolist()) <= {0, 1}
    assert LEFT not in flags


SINGLE = catalog.BINARY32


def requested(operation, *sources, fmt, **rule):
    """Return the program of vectors for a request with flags."""
    return program.lower(Elementwise(operation, sources, fmt, Projection(**rule), flags=True))


def test_what_flags_vectors_do_not_serve():
    """Formats in which zeros or negative numbers signal, flushing, and operations without an exact check."""
    for fmt, rule in (
        (catalog.E8M0FNU, {}),
        (catalog.E4M3FNUZ, {}),
        (catalog.INT8, {"nan": "zero"}),
        (catalog.BFLOAT16, {"subnormals": "flush_results"}),
        (catalog.E4M3FN, {"via": (catalog.BINARY16,)}),
        (catalog.E4M3FN, {"nan_code": 0}),
        (catalog.E2M1FN, {"nan": "zero"}),
    ):
        assert requested(CONVERT, SINGLE, fmt=fmt, **rule) is None
    rule = {"fmt": catalog.E2M1FN, "saturation": "finite", "nan": "zero"}
    assert requested("divide", SINGLE, SINGLE, **rule) is None
    assert requested("sqrt", SINGLE, **rule) is None
    assert requested("add", SINGLE, SINGLE, fmt=catalog.E4M3FN) is not None


# -- operands of binary64 that binary32 holds in parts ----------------------------------------------

PART = 512
PARTS = 5 * PART + 37

#: A last operand beside ones that is just above a tie, which the next binary32 number is at or below.
ABOVE = {
    "encode binary16": 1 + 2.0**-11 + 2.0**-40,
    "quantize bfloat16": 1 + 2.0**-8 + 2.0**-40,
    "add": 2.0**-24 + 2.0**-60,
    "sqrt": 1 + 2.0**-23 + 2.0**-48 + 2.0**-52,
    "fma": 2.0**-24 + 2.0**-60,
}


@pytest.mark.apart
@pytest.mark.parametrize("verb", ABOVE)
def test_calls_that_are_asked_again(verb, monkeypatch):
    """The first call is remembered; the others go to its kernel, and where it gives up to the usual way."""
    monkeypatch.setattr(narrowed_program, "_PART", PART)
    name, fmt = verb.split() if " " in verb else (verb, "binary32")
    call, count = getattr(lp, name), OPERANDS.get(name, 1)
    numbers = np.random.default_rng(count).uniform(0.5, 2, (count, PARTS)).astype(np.float32)
    for size in (PARTS, 3, PARTS):
        given = [np.array(row[:size], np.float64) for row in numbers]
        for place in (None, 0, size - 1, None):
            if place is not None:
                for each in given:
                    each[place] = 1.0
                given[-1][place] = ABOVE[verb]
            want = engines_agree(call, *given, fmt)
            out = np.full_like(want, 3)
            assert call(*given, fmt, out=out) is out
            np.testing.assert_array_equal(out, want)
            if place is not None:
                given[-1][place] = 1.0
    if name == "quantize":
        assert lp.quantize(given[0], fmt, out=given[0]) is given[0]
        np.testing.assert_array_equal(given[0], want)


@pytest.mark.apart
def test_a_result_without_a_code_is_refused_in_whatever_part(monkeypatch):
    """`out` is untouched."""
    monkeypatch.setattr(narrowed_program, "_PART", PART)
    x, out = np.ones(PARTS), np.full(PARTS, 7, np.float32)
    for place in (3, PARTS - 1):
        for wide in (1.0, 1 + 2.0**-40):
            given = x * wide
            given[place] = np.nan
            with pytest.raises(ValueError, match="NaN"):
                lp.add(given, x, "int8", out=out)
            assert (out == 7).all()
