"""What an element becomes does not depend on where it lies, nor on where its result is put.

The plain call, on a contiguous array with nothing to write to, is held against ml_dtypes once; every
other layout is held against the plain call, bit for bit.
"""

import functools
import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import lowprec as lp
from lowprec.arrays import traverse
from lowprec.arrays.threads import SHARED_FROM
from lowprec.kernels.vector.ir.lanes import LANES
from tests.support import assert_same_bits

#: Elements that are gone through at a time where they do not lie one after the other.
BUFFER = traverse.BUFFER

SIZES = (
    0, 1, 2, LANES - 1, LANES, LANES + 1, 3 * LANES + 5, BUFFER - 1, BUFFER, BUFFER + 1,
    2 * BUFFER + LANES + 3,
)  # fmt: skip
SHAPES = (
    (), (1, 1), (0, 3), (3, 0), (2, 3), (5, LANES), (LANES + 1, 7), (3, 5, 7), (1, LANES, 1), (131, 257),
    (3, 83, 139),
)  # fmt: skip

# -- operands ---------------------------------------------------------------------------------------


@functools.cache
def _patterns(size):
    """Random bits, and more that are e4m3fn values, or halfway between: 2**-7 to above the largest."""
    bits = np.random.default_rng(20261121).integers(0, 1 << 32, size, np.uint32)
    near = (bits & np.uint32(0x80780000)) | ((bits >> 8 & 15) + 0x78) << 23
    return np.where(bits & 7 < 5, near, bits)


def _floats(dtype):
    """Values of a float type, NaNs and infinities among them."""

    def make(shape):
        with np.errstate(invalid="ignore", over="ignore"):
            singles = _patterns(math.prod(shape)).view(np.float32).reshape(shape)
            return singles.copy() if dtype == np.float32 else singles.astype(dtype)

    return make


def _numbers(shape):
    """Values without NaN."""
    values = _floats(np.float32)(shape)
    return np.where(np.isnan(values), np.float32(1.25), values)


def _codes(dtype):
    """Codes of 8 or 16 bits, in any integer type."""

    def make(shape):
        return (
            (_patterns(math.prod(shape)) >> 7)
            .astype(np.uint16 if dtype == np.uint16 else np.uint8)
            .astype(dtype)
            .reshape(shape)
        )

    return make


#: Each verb as (what makes its operand, the call). Between them they take every way through the library.
VERBS = {
    "encode": (_floats(np.float32), lambda x, **out: lp.encode(x, "e4m3fn", **out)),
    "encode_bfloat16": (_floats(np.float32), lambda x, **out: lp.encode(x, "bfloat16", **out)),
    "encode_without_nan": (_numbers, lambda x, **out: lp.encode(x, "e2m1fn", **out)),
    "encode_float64": (_floats(np.float64), lambda x, **out: lp.encode(x, "e5m2", **out)),
    "encode_float16": (_floats(np.float16), lambda x, **out: lp.encode(x, "bfloat16", **out)),
    "encode_flushed": (
        _floats(np.float32),
        lambda x, **out: lp.encode(x, "e4m3fn", projection=lp.Projection(subnormals="flush_both"), **out),
    ),
    "decode": (_codes(np.uint8), lambda x, **out: lp.decode(x, "e4m3fn", **out)),
    "decode_wide": (_codes(np.uint16), lambda x, **out: lp.decode(x, "binary16", dtype=np.float64, **out)),
    "quantize": (_floats(np.float32), lambda x, **out: lp.quantize(x, "e4m3fn", **out)),
    "quantize_float16": (_floats(np.float16), lambda x, **out: lp.quantize(x, "e4m3fn", **out)),
    "quantize_without_nan": (_numbers, lambda x, **out: lp.quantize(x, "e2m1fn", **out)),
    "cast": (_codes(np.uint8), lambda x, **out: lp.cast(x, "e4m3fn", "e5m2", **out)),
    "cast_narrower": (_codes(np.uint16), lambda x, **out: lp.cast(x, "bfloat16", "e4m3fn", **out)),
    "cast_integers": (_codes(np.int64), lambda x, **out: lp.cast(x, "e4m3fn", "binary16", **out)),
}


