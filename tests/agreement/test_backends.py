"""Engines by their names: what they refuse, and in which words; tables, the memo, and signs of NaNs."""

import logging
import re
import sys
import types

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays import calls
from lowprec.kernels import engine
from lowprec.kernels.request import CONVERT, BlockDecoding, BlockEncoding, Dot, Elementwise
from lowprec.kernels.table.program import Table
from lowprec.spec import catalog
from lowprec.spec.accumulations import accumulation
from lowprec.spec.projection import Projection

SINGLES = np.float32([0, -0.0, 1, -1.0625, 464, 3e38, np.inf, np.nan])
BYTES = np.arange(256, dtype=np.uint8)


def bits(array):
    """Elements as unsigned integers."""
    return np.asarray(array).view(f"u{np.asarray(array).itemsize}")


def test_a_table_is_made_for_long_arrays_and_gives_what_the_scalar_engine_gives():
    """A short array does not pay for one; operands of one element go with all."""
    request = Elementwise(
        "remainder", (catalog.E4M3FN, catalog.E5M2), catalog.E4M3FN, Projection(), None, True
    )
    program = engine.lower(request)
    assert type(program).__module__ == engine.ENGINES["table"]
    rng = np.random.default_rng(1)
    for size in (9, 1 << 16):
        x, y = rng.integers(0, 256, size, np.uint8), rng.integers(0, 256, size, np.uint8)
        for operands in ([x, y], [x[:1], y], [x, y[:1]]):
            results = []
            for each in (program, engine.lower(Elementwise(*_fields(request), backend="scalar"))):
                out, flags = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
                assert each.run(operands, out, flags, np.empty(0, np.uint32)) == engine.DONE
                results.append((out.tolist(), flags.tolist()))
            assert results[0] == results[1]
    assert program._tables is not None


def _fields(request):
    return (
        request.operation,
        request.sources,
        request.target,
        request.projection,
        request.carrier,
        request.flags,
    )


