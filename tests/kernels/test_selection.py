"""The table of ARCHITECTURE.md that says which program a request gets."""

import dataclasses
import pathlib
import re

import numba
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays import calls
from lowprec.kernels import engine
from lowprec.kernels.compiling import is_worth
from lowprec.kernels.general import operations
from lowprec.kernels.jit import jit
from lowprec.kernels.lower.dot import kept_as
from lowprec.kernels.request import BlockDecoding, BlockEncoding, Dot, Elementwise
from lowprec.kernels.vector.program import Conversion, Operation
from lowprec.spec import catalog, formats
from lowprec.spec.accumulation import begins_in
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import rounding, stochastic

PAGE = (pathlib.Path(__file__).parents[2] / "ARCHITECTURE.md").read_text()
ROWS = re.findall(r"^\| `(\w+\(.*)` \| `kernels/(\w+)/(\w+)\.py` (\w+) \|$", PAGE, re.M)


def format_of(name):
    return formats.carrier(name) or catalog.format(name)


def requested(text):
    """The request that a row spells: operation(operands) to a target, a mode, flags."""
    operation, operands, target, rest = re.fullmatch(r"(\w+)\((.*?)\) to (\w+)(.*)", text).groups()
    modes = [word for word in rest.split(", ") if word not in ("", "flags")]
    if operation == "decode":
        return BlockDecoding(catalog.block_format(operands), False, format_of(target))
    sources = [format_of(name) for name in operands.split(", ")]
    if operation == "dot":
        how = lp.accumulations[target]
        return Dot(how, *sources, kept_as(begins_in(how)[0]))
    if operation == "encode":
        block = catalog.block_format(target)
        return BlockEncoding(sources[0], block, block.tensor_scale != "none")
    drawn = re.match(r"stochastic\((\d+)\)", modes[0]) if modes else None
    mode = stochastic(int(drawn[1])) if drawn else rounding(modes[0]) if modes else rounding("nearest_even")
    rule = Projection(rounding=mode)
    return Elementwise(operation, tuple(sources), format_of(target), rule, flags="flags" in rest)


def test_the_table_is_found():
    assert len(ROWS) > 20


def test_an_operation_without_a_limit_of_bits_is_refused(monkeypatch):
    monkeypatch.setitem(operations.COMPUTE, "square", operations.multiply)
    message = r"^operation 'square' has no limit of bits in serves; add it there$"
    with pytest.raises(ValueError, match=message):
        operations.serves("square", [catalog.BINARY64], catalog.BINARY32, Projection())


@pytest.mark.parametrize(("text", "room", "file", "name"), ROWS)
def test_a_request_gets_the_program_that_the_table_names(text, room, file, name):
    program = type(engine.lower(requested(text)))
    assert (program.__module__, program.__qualname__) == (f"lowprec.kernels.{room}.{file}", name)


@pytest.mark.parametrize(
    "texts",
    [
        ("convert(binary32) to e4m3fn", "convert(binary32) to bfloat16", "convert(binary32) to e5m2, to_odd"),
        ("multiply(binary32, binary32) to e4m3fn", "multiply(bfloat16, e5m2) to e4m3fn"),
        ("encode(binary32) to mxfp4", "encode(bfloat16) to mxfp8_e5m2"),
        ("decode(mxfp4) to binary32", "decode(mxfp8_e5m2) to binary32"),
    ],
)
def test_few_results_share_a_kernel_and_many_have_their_own(texts):
    few, many = zip(*[engine.lower_by("vector", requested(text)).kernels for text in texts], strict=True)
    assert len(set(few)) == 1
    assert len(set(many)) > 1


@pytest.mark.parametrize(("rows", "own"), [(engine.MANY // 32 - 1, 0), (engine.MANY // 32, 1)])
def test_the_size_of_results_decides(monkeypatch, rows, own):
    """Of conversions, operations, blocks and their values."""
    calls._known.clear()  # these hold programs that the engine may have forgotten
    engine._with_table.cache_clear()
    engine.lower_by.cache_clear()
    x = np.ones((rows, 32), np.float32)
    blocks = lp.encode(x, "mxfp4")
    for text, call in (
        ("convert(binary32) to e4m3fn", lambda: lp.encode(x, "e4m3fn")),
        ("add(binary32, binary32) to bfloat16", lambda: lp.add(x, x, "bfloat16")),
        ("encode(binary32) to mxfp4", lambda: lp.encode(x, "mxfp4")),
        ("decode(mxfp4) to binary32", lambda: blocks.values()),
    ):
        request, taken = requested(text), []
        if text.startswith("add"):
            request = dataclasses.replace(request, carrier=catalog.BINARY32)
        way = engine.lower_by("vector", request)

        def recorded(place, kernel, taken=taken):
            return lambda *given: taken.append(place) or kernel(*given)

        monkeypatch.setattr(way, "kernels", tuple(recorded(*each) for each in enumerate(way.kernels)))
        call()
        assert taken == [own], text


def test_large_arrays_are_done_by_kernels_of_many(monkeypatch):
    """Nine tenths at least: strided and broadcast ones, with flags, and of numbers that are narrowed."""
    sizes = []
    for kind in (Conversion, Operation):

        def run(self, operands, out, *others, kind_run=kind.run):
            sizes.append(out.size)
            return kind_run(self, operands, out, *others)

        monkeypatch.setattr(kind, "run", run)
    x = np.random.default_rng(0).standard_normal((1000, 200)).astype(np.float32)
    large = (
        lambda: lp.encode(x[:, ::2], "e4m3fn"),
        lambda: lp.encode(x.T, "e4m3fn", flags=np.zeros(x.T.shape, np.uint8)),
        lambda: lp.add(x, x, "e4m3fn", flags=np.zeros(x.shape, np.uint8)),
        lambda: lp.add(x.astype(np.float64), x, "bfloat16"),
        lambda: lp.add(x, x[:1], "e4m3fn"),
    )
    for call in large:
        sizes.clear()
        call()
        assert len(sizes) > 1
        assert sum(size for size in sizes if size >= engine.MANY) > 0.9 * sum(sizes), sizes


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_a_kernel_of_its_own_is_compiled_once_that_pays(monkeypatch):
    """Take it for many results once it is at hand, and never for few."""
    kernel = jit(lambda x: x, "paying")
    kernel._cache.is_kept = lambda: False
    monkeypatch.setattr(engine, "PAYS", 3 * engine.MANY)
    assert [is_worth(kernel, engine.MANY) for _ in range(4)] == [False, False, False, True]
    assert not is_worth(kernel, engine.MANY - 1)
    other = jit(lambda x: x, "paying_other")
    other._cache.is_kept = lambda: False
    assert not is_worth(other, engine.MANY)
    other(1)
    assert is_worth(other, engine.MANY)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_a_kernel_on_disk_is_at_hand(monkeypatch, tmp_path):
    """Look at a folder once."""
    monkeypatch.setenv("LOWPREC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(engine, "PAYS", 3 * engine.MANY)
    jit(lambda x: x, "kept_on_disk")(1)
    assert is_worth(jit(lambda x: x, "kept_on_disk"), engine.MANY)
    assert not is_worth(jit(lambda x: x, "not_on_disk"), engine.MANY)