@functools.cache
def _plain(name, shape):
    """An operand of that shape, and what the plain call makes of it."""
    make, call = VERBS[name]
    operand = make(shape)
    want = call(operand)
    operand.flags.writeable = False
    return operand, np.asarray(want)


def _same(got, want):
    """Equal in shape, type and all bits."""
    return got.shape == want.shape and got.dtype == want.dtype and got.tobytes() == want.tobytes()


def test_plain_calls_give_what_ml_dtypes_gives():
    """Once, for all that has a counterpart there; of NaNs the place counts."""
    shape = (2 * BUFFER + LANES + 3,)
    with np.errstate(all="ignore"):
        for name, theirs in {
            "encode": lambda x: x.astype(ml_dtypes.float8_e4m3fn).view(np.uint8),
            "encode_bfloat16": lambda x: x.astype(ml_dtypes.bfloat16).view(np.uint16),
            "encode_without_nan": lambda x: x.astype(ml_dtypes.float4_e2m1fn).view(np.uint8),
            "cast": lambda x: x.view(ml_dtypes.float8_e4m3fn).astype(ml_dtypes.float8_e5m2).view(np.uint8),
            "cast_narrower": lambda x: (
                x.view(ml_dtypes.bfloat16).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
            ),
        }.items():
            operand, got = _plain(name, shape)
            assert np.array_equal(got, theirs(operand)), name
        for name, theirs in {
            "decode": lambda x: x.view(ml_dtypes.float8_e4m3fn).astype(np.float32),
            "decode_wide": lambda x: x.view(np.float16).astype(np.float64),
            "quantize": lambda x: x.astype(ml_dtypes.float8_e4m3fn).astype(np.float32),
        }.items():
            operand, got = _plain(name, shape)
            want = theirs(operand)
            numbers = ~np.isnan(want)
            assert np.array_equal(numbers, ~np.isnan(got)), name
            assert_same_bits(got[numbers], want[numbers], operand[numbers], name)


# -- layouts ----------------------------------------------------------------------------------------


def lay(array, steps=None, axes=None, shift=0, swapped=False):
    """The same elements, elsewhere: a view of them, and the memory they lie in, otherwise filled with 0xA5.

    Elements are `steps` apart along each axis, backwards if negative; axes lie in memory in the order
    `axes`, outermost first; the first byte of all of it is `shift` bytes beyond a multiple of 64.
    """
    steps = steps or (1,) * array.ndim
    axes = axes or tuple(range(array.ndim))
    sizes = [array.shape[axis] * abs(steps[axis]) for axis in axes]
    length = math.prod(sizes) * array.itemsize
    raw = np.full(length + shift + 96, 0xA5, np.uint8)
    memory = raw[-_address(raw) % 64 :][: length + shift + 32]
    whole = (
        memory[shift : shift + length]
        .view(array.dtype.newbyteorder() if swapped else array.dtype)
        .reshape(sizes)
    )
    view = whole.transpose(np.argsort(axes).astype(int))[(..., *(slice(None, None, step) for step in steps))]
    view[...] = array
    return view, memory


def _address(array):
    return array.__array_interface__["data"][0]


#: One-dimensional layouts.
LINES = {
    "contiguous": {},
    "every_second": {"steps": (2,)},
    "every_third_backwards": {"steps": (-3,)},
    "backwards": {"steps": (-1,)},
    "eight_bytes_on": {"shift": 8},
    "misaligned": {"shift": 1},
    "misaligned_and_strided": {"shift": 3, "steps": (2,)},
}

#: Layouts of any number of dimensions, of which one is given.
BOXES = {
    "c_order": lambda ndim: {},
    "fortran_order": lambda ndim: {"axes": tuple(range(ndim))[::-1]},
    "last_axis_first": lambda ndim: {"axes": (*range(ndim)[-1:], *range(ndim)[:-1])},
    "backwards": lambda ndim: {"steps": (-1,) * ndim},
    "rows_apart": lambda ndim: {"steps": (2, 1, 1)[:ndim]},
    "columns_apart": lambda ndim: {"steps": (1, 1, 2)[3 - ndim :]},
    "fortran_order_backwards_and_misaligned": lambda ndim: {
        "axes": tuple(range(ndim))[::-1],
        "steps": (1, -1, -2)[3 - ndim :],
        "shift": 1,
    },
}


