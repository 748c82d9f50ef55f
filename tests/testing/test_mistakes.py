"""Mistakes in using the checks: right implementations pass, wrong questions are answered in words."""

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings

import lowprec as lp
from lowprec.testing import (
    arrays,
    blocks,
    check_block_format,
    check_cast,
    check_format,
    check_operation,
    formats,
    near_ties,
)
from tests.support import refusal_test

E2M1FN = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
BLOCKS = lp.BlockFormat(
    name="blocks_of_8", element=lp.format("e2m1fn"), scale=lp.format("e8m0fnu"), size=8, rule="rceil"
)


def own(**more):
    """Four bits by a table, and what else it has."""
    table = np.concatenate([E2M1FN, -E2M1FN])
    return SimpleNamespace(**{"name": "mine", "decode": lambda codes: table[codes], "width": 4} | more)


def encode(rows):
    """Scales and elements of blocks."""
    made = lp.encode(rows, BLOCKS, axis=1)
    return made.scales[:, 0], made.codes


# -- what is right passes, what is wrong does not ----------------------------------------------------


def verbs(saturation):
    """The verbs of lowprec as anyone's e5m2."""
    how = lp.Projection(saturation=saturation)
    return SimpleNamespace(
        name="verbs",
        format="e5m2",
        saturation=saturation,
        decode=lambda codes: lp.decode(codes, "e5m2", dtype="float64"),
        encode=lambda values: lp.encode(values, "e5m2", projection=how),
    )


@pytest.mark.parametrize("saturation", ["none", "finite", "propagate"])
def test_encoders_that_saturate_keep_the_laws(saturation):
    """Under finite an infinity becomes the largest value, and round trips leave it out."""
    assert check_format(verbs(saturation), samples=0).broken == ()


def test_round_trips_of_infinities_are_tried_where_they_should_hold():
    """An encoder that saturates and does not say so."""
    given = verbs("finite")
    given.saturation = "propagate"
    with pytest.raises(
        AssertionError, match=r"(?s)verbs breaks the law 'round trip'.*code  0x7c  0 11111 00  inf"
    ):
        check_format(given, samples=0)


@pytest.mark.parametrize("target", ["e4m3fn", "e4m3fnuz", "e5m2", "e8m0fnu"])
def test_any_nan_lets_a_right_cast_pass(target):
    """Where overflow and negative numbers give NaNs of both signs, too."""
    assert check_cast(lambda x: lp.encode(x, target), target, samples=0, any_nan=True).mismatches == 0


def test_any_nan_lets_signs_of_nans_from_overflow_pass():
    """And not the largest value in the place of a NaN."""

    def positive(x):
        codes = lp.encode(x, "e4m3fn")
        codes[codes == 0xFF] = 0x7F
        return codes

    assert check_cast(positive, "e4m3fn", samples=0, any_nan=True).mismatches == 0
    with pytest.raises(AssertionError, match=r"(?s)law 'overflow'.*got    0x7e.*want   0x7f"):
        check_cast(lambda x: lp.encode(x, "e4m3fn", saturation="finite"), "e4m3fn", samples=0, any_nan=True)


def test_a_cast_that_clips_its_inputs_in_place_is_judged_by_those_it_was_given():
    """The reference does not see what the cast wrote."""

    def clips(x):
        np.clip(x, -448, 448, out=x)
        return lp.encode(x, "e4m3fn")

    with pytest.raises(AssertionError, match="breaks the law 'overflow' of e4m3fn"):
        check_cast(clips, "e4m3fn", samples=0)

    def fills(x):
        codes = lp.encode(x, "e4m3fn")
        x.fill(0)
        return codes

    assert check_cast(fills, "e4m3fn", samples=0).mismatches == 0


def test_a_cast_still_gets_inputs_that_are_spread_in_memory():
    """As every place is tried."""
    strides = set()

    def watched(x):
        strides.add(x.strides[0])
        return lp.encode(x, "e4m3fn")

    check_cast(watched, "e4m3fn", samples=0)
    assert strides == {4, 8}