def test_an_engine_that_does_not_serve_a_request_is_refused():
    """By what it serves, and which do."""
    message = (
        "backend='table' does not serve this request: it takes one operand of at most 16 bits or two of at "
        "most 8, or values into codebooks without flags, and no random integers; use 'scalar' or 'oracle', "
        "which serves it, or leave backend out"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        lp.encode(SINGLES, "e4m3fn", backend="table")
    with pytest.raises(ValueError, match=r"^backend='vector' does not serve this request: "):
        lp.encode(SINGLES, "posit8", backend="vector")
    for backend in ("vector", "oracle"):
        with pytest.raises(ValueError, match=r"; use 'scalar', which serves it, or leave backend out$"):
            lp.exp(SINGLES, "e4m3fn", backend=backend)
    names = "'vector', 'table', 'scalar', 'oracle'"
    message = f"unknown backend 'fast'; use one of {names}, or None for the fastest that is exact"
    for call in (
        lambda: lp.encode(SINGLES, "e4m3fn", backend="fast"),
        lambda: lp.decode(BYTES, "e4m3fn", backend="fast"),
        lambda: lp.add(SINGLES, SINGLES, "e4m3fn", backend="fast"),
        lambda: lp.matmul(SINGLES, SINGLES, "exact", backend="fast"),
        lambda: lp.decode(lp.encode(SINGLES[:3], "mxfp4"), backend="fast"),
        lambda: lp.encode(SINGLES[:3], "mxfp4", backend="fast"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            call()


@pytest.mark.apart
def test_refusals_read_the_same_on_every_engine():
    """Operands are named as they were given, and by the element at fault."""
    x, y = np.array([[1, 2], [3, 0]]), np.array([[1, 2], [3, 0]])
    calls = (
        lambda backend: lp.encode(np.float32([1, np.nan, np.nan]), "e2m1fn", backend=backend),
        lambda backend: lp.divide(x, y, "e2m1fn", backend=backend),
        lambda backend: lp.encode(
            np.float32([1, np.nan]),
            lp.BlockFormat(
                name="mine", element=catalog.E2M1FN, scale=catalog.E8M0FNU, size=2, nan="elements"
            ),
            backend=backend,
        ),
        lambda backend: lp.encode(
            np.float32([1, np.nan]),
            lp.BlockFormat(name="mine", element=catalog.E4M3FN, scale=catalog.E2M3FN, size=2),
            backend=backend,
        ),
    )
    starts = (
        "cannot encode NaN values as 'e2m1fn', which has no NaN code: 2 of 3 are NaN, the first at index "
        "(1,).",
        "divide of 0, 0 at index (1, 1) has a result that 'e2m1fn' has no code for, which has no NaN code.",
        "cannot encode the value nan at index (1,) as an element of 'mine': 'e2m1fn' has no code for it.",
        "cannot encode NaN or infinite values in blocks of 'mine', whose scales ('e2m3fn') have no NaN code;",
    )
    for call, start in zip(calls, starts, strict=True):
        for backend in (None, "scalar", "oracle"):
            with pytest.raises(ValueError, match=f"^{re.escape(start)}"):
                call(backend)


def test_a_large_call_is_answered_from_the_memo_too():
    """In threads, with the random integers of places, and to memory of one's own."""
    x = np.linspace(-500, 500, (1 << 19) + 5, dtype=np.float32)
    for options in ({}, {"rounding": "stochastic(8)", "rng": 3}):
        want = lp.encode(x, "e4m3fn", backend="scalar", **options)
        for out in (None, np.empty(x.shape, np.uint8)):
            for _ in range(2):
                assert (lp.encode(x, "e4m3fn", out=out, **options) == want).all()
    assert (bits(lp.add(x, x, "e5m2")) == bits(lp.add(x, x, "e5m2", backend="scalar"))).all()
    assert (bits(lp.add(x, x, "e5m2")) == bits(lp.add(x, x, "e5m2", backend="scalar"))).all()


def test_requests_are_equal_by_value_and_cannot_be_changed():
    """So that a program is lowered once; what is no request is refused."""
    one, other = (
        Elementwise(CONVERT, (catalog.BINARY32,), lp.format(name), Projection()) for name in ("e5m2", "E5M2")
    )
    assert one == other
    assert hash(one) == hash(other)
    assert engine.lower(one) is engine.lower(other)
    assert one != Elementwise(CONVERT, (catalog.BINARY32,), lp.format("e5m2"), Projection(), backend="scalar")
    with pytest.raises(AttributeError):
        one.flags = True
    with pytest.raises(ValueError, match=r"^add takes 2 operands, not 1$"):
        Elementwise("add", (catalog.BINARY32,), catalog.E5M2, Projection())
    with pytest.raises(ValueError, match=r"^unknown operation 'plus'"):
        Elementwise("plus", (catalog.BINARY32,) * 2, catalog.E5M2, Projection())
    assert hash(BlockEncoding(catalog.BINARY32, catalog.block_format("mxfp4"), False)) is not None
    assert hash(BlockDecoding(catalog.block_format("mxfp4"), False, catalog.BINARY32)) is not None
    assert hash(Dot(accumulation("exact"), catalog.E5M2, catalog.E5M2, catalog.BINARY32)) is not None


def test_an_engine_is_a_module_with_a_name(monkeypatch, caplog):
    """One that only logs, and leaves every request to the next: nothing else is touched."""

    def lower(request):
        logging.getLogger("lowprec").warning("asked for %s", request.operation)

    module = types.SimpleNamespace(lower=lower, SERVES="nothing")
    monkeypatch.setitem(sys.modules, "an_engine_that_logs", module)
    monkeypatch.setattr(engine, "ENGINES", {"log": "an_engine_that_logs", **engine.ENGINES})
    monkeypatch.setattr(calls, "_known", {})
    engine.lower_by.cache_clear()
    request = Elementwise(CONVERT, (catalog.BINARY32,), catalog.E3M4, Projection())
    assert type(engine.lower(request)).__module__ == engine.ENGINES["vector"]
    assert caplog.messages == ["asked for convert"]
    for x, target in ((np.float32([1]), "e3m4"), (np.float64([0.1]), "e4m3fn"), (np.array([3]), "e5m2")):
        caplog.clear()
        lp.add(x, x, target)
        assert set(caplog.messages) == {"asked for add"}, target
    with pytest.raises(
        ValueError, match=r"^backend='log' does not serve this request: it takes nothing; use 'scalar'"
    ):
        lp.encode([1.0], "e3m4", backend="log")
    engine.lower_by.cache_clear()


@pytest.mark.apart
@pytest.mark.parametrize("backend", [None, "scalar", "oracle"])
def test_sign_operations_take_a_nan_with_another_sign_and_signal_nothing(backend):
    """Quiet and signaling ones of both signs; the sign of a NaN counts for copysign."""
    nans, ones = np.uint16([0x7E00, 0xFE00, 0x7C01, 0xFC01]).view(np.float16), np.float16([1, 1, 1, 1])
    plain, unsigned, kept = Projection(), Projection(nan_sign="drop"), Projection(nan_payload="first")
    for operation, operands, rule, want in (
        ("negative", [nans], plain, [0xFE00, 0x7E00, 0xFE00, 0x7E00]),
        ("negative", [nans], unsigned, [0x7E00] * 4),
        ("negative", [nans], kept, [0xFE00, 0x7E00, 0xFE01, 0x7E01]),
        ("absolute", [nans], plain, [0x7E00] * 4),
        ("absolute", [nans], kept, [0x7E00, 0x7E00, 0x7E01, 0x7E01]),
        ("copysign", [nans, -ones], plain, [0xFE00] * 4),
        ("copysign", [ones, nans], plain, [0x3C00, 0xBC00, 0x3C00, 0xBC00]),
    ):
        flags = np.full(4, 255, np.uint8)
        got = getattr(lp, operation)(
            *operands, "binary16", projection=rule, flags=flags, backend=backend, dtype=np.uint16
        )
        assert (got.tolist(), flags.tolist()) == (want, [0] * 4), (operation, rule)
    typed = np.uint8([0x80]).view(ml_dtypes.float8_e4m3fnuz)  # NaN, without a sign
    assert lp.negative(typed, "binary16", dtype=np.uint16, backend=backend).tolist() == [0xFE00]
    assert lp.negative(nans, "e4m3fnuz", dtype=np.uint8, backend=backend).tolist() == [0x80] * 4


@pytest.mark.parametrize(
    ("verb", "operands", "flagged"), [("add", 2, True), ("add", 2, False), ("sqrt", 1, False)]
)
def test_tables_overtake_vectors_and_change_nothing(verb, operands, flagged, monkeypatch):
    """Once so many elements were asked for that a table pays; whichever operand is one for all."""
    made_by_tables = []
    make = Table._made
    monkeypatch.setattr(Table, "_made", lambda self: made_by_tables.append(self) or make(self))
    fmt, size = ("e3m4", 1 << 14) if operands == 2 else ("binary16", 1 << 16)
    rng = np.random.default_rng(operands)
    codes = rng.integers(0, 1 << lp.format(fmt).width, (operands, size))
    values = [lp.decode(each.astype(lp.encode([0.0], fmt).dtype), fmt) for each in codes]
    values = [each.astype(lp.dtype(fmt)) for each in values]
    given = [values, *([[values[0], values[1][:1]], [values[0][:1], values[1]]] if operands == 2 else [])]
    for chosen in given:
        signals = np.zeros(size, np.uint8) if flagged else None
        want_signals = np.zeros(size, np.uint8) if flagged else None
        shape = np.broadcast_shapes(*(each.shape for each in chosen))
        want = getattr(lp, verb)(
            *chosen,
            "e4m3fn",
            rounding="toward_positive",
            backend="scalar",
            dtype=np.uint8,
            flags=want_signals,
        )
        for _ in range(1 + (20 << 16) // size):
            made = getattr(lp, verb)(
                *chosen, "e4m3fn", rounding="toward_positive", dtype=np.uint8, flags=signals
            )
            assert made.shape == shape
            np.testing.assert_array_equal(made, want)
            np.testing.assert_array_equal(signals, want_signals)
    assert made_by_tables