#: Sizes around a vector and around the buffer, boxes with axes of length 0 and 1, and any others.
LAYOUTS = st.integers(0, 3).flatmap(
    lambda ndim: st.fixed_dictionaries(
        {
            "shape": st.one_of(
                st.sampled_from([shape for shape in (*SHAPES, *((n,) for n in SIZES)) if len(shape) == ndim]),
                st.tuples(*[st.integers(0, 40)] * ndim),
            ),
            "read": _drawn_layout(ndim),
            "write": _drawn_layout(ndim),
            "swapped": st.booleans(),
        }
    )
)


def _drawn_layout(ndim):
    return st.fixed_dictionaries(
        {
            "steps": st.tuples(*[st.sampled_from([1, 1, 2, -1, -3])] * ndim),
            "axes": st.permutations(range(ndim)).map(tuple),
            "shift": st.integers(0, 16),
        }
    )


@given(drawn=LAYOUTS)
def test_layouts_make_no_difference(drawn):
    """Any order of axes, any steps, any address, for operand and result alike.

    The operand stays as it was, and nothing is written before, between or behind the results.
    """
    for name, (_, call) in VERBS.items():
        operand, want = _plain(name, drawn["shape"])
        view, read = lay(operand, **drawn["read"], swapped=drawn["swapped"] and operand.itemsize > 1)
        before = read.tobytes()
        assert _same(np.asarray(call(view)), want), name
        assert read.tobytes() == before, name
        out, memory = lay(np.full_like(want, 77), **drawn["write"])
        assert call(view, out=out) is out, name
        assert memory.tobytes() == lay(want, **drawn["write"])[1].tobytes(), name