def test_signalling_nans_as_answers_are_no_warnings():
    """Warnings are errors here; the answer is judged."""
    with pytest.raises(AssertionError, match="breaks the law 'nearest'"):
        check_cast(lambda x: x, "e4m3fn", samples=0)


# -- wrong questions and answers ---------------------------------------------------------------------


def test_a_width_as_numpy_counts_it_is_a_width():
    """From an array's shape, or a formula."""
    assert check_format(own(width=np.int64(4))).broken == ()


test_questions_that_cannot_be_asked_are_refused = refusal_test(
    globals(),
    """
check_cast("e4m3fn", "e4m3fn")
    TypeError: check_cast takes a function on arrays first, not 'e4m3fn'
check_operation("add", "add", "e2m1fn")
    TypeError: check_operation takes a function on arrays first...
check_cast(encode, "e4m3fn", samples=1.5)
    TypeError: samples must be an integer, not 1.5
check_format(own(), samples="many")
    TypeError: samples must be an integer, not 'many'
check_format(own(), samples=-1)
    ValueError: samples must not be negative, not -1
check_block_format("mxfp4", seed=0.5)
    TypeError: seed must be an integer, not 0.5
check_operation(max, "add", "e2m1fn", samples=0)
    ValueError: samples must be 1 or more, not 0
check_operation(max, "add", "e2m1fn", seed=-1)
    ValueError: seed must not be negative, not -1
""",
)


# -- strategies --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        (near_ties("e4m3fn"), r"x=1\.0625,"),
        (arrays("e4m3fn", (2,), dtype="float32"), r"x=array\(\[.*\], dtype=float32\),"),
    ],
)
def test_failing_examples_are_told_as_values(strategy, told):
    """That can be put into a test of one's own, and not as what makes them."""

    @settings(database=None, deadline=None, derandomize=True)
    @given(strategy)
    def fails(x):
        assert (abs(x) <= 1).all() if isinstance(x, np.ndarray) else abs(x) <= 1

    with pytest.raises(AssertionError) as caught:
        fails()
    assert re.search(told, "".join(caught.value.__notes__))


@pytest.mark.parametrize(
    ("name", "fmt", "wrong"),
    [
        ("add", "e4m3fn", lambda made: np.where(made == 0x80, 0, made)),
        ("subtract", "e5m2", lambda made: np.where(made == 0x80, 0, made)),
        ("sqrt", "bfloat16", lambda made: np.where(made == 0x8000, 0, made)),
        ("round_to_integral", "bfloat16", lambda made: np.where(made == 0x7F80, 0x7F7F, made)),
        ("sqrt", "binary16", lambda made: np.where(made == 0x3DA8, 0x3DA9, made)),
    ],
    ids=["sum of zeros", "difference of zeros", "root of zero", "infinity", "one root"],
)
@pytest.mark.apart
@pytest.mark.parametrize("seed", [0, 1])
def test_special_operands_are_among_the_samples(name, fmt, wrong, seed):
    """Sums of zeros are two of 65,536 pairs, of which 16,384 are drawn; and of one operand all are tried."""

    def unit(*codes):
        operands = [lp.decode(each, fmt) for each in codes]
        return wrong(getattr(lp, name)(*operands, fmt, dtype=codes[0].dtype))

    with pytest.raises(AssertionError, match="unit breaks the law"):
        check_operation(unit, name, fmt, seed=seed)


def test_decoders_of_blocks_that_lose_the_sign_of_a_zero_are_found():
    def decode(scales, codes):
        return lp.BlockArray(codes, scales[:, None], BLOCKS, (1,)).values(np.float64) + 0.0

    with pytest.raises(AssertionError, match=r"(?s)law 'scale identity'.*want     -0.0"):
        check_block_format(SimpleNamespace(name="mine", format=BLOCKS, decode=decode))