@pytest.mark.parametrize("name", VERBS)
def test_an_element_that_is_broadcast_is_converted_wherever_it_appears(name):
    """Zero strides along the first axis, the last, all of them; also more elements than the buffer holds."""
    _, call = VERBS[name]
    operand, want = _plain(name, (LANES + 1,))
    for shape in ((3, LANES + 1), (BUFFER // LANES, LANES + 1), (2, 3, LANES + 1)):
        assert _same(call(np.broadcast_to(operand, shape)), np.broadcast_to(want, shape)), shape
    for count in (1, LANES, BUFFER // LANES):
        shape = (LANES + 1, count)
        got = call(np.broadcast_to(operand[:, np.newaxis], shape))
        assert _same(got, np.broadcast_to(want[:, np.newaxis], shape)), shape
    assert _same(call(np.broadcast_to(operand[3], (5, 7))), np.broadcast_to(want[3], (5, 7)))


# -- results past the caches ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["encode", "encode_bfloat16", "decode", "decode_wide", "quantize", "cast"])
def test_results_that_are_stored_past_the_caches_are_the_same(name, monkeypatch):
    """As if they were large, to every address: such stores must not be misaligned."""
    monkeypatch.setattr(traverse, "PAST_FROM", 1)
    _, call = VERBS[name]
    for size in SIZES:
        operand, want = _plain(name, (size,))
        for shift in range(0, 65, want.itemsize):
            out, memory = lay(np.full_like(want, 77), shift=shift)
            call(operand, out=out)
            assert memory.tobytes() == lay(want, shift=shift)[1].tobytes(), (size, shift)


@pytest.mark.parametrize("shift", [0, 1, 16])
def test_large_results_are_the_same_as_small_ones(shift):
    """More than 16 MiB of them."""
    operand, want = _plain("encode", (2 * BUFFER + LANES + 3,))
    size = (1 << 24) + 37
    out, memory = lay(np.empty(size, np.uint8), shift=shift)
    lp.encode(np.resize(operand, size), "e4m3fn", out=out)
    assert np.array_equal(out, np.resize(want, size))
    assert (memory[:shift] == 0xA5).all()
    assert (memory[shift + size :] == 0xA5).all()


# -- memory in common -------------------------------------------------------------------------------

#: Verbs whose results are as wide as their operands.
AS_WIDE = ("quantize", "quantize_float16", "quantize_without_nan", "encode_float16", "cast")


@pytest.fixture
def _two_threads():
    before = lp.get_threads()
    lp.set_threads(2)
    yield
    lp.set_threads(before)


def _into(name, size, place, start):
    """Convert what is at byte `place` of a memory to byte `start`: right there, nothing else changed."""
    _, call = VERBS[name]
    operand, want = _plain(name, (size,))
    memory = np.full(max(place + operand.nbytes, start + want.nbytes) + 16, 0xA5, np.uint8)
    memory[place : place + operand.nbytes] = operand.view(np.uint8)
    after = memory.copy()
    after[start : start + want.nbytes] = want.view(np.uint8)
    out = memory[start : start + want.nbytes].view(want.dtype)
    assert call(memory[place : place + operand.nbytes].view(operand.dtype), out=out) is out
    assert memory.tobytes() == after.tobytes(), (size, place, start)


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize("name", AS_WIDE)
def test_results_may_overlap_operands_a_few_elements_off(name):
    """Forwards and backwards, by one element, a vector, one more or less; also where threads share it."""
    width = _plain(name, (1,))[0].itemsize
    for size in (LANES, 3 * LANES + 5, BUFFER + 1, SHARED_FROM + 4099):
        for shift in (1, 2, LANES - 1, LANES, LANES + 1, size // 2):
            _into(name, size, shift * width, 0)
            _into(name, size, 0, shift * width)
    for size in (3 * LANES + 5, BUFFER + 1):  # and by parts of an element
        _into(name, size, 64, 63)
        _into(name, size, 64, 65)


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize(
    "name", ["encode", "encode_bfloat16", "encode_float64", "cast_narrower", "encode_without_nan"]
)
def test_narrower_results_may_lie_within_their_operands(name):
    """At the beginning, one element on, in the middle, at the end."""
    for size in (LANES, 3 * LANES + 5, BUFFER + 1, SHARED_FROM + 4099):
        operand, want = _plain(name, (size,))
        for start in (0, want.itemsize, operand.nbytes // 2 // 8 * 8, operand.nbytes - want.nbytes):
            _into(name, size, 0, start)


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize("name", ["decode", "decode_wide"])
def test_wider_results_may_cover_their_operands(name):
    """Operands at the beginning, one element on, in the middle, at the end."""
    for size in (LANES, 3 * LANES + 5, BUFFER + 1, SHARED_FROM + 4099):
        operand, want = _plain(name, (size,))
        for place in (0, operand.itemsize, want.nbytes // 2 // 8 * 8, want.nbytes - operand.nbytes):
            _into(name, size, place, 0)


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize("name", AS_WIDE)
def test_results_may_take_the_places_of_their_operands(name):
    """In place, whatever the layout: each result exactly where its operand was."""
    _, call = VERBS[name]
    for size, layout in itertools.product((*SIZES, SHARED_FROM + 4099), LINES.values()):
        operand, want = _plain(name, (size,))
        view, memory = lay(operand, **layout)
        call(view, out=view.view(want.dtype))
        assert memory.tobytes() == lay(want.view(operand.dtype), **layout)[1].tobytes(), (size, layout)
    for shape, layout in itertools.product(SHAPES, BOXES.values()):
        operand, want = _plain(name, shape)
        view, memory = lay(operand, **layout(len(shape)))
        call(view, out=view.view(want.dtype))
        assert memory.tobytes() == lay(want.view(operand.dtype), **layout(len(shape)))[1].tobytes(), (
            shape,
            layout,
        )


def test_results_may_take_the_places_of_operands_in_another_byte_order():
    """Every byte of a swapped operand is somewhere else than in the result."""
    for size in SIZES:
        operand, want = _plain("quantize", (size,))
        swapped, memory = lay(operand, swapped=True)
        out = swapped.view(np.float32)
        assert lp.quantize(swapped, "e4m3fn", out=out) is out
        assert memory.tobytes() == lay(want)[1].tobytes()


@pytest.mark.parametrize("name", AS_WIDE)
def test_results_may_be_put_over_their_operands_in_another_order(name):
    """Reversed, transposed, or between: a result may go where an element is that is still to be read."""
    _, call = VERBS[name]
    for size in SIZES:
        operand, want = _plain(name, (size,))
        view = operand.copy()
        call(view, out=view[::-1].view(want.dtype))
        assert view[::-1].tobytes() == want.tobytes()
        wider, _ = lay(operand, steps=(2,))
        both = (
            np.lib.stride_tricks.as_strided(wider, (max(2 * size, 1),), (operand.itemsize,))
            if size
            else wider
        )
        call(both[: 2 * size : 2], out=both[1 : 2 * size : 2].view(want.dtype))
        assert both[1 : 2 * size : 2].tobytes() == want.tobytes()
        assert both[: 2 * size : 2].tobytes() == operand.tobytes()
    for side in (1, 7, LANES + 1, 131):
        operand, want = _plain(name, (side, side))
        view = operand.copy()
        call(view, out=view.T.view(want.dtype))
        assert view.T.tobytes() == want.tobytes()


# -- random integers --------------------------------------------------------------------------------

ROUNDINGS = (lp.stochastic(8), lp.stochastic(5, "B"), lp.stochastic(1, "C"))


def _drawn(values, key=7, rounding=ROUNDINGS[0], **out):
    return lp.encode(values, "e4m3fn", rounding=rounding, rng=key, **out)


def _given(values, random, rounding=ROUNDINGS[0], **out):
    return lp.encode(values, "e4m3fn", rounding=rounding, random=random, **out)


@pytest.mark.parametrize("layout", BOXES.values(), ids=BOXES)
def test_a_key_stands_for_the_same_integers_in_boxes_of_every_layout(layout):
    """Integers go by the place in the array, not in memory; given ones may have any layout and type."""
    for shape in SHAPES:
        values, random = _floats(np.float32)(shape), lp.random_bits(shape, 7, 8)
        want = np.asarray(_given(values, random))
        view, _ = lay(values, **layout(len(shape)))
        assert _same(np.asarray(_drawn(view)), want), shape
        out, memory = lay(np.full_like(want, 77), **layout(len(shape)))
        _drawn(values, out=out)
        assert memory.tobytes() == lay(want, **layout(len(shape)))[1].tobytes(), shape
        for integers in (
            random,
            lay(random, **layout(len(shape)))[0],
            random.astype(">i8"),
            random.astype(np.uint8),
        ):
            assert _same(np.asarray(_given(view, integers)), want), shape
        copy, memory = lay(values, **layout(len(shape)))
        lp.quantize(copy, "e4m3fn", rounding="stochastic(8)", rng=7, out=copy)
        floats = lp.decode(want, "e4m3fn")
        assert memory.tobytes() == lay(np.asarray(floats), **layout(len(shape)))[1].tobytes(), shape


def test_integers_may_lie_where_results_are_put():
    """They are read before anything is written over them."""
    for size in (LANES, 3 * LANES + 5, BUFFER + 1):
        values = _floats(np.float32)((size,))
        random = lp.random_bits(size, 7, 8)
        want = _given(values, random)
        for start in (0, 1, size, 3 * size):
            integers = random.copy()
            out = integers.view(np.uint8)[start : start + size]
            _given(values, integers, out=out)
            assert out.tobytes() == want.tobytes(), (size, start)
            _given(values, random.copy(), out=out[::-1])
            assert out[::-1].tobytes() == want.tobytes(), (size, start)


@pytest.mark.parametrize("start", [0, 1, 2])
def test_flags_may_lie_where_operands_do(start):
    """They are written when every operand was read."""
    size = 2 * BUFFER + LANES + 3
    codes, other = np.random.default_rng(1).integers(0, 256, (2, size), np.uint8)
    room = np.empty(size + 2, np.uint8)
    for verb in (
        lambda x, **flags: lp.cast(x, "e4m3fn", "e5m2", rounding="to_odd", **flags),
        lambda x, **flags: lp.less(other, x, "e4m3fn", **flags),
    ):
        for place, past in ((1, start), (start, 1)):
            signals = np.empty(size, np.uint8)
            want = verb(codes, flags=signals)
            operand, flags = room[place : place + size], room[past : past + size]
            operand[:] = codes
            assert _same(verb(operand, flags=flags), want)
            assert _same(flags, signals)
    values = _floats(np.float32)((size,))
    signals = np.empty(size, np.uint8)
    want = lp.encode(values, "bfloat16", flags=signals)
    for place in (0, size, 3 * size):
        operand = values.copy()
        flags = operand.view(np.uint8)[place : place + size]
        assert _same(lp.encode(operand, "bfloat16", flags=flags), want)
        assert _same(flags, signals)


# -- refusals ---------------------------------------------------------------------------------------

REFUSING = {
    "encode": (np.float32, np.nan, lambda x, **out: lp.encode(x, "e2m1fn", **out), np.uint8),
    "encode_float64": (np.float64, np.nan, lambda x, **out: lp.encode(x, "e2m1fn", **out), np.uint8),
    "encode_drawn": (
        np.float32,
        np.nan,
        lambda x, **out: lp.encode(x, "e2m1fn", rounding="stochastic(8)", rng=1, **out),
        np.uint8,
    ),
    "quantize": (np.float32, np.nan, lambda x, **out: lp.quantize(x, "e2m1fn", **out), np.float32),
    "cast": (np.uint8, 0x7E, lambda x, **out: lp.cast(x, "e5m2", "e2m1fn", **out), np.uint8),
    "cast_wide": (np.uint16, 0x7F81, lambda x, **out: lp.cast(x, "bfloat16", "e2m1fn", **out), np.uint8),
}


@pytest.mark.parametrize("layout", BOXES.values(), ids=BOXES)
@pytest.mark.parametrize("name", REFUSING)
def test_an_out_of_any_layout_is_untouched_where_a_nan_is_refused(name, layout):
    """NaN is the last element, or the middle one too, or each; it is reported at its place in the array."""
    dtype, nan, call, given_as = REFUSING[name]
    for shape in SHAPES:
        size = math.prod(shape)
        for places in {(size - 1,), (size // 2, size - 1), tuple(range(size))} if size else ():
            values = np.ones(shape, dtype)
            values.reshape(-1)[list(places)] = nan
            place = tuple(int(i) for i in np.unravel_index(places[0], shape))
            message = f"{len(set(places)):,} of {size:,} {{}} NaN, the first at index {place}. "
            message = message.format("is" if len(set(places)) == 1 else "are")
            view, read = lay(values, **layout(len(shape)))
            outs = [lay(np.full(shape, 77, given_as), **other(len(shape))) for other in BOXES.values()]
            if view.itemsize == np.dtype(given_as).itemsize:
                outs.append((view.view(given_as), read))
            for out, memory in outs:
                before = memory.tobytes()
                with pytest.raises(ValueError, match="cannot encode NaN") as refused:
                    call(view, out=out)
                assert message in str(refused.value)
                assert memory.tobytes() == before


# -- again ------------------------------------------------------------------------------------------


def test_what_was_right_once_is_looked_at_again():
    """The same arguments with other arrays: what is wrong with those is said, however often."""
    values, codes = np.linspace(-3, 3, 40, dtype=np.float32), np.arange(40, dtype=np.uint8)
    wrong = [
        (lambda x: lp.encode(x, "e2m1fn"), values, np.full(40, np.nan, np.float32), "cannot encode NaN"),
        (lambda x: lp.quantize(x, "e2m1fn"), values, np.full(40, np.nan, np.float32), "cannot encode NaN"),
        (lambda x: lp.cast(x, "e5m2", "e2m1fn"), codes, codes | np.uint8(0x7C), "cannot encode NaN"),
        (lambda x: lp.cast(x, "e3m2fn", "e5m2"), codes, codes + np.uint8(40), "are 0 to 63"),
        (lambda x: lp.decode(x, "e3m2fn"), codes, codes + np.uint8(40), "are 0 to 63"),
        (lambda x: lp.decode(x.astype(np.int64), "e4m3fn"), codes, np.arange(40) - 1, "are 0 to 255"),
    ]
    for call, right, other, message in wrong:
        first = call(right)
        for _ in range(3):
            with pytest.raises(ValueError, match=message):
                call(other)
            again = call(right)
            assert again.tobytes() == first.tobytes()
            assert not np.may_share_memory(again, first)


def test_an_out_that_is_wrong_is_refused_after_one_that_was_right():
    """Of another type, another shape, read-only, repeating elements, or no array."""
    values, codes = np.linspace(-3, 3, 40, dtype=np.float32), np.arange(40, dtype=np.uint8)
    calls = {
        "encode": (lambda out: lp.encode(values, "e4m3fn", out=out), np.uint8),
        "cast": (lambda out: lp.cast(codes, "e4m3fn", "e5m2", out=out), np.uint8),
        "decode": (lambda out: lp.decode(codes, "e4m3fn", out=out), np.float32),
        "quantize": (lambda out: lp.quantize(values, "e4m3fn", out=out), np.float32),
    }
    for name, (call, dtype) in calls.items():
        right = np.zeros(40, dtype)
        frozen = np.zeros(40, dtype)
        frozen.flags.writeable = False
        for _ in range(2):
            assert call(right) is right
            with pytest.raises(TypeError, match="must be a NumPy array"):
                call([0] * 40)
            with pytest.raises(ValueError, match="has shape"):
                call(np.zeros(39, dtype))
            with pytest.raises(ValueError, match="has shape"):
                call(np.zeros((40, 1), dtype))
            with pytest.raises(ValueError, match="is read-only"):
                call(frozen)
            with pytest.raises(ValueError, match="repeats elements"):
                call(np.lib.stride_tricks.as_strided(np.zeros(1, dtype), (40,), (0,)))
            with pytest.raises((TypeError, ValueError), match=r"must be an array of|values are given as"):
                call(np.zeros(40, np.int16))
        assert right.any(), name


@pytest.mark.parametrize("verb", [lp.encode, lp.quantize])
def test_stochastic_rounding_without_integers_is_refused_every_time(verb):
    """It reads an integer for each element: without any there is nothing that it could read."""
    values = np.linspace(-3, 3, 40, dtype=np.float32)
    for _ in range(3):
        with pytest.raises(ValueError, match="needs random= or rng="):
            verb(values, "e4m3fn", rounding="stochastic(8)")


@pytest.mark.parametrize(
    "source", ["binary8p4ue", "binary8p4se", "e5m2", "float8_e4m3", "e5m2fnuz", "e8m0fnu"]
)
def test_nan_codes_of_every_kind_are_refused_before_anything_is_written(source):
    """At the top with a sign or without, where -0 would be, and with no infinity below them."""
    fmt = lp.format(source)
    codes = np.full(100, 1, np.uint8)
    out = np.full(100, 77, np.uint8)
    for _ in range(2):
        assert lp.cast(codes, fmt, "e2m1fn", saturation="finite", out=np.zeros_like(out)).size == 100
        broken = codes.copy()
        broken[70] = fmt.nan_code
        with pytest.raises(ValueError, match=r"1 of 100 is NaN, the first at index \(70,\)"):
            lp.cast(broken, fmt, "e2m1fn", saturation="finite", out=out)
        assert (out == 77).all()


def test_results_that_would_share_bytes_are_refused():
    """Windows that slide, and steps shorter than an element: later results wrote over earlier ones."""
    values, strided = np.linspace(1, 3, 12, dtype=np.float32).reshape(4, 3), np.lib.stride_tricks.as_strided
    windows = np.lib.stride_tricks.sliding_window_view(np.zeros(6, np.uint16), 3, writeable=True)
    halves = strided(np.zeros(40, np.uint8).view(np.uint16), (4, 3), (6, 1))
    for out in (windows, windows[::-1, ::-1], halves):
        with pytest.raises(ValueError, match="out repeats elements in memory, as a view"):
            lp.encode(values, "binary16", out=out)
    flags = np.lib.stride_tricks.sliding_window_view(np.zeros(6, np.uint8), 3, writeable=True)
    with pytest.raises(ValueError, match="flags repeats elements"):
        lp.encode(values, "binary16", flags=flags)


def test_results_between_each_other_are_written():
    """Steps that are no multiples of each other, and share no byte."""
    values = np.linspace(1, 3, 4, dtype=np.float32).reshape(2, 2)
    memory = np.zeros(6, np.uint16)
    out = np.lib.stride_tricks.as_strided(memory, (2, 2), (6, 4))  # at 0, 2, 3 and 5
    wanted = lp.encode(values, "binary16")
    assert lp.encode(values, "binary16", out=out) is out
    assert (out == wanted).all()
    assert memory.tolist() == [wanted[0, 0], 0, wanted[0, 1], wanted[1, 0], 0, wanted[1, 1]]