test_what_cannot_be_is_refused = refusal_test(
    {**globals(), "blocks": blocks, "formats": formats, "math": math},
    """
check_format(own(format="e4m3fn"))
    ValueError: width=4 of mine is not that of its format 'e4m3fn', whose codes have 8 bits; leave one
    of them out
check_format(own(decode=lambda codes: codes + 0j))
    TypeError: decode of mine gave complex128; it must give real numbers, floats or integers
check_format(own(decode=lambda codes: codes.astype(object)))
    TypeError: decode of mine gave object; it must give real numbers, floats or integers
check_format(own(decode=lambda codes: codes.astype(np.int64) + 2 ** 53))
    ValueError: decode of mine gave 9007199254740993, which is no float64 number, as all values are
check_format(own(decode=lambda codes: np.ma.masked_array(codes, codes == 3)))
    TypeError: a masked array would lose its mask...
check_format(own(decode=lambda codes: np.full(codes.shape, "a")))
    TypeError: decode of mine gave <U1; it must give real numbers, floats or integers
check_format(own(encode=lambda values: np.full(values.shape, 31)))
    ValueError: encode of mine gave 31 for 0.0, which is no code of 4 bits; it must give unsigned codes
check_format(own(encode=lambda values: np.full(values.shape, -1)))
    ValueError: encode of mine gave -1 for 0.0, which is no code of 4 bits; it must give unsigned codes
check_format(type("Mine", (), {"width": 4, "decode": lambda self, codes: codes}))
    TypeError: check_format takes an object, not the class Mine; make one: Mine()
check_format("mxfp4")
    ValueError: 'mxfp4' is a block format: check_block_format is for these
check_format(BLOCKS)
    ValueError: 'blocks_of_8' is a block format: check_block_format is for these
check_block_format(SimpleNamespace(name="mine", format=BLOCKS, encode=lambda rows: (encode(rows)[0].astype(
        int) + 300, encode(rows)[1])))
    ValueError: encode of mine gave 300 among its scales, which is no code of e8m0fnu: codes have 8
    bits; give unsigned codes
check_block_format(SimpleNamespace(name="mine", format=BLOCKS, encode=lambda rows: (encode(rows)[0],
        encode(rows)[1] + 16)))
    ValueError: encode of mine gave 16 among its codes, which is no code of e2m1fn: codes have 4 bits;
    give unsigned codes
check_block_format(SimpleNamespace(name="mine", format=BLOCKS, encode=lambda rows: (*encode(rows),
        math.nan)))
    ValueError: encode of mine gave nan as the scale of the tensor; give one positive number
check_block_format(SimpleNamespace(name="mine", format=BLOCKS, encode=lambda rows: (*encode(rows), None)))
    TypeError: encode of mine, for the scale of the tensor, gave object; it must give real numbers,
    floats or integers
check_block_format(SimpleNamespace(name="mine", format=BLOCKS, encode=lambda rows: None))
    TypeError: encode of mine gave NoneType; it must give the codes of the scales and of the...
check_block_format(SimpleNamespace(name="mine", format=BLOCKS, encode=lambda rows: lp.encode(rows, BLOCKS,
        axis=1)))
    TypeError: encode of mine gave BlockArray; it must give the...
check_block_format(SimpleNamespace(name="mine", format=BLOCKS, decode=lambda scales, codes: codes + 0j))
    TypeError: decode of mine gave complex128; it must give real numbers, floats or integers
check_block_format(type("Mine", (), {"format": BLOCKS, "encode": lambda self, rows: encode(rows)}))
    TypeError: check_block_format takes an object, not the class Mine; make one: Mine()
blocks("mxfp4", count=0)
    ValueError: count=0 must be 1 or more
blocks("nvfp4_2d")
    ValueError: blocks of 'nvfp4_2d' lie along two axes; draw codes and scales yourself
blocks("e4m3fn")
    ValueError: unknown block format 'e4m3fn'...
formats(signs="unsigned")
    ValueError: signs='unsigned' must be one or more of magnitude, unsigned, twos_complement in a tuple
formats(signs=())
    ValueError: signs=() must be one or more of magnitude, unsigned, twos_complement in a tuple
""",
)
