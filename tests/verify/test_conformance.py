"""A conformance run must find what is planted, name its kind, and accept nothing it does not know."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec import catalog
from lowprec.verify.conform import conformance
from lowprec.verify.conform.conformance import compare, flushing, known_divergences, run
from lowprec.verify.frameworks import FRAMEWORKS, Framework
from lowprec.verify.frameworks.tasks import Arithmetic, Blocks, Cast
from lowprec.verify.inputs import conversions
from lowprec.verify.reference.operations import OPERATIONS
from tests.programs import need_framework

E4M3FN = catalog.E4M3FN


def subject(cast, sources=("float32", "float64")):
    """A framework made of one function."""
    return Framework("planted", "lowprec", "", sources, lambda: (E4M3FN,), cast)


def kinds(cast, source, target=E4M3FN):
    (row,) = run(
        [dataclasses.replace(subject(cast), targets=lambda: (target,))], sources=[source], samples=1000
    )
    return {finding.kind: finding for finding in row.findings}


def test_a_right_cast_has_no_findings():
    """The reference agrees with itself on every case."""
    assert kinds(lp.encode, "float64") == {}


def test_a_cast_that_writes_on_its_operands_is_held_against_what_they_were():
    """One that clips in place would else pass."""

    def clipped(x, fmt):
        np.clip(x, -448, 448, out=x)
        return lp.encode(x, fmt)

    assert (
        kinds(clipped, "float32")["overflow"].smallest["value"] == float.fromhex("0x1.d000020000000p+8").hex()
    )


def test_ties_away_are_found_as_ties_and_nothing_else():
    """The classic wrong rounding; the smallest is half the smallest subnormal."""
    found = kinds(lambda x, fmt: lp.encode(x, fmt, rounding="nearest_away"), "float32")
    assert set(found) == {"tie"}
    assert found["tie"].smallest["value"] == (2.0**-10).hex()
    assert got_and_want(found["tie"]) == ("0x01", "0x00")


def test_saturation_is_found_as_overflow():
    """464 is a tie and goes to 448 either way; everything above differs."""
    found = kinds(lambda x, fmt: lp.encode(x, fmt, saturation="finite"), "float32")
    assert set(found) == {"overflow"}
    assert float.fromhex(found["overflow"].smallest["value"]) == np.nextafter(
        np.float32(464), np.float32(np.inf)
    )


def test_rounding_to_binary32_first_is_found_as_double_rounding():
    """The bug of casts from float64 in several libraries."""

    def twice(x, fmt):
        return lp.encode(lp.quantize(x, "binary32"), fmt)

    found = kinds(twice, "float64")
    assert set(found) == {"double rounding"}
    assert found["double rounding"].smallest["operand"] == "0x3f50000000000001"


def test_flushed_subnormals_dropped_nan_signs_and_lost_signs_of_zero_are_told_apart():
    """Three bugs at once, three kinds."""

    def flush(x, fmt):
        codes = lp.encode(x, fmt)
        codes[(codes & 0x7F) < 8] &= 0x80  # subnormal results
        codes[x.view(np.uint32) << 1 == 0] = 0  # == would take a subnormal for 0 where the process flushes
        codes[np.isnan(x)] = 0x7F
        return codes

    found = kinds(flush, "float32")
    assert {"NaN", "zero", "subnormal result"} <= set(found) <= {"NaN", "zero", "subnormal result", "tie"}
    assert found["zero"].smallest["operand"] == "0x80000000"
    assert float.fromhex(found["subnormal result"].smallest["value"]) < 2.0**-6


def test_a_wrong_code_in_the_middle_is_other():
    """No hypothesis explains it, so it can never be a known divergence."""

    def slip(x, fmt):
        codes = lp.encode(x, fmt)
        codes[codes == 0x40] = 0x41
        return codes

    assert "other" in kinds(slip, "float32")


def test_a_directed_rounding_is_found_as_a_direction():
    """ONNX's default for e8m0fnu is round up; a neighbour is one thing, a code further off another."""
    found = kinds(lambda x, fmt: lp.encode(x, fmt, rounding="away_from_zero", saturation="finite"), "float32")
    assert set(found) == {"direction", "overflow", "subnormal operand", "subnormal result", "tie"}
    assert float.fromhex(found["direction"].smallest["value"]) == np.nextafter(
        np.float32(2.0**-6), np.float32(1)
    )


def test_negative_values_of_unsigned_formats_have_their_own_kind():
    """Some libraries drop the sign."""

    def drop(x, fmt):
        return lp.encode(x, fmt, projection=lp.Projection(negative="drop_sign"))

    assert "negative" in kinds(drop, "float32", catalog.UE4M3)


@pytest.fixture(scope="module")
def rows():
    """The standard run, with fewer random inputs."""
    installed = [framework for framework in FRAMEWORKS.values() if framework.version is not None]
    return list(run(installed, samples=1 << 14, known=known_divergences()))


@pytest.mark.apart
def test_the_installed_frameworks_differ_only_as_the_reviewed_file_says(rows):
    """`lowprec conform` exits 0 for it."""
    assert [row for row in rows if row.unexplained] == []
    installed = {name for name, framework in FRAMEWORKS.items() if framework.version is not None}
    assert {row.framework for row in rows} == installed >= {"ml_dtypes", "numpy"}
    assert sum(row.tried for row in rows) > 4 * 10**6


#: What docs and talks mention, by framework: operation, source, target, kind.
PROMISED = {
    "ml_dtypes": [
        ("cast", "float64", "e4m3fn", "double rounding"),
        ("cast", "float64", "bfloat16", "double rounding"),
        ("cast", "int64", "bfloat16", "double rounding"),
        ("cast", "float32", "e8m0fnu", "tie"),
        ("cast", "float32", "e8m0fnu", "subnormal operand"),
        ("cast", "float64", "bfloat16", "flush"),
    ],
    "numpy": [("cast", "float64", "binary32", "flush")],
    "torch": [
        ("cast", "float64", "bfloat16", "place"),
        ("cast", "float32", "bfloat16", "strided view"),
        ("cast", "float16", "e5m2", "NaN"),
        ("cast", "float32", "e8m0fnu", "negative"),
        ("cast", "float32", "e8m0fnu", "zero"),
        ("cast", "float32", "e4m3fn", "overflow"),
    ],
    "onnx": [("cast", "float32", "e8m0fnu", "subnormal operand"), ("cast", "float32", "e5m2", "overflow")],
    "pychop": [("cast", "float32", "e4m3fn", "top binade")],
    "gfloat_scalar_ties_away": [("cast", "float64", "e4m3fn", "subnormal result")],
    "qtorch": [("cast", "float32", "e4m3fn", "tie")],
    "torchao_rceil": [("blocks", "float32", "mxfp4", "scale")],
    "torchao_nvfp4": [
        ("blocks", "float32", "nvfp4", "element"),
        ("blocks", "float32", "nvfp4", "zero block"),
    ],
    "tvm": [("cast", "float32", "e4m3fn", "overflow"), ("cast", "float32", "e5m2", "sign of zero")],
    "iree": [
        ("cast", "float32", "binary16", "subnormal result"),
        ("cast", "float32", "e8m0fnu", "direction"),
    ],
    "triton": [("cast", "float32", "bfloat16", "direction"), ("cast", "float32", "e4m3fn", "power of two")],
}


@pytest.mark.apart
@pytest.mark.parametrize("name", PROMISED)
def test_the_differences_that_people_should_know_are_listed(name, rows):
    """By the run itself, without being told where to look."""
    need_framework(name)
    if any(kind == "flush" for *_, kind in PROMISED[name]):
        need_framework("torch")
    found = {
        (row.operation, row.source, row.target, finding.kind)
        for row in rows
        for finding in row.findings
        if row.framework == name
    }
    assert set(PROMISED[name]) <= found


def codes(name, values, fmt):
    need_framework(name)
    return FRAMEWORKS[name].cast(np.asarray(values), catalog.format(fmt)).tolist()


def test_single_inputs_give_what_the_design_says():
    """Some of them, each by its number."""
    assert codes("ml_dtypes", np.array([16973823]), "bfloat16") == [0x4B82]  # 17039360; 16908288 is nearer
    assert lp.encode([16973823], "bfloat16").tolist() == [0x4B81]
    assert codes("gfloat_scalar_ties_away", [np.nextafter(2.0**-10, 0)], "e4m3fn") == [1]
    assert codes("gfloat_ties_away", [np.nextafter(2.0**-10, 0)], "e4m3fn") == [0]
    assert codes("pychop", np.array([448, 240], np.float32), "e4m3fn") == [0.0, 240.0]
    assert codes("qtorch", np.array([1.0625], np.float32), "e4m3fn") == [1.125]
    assert codes("onnx", np.array([2.0**-127, 2.0**-149], np.float32), "e8m0fnu") == [1, 1]


@pytest.mark.parametrize(
    ("name", "value", "fmt", "code", "right"),
    [
        ("tvm", 496, "e4m3fn", 0x80, 0x7F),  # 2**9 after rounding: the exponent's upper bit becomes the sign
        ("tvm", 1.5 * 2.0**-9, "e4m3fn", 0x00, 0x02),  # no subnormals
        ("tvm", 2.0**-7, "e4m3fn", 0x00, 0x04),  # the exponent field 0, and the significand not shifted
        ("tvm", -1, "e8m0fnu", 0x7F, 0xFF),  # the exponent field without the sign
        ("iree", 1.75 * 2.0**-15, "e5m2", 0x00, 0x04),  # rounds up to the smallest normal: the carry is lost
        ("iree", -464.5, "e4m3fn", 0xFF, 0xFF),  # its significand rounds to that of the NaN
        ("iree", -512, "e4m3fn", 0x7F, 0xFF),  # beyond the largest exponent: a NaN without a sign
        ("iree", 1.75, "e8m0fnu", 0x7F, 0x80),  # the exponent field, not rounded
        ("iree", 2.0**-15, "binary16", 0x0000, 0x0200),  # no subnormals
        (
            "triton",
            1.9375 * 2.0**-6,
            "e4m3fn",
            0x08,
            0x10,
        ),  # 2**-5, whose carry is lost beside an odd exponent
        ("triton", 1.9375 * 2.0**-5, "e4m3fn", 0x18, 0x18),  # 2**-4, which an even exponent takes
        ("triton", 1.0625, "e4m3fn", 0x39, 0x38),  # ties away from zero
        ("triton", 1.99999, "bfloat16", 0x3FFF, 0x4000),  # cut off
        ("triton", 3 * 2.0**-149, "e5m2", 0x02, 0x00),  # the significand without its leading bit
    ],
)
def test_compilers_convert_as_their_sources_say(name, value, fmt, code, right):
    """Each case follows from the source that the reason in the reviewed list is about."""
    assert codes(name, np.array([value], np.float32), fmt) == [code]
    assert lp.encode(np.float32(value), fmt) == right


@pytest.mark.apart
def test_a_result_rounded_up_to_a_power_of_two_has_its_own_kind():
    """A carry that is joined to the exponent with or: half of what it should be, where that is odd."""

    def joined(x, fmt):
        codes, below = lp.encode(x, fmt), lp.encode(x, fmt, rounding="toward_zero")
        carried = (codes != below) & (codes & 7 == 0) & (below & 8 != 0) & (codes & 0x7F < 0x7F)
        return np.where(carried, below & 0xF8, codes)

    found = kinds(joined, "float32")
    assert set(found) == {"power of two"}
    assert got_and_want(found["power of two"]) == ("0x08", "0x10")


def test_apytypes_rounds_what_is_just_below_the_smallest_normal():
    """All 8-bit exponents and precisions: release 0.5.1 does not make it zero, as older ones are said to."""
    need_framework("apytypes")
    for exponent_bits in range(2, 9):
        for trailing_bits in range(1, 24):
            fmt = lp.Format(
                name="like IEEE 754's",
                exponent_bits=exponent_bits,
                trailing_bits=trailing_bits,
                bias=(1 << (exponent_bits - 1)) - 1,
                nans=(1 << trailing_bits) - 1,
                infinity=True,
            )
            below = fmt.min_normal * (1 - 2.0 ** -np.arange(1.0, 54))
            assert FRAMEWORKS["apytypes"].cast(below, fmt).tolist() == lp.encode(below, fmt).tolist()


@pytest.mark.apart
@pytest.mark.parametrize("fmt", ["e5m2", "e4m3fn", "e4m3fnuz", "e5m2fnuz"])
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
def test_the_8_bit_nans_of_torch_do_not_depend_on_the_length(source, fmt):
    """bfloat16's do, see above; release 2.13 makes one 8-bit code of a NaN, in arrays up to 130 elements."""
    need_framework("torch")
    nans = np.array([np.nan, -np.nan]).astype(conversions.SOURCES[source])
    for nan in nans:
        seen = {code for size in range(1, 131) for code in codes("torch", np.full(size, nan), fmt)}
        assert len(seen) == 1


# -- place, flushing, arithmetic and blocks: each check finds what is planted ---------------------------


def test_a_code_that_depends_on_the_place_is_found():
    """Vectors of eight and a scalar rest that treat NaN in another way."""

    def lanes(x, fmt):
        made = lp.encode(x, fmt)
        rest = made[made.size // 8 * 8 :]
        rest[np.isnan(x[made.size // 8 * 8 :])] = 0x7F
        return made

    found = kinds(lanes, "float32")
    assert found["place"].smallest["got"] == "0x7f or 0xff"
    assert found["place"].smallest["want"] == "0xff"


def test_a_code_that_depends_on_the_stride_is_found():
    """What comes in every other element is cast by other code."""

    def strided(x, fmt):
        return lp.encode(x, fmt, projection=lp.Projection(nan_sign="keep" if x.strides == (4,) else "drop"))

    found = kinds(strided, "float32")
    assert set(found) == {"strided view"}
    assert got_and_want(found["strided view"]) == (
        "0xff, strided 0x7f",
        "0xff",
    )


def test_a_code_that_depends_on_place_and_stride_is_found_as_both():
    """NaN has one code alone, another among others and a third in a strided view."""

    def cast(x, fmt):
        codes = lp.encode(x, fmt)
        codes[np.isnan(x)] = 0x01 if x.strides != (4,) else 0x02 if x.size > 1 else 0x03
        return codes

    found = kinds(cast, "float32")
    assert found["place"].smallest["got"] == "0x02 or 0x03"
    assert found["strided view"].smallest["got"] == "0x03, strided 0x01"
    assert found["strided view"].count == found["place"].count


def test_a_cast_that_the_flushing_of_the_process_changes_is_found():
    """Multiplied by one, a subnormal is zero where the process flushes; and afterwards it does not flush."""
    need_framework("torch")

    def product(x, fmt):
        with np.errstate(all="ignore"):
            return lp.encode(x * x.dtype.type(1), fmt)

    found = kinds(product, "float32", catalog.BFLOAT16)
    assert set(found) == {"flush"}
    assert got_and_want(found["flush"]) == ("0x0001, flushed 0x0000", "0x0001")
    assert np.array([1], np.uint32).view(np.float32)[0] * np.float32(1) > 0


def test_a_code_that_flushing_makes_right_is_shown_with_the_wrong_one():
    """No subnormal is too small for code 1, unless it was flushed: then got and want must not be equal."""
    need_framework("torch")

    def at_least_one(x, fmt):
        with np.errstate(all="ignore"):
            kept = (x * x.dtype.type(1)).view(np.uint32) << 1 != 0
        codes = lp.encode(x, fmt)
        codes[kept & (codes == 0)] = 1
        return codes

    found = kinds(at_least_one, "float32", catalog.BFLOAT16)
    assert got_and_want(found["flush"]) == ("0x0001, flushed 0x0000", "0x0000")


def test_the_reference_does_not_depend_on_flushing():
    """Its kernels read bits."""
    need_framework("torch")
    values = conversions.inputs(catalog.BFLOAT16, "float64")
    before = lp.encode(values, "bfloat16")
    with flushing() as flushes:
        if not flushes:
            pytest.skip("torch cannot set flush-to-zero on this processor")
        assert lp.encode(values, "bfloat16").tolist() == before.tolist()


THREADS = """
import numpy as np, torch
from lowprec.verify.conform.conformance import flushing
torch.set_num_threads(3)
small = torch.from_numpy(np.full(1 << 20, 1e-40, np.float32))
zeros = lambda: int(((small * 1.0).numpy() == 0).sum())
with flushing() as flushes:
    assert not flushes or zeros() > 0
assert zeros() == 0
"""


def test_threads_of_torch_that_begin_while_it_flushes_do_not_go_on_flushing():
    """Threads keep the mode in which they began; in a process that has none of them yet."""
    need_framework("torch")
    subprocess.run([sys.executable, "-W", "error", "-c", THREADS], check=True)


def operates(function, operation="multiply", fmt=E4M3FN):
    """The findings of a planted operation."""
    task = Arithmetic(operation, fmt)
    framework = dataclasses.replace(subject(None), targets=tuple, others=lambda: {task: function})
    (row,) = run([framework])
    assert (row.operation, row.source, row.target) == (operation, fmt.name, fmt.name)
    return {finding.kind: finding for finding in row.findings}


def reference(operation="multiply", fmt=E4M3FN, **options):
    rules, formats = lp.Projection(**options), (fmt,) * (OPERATIONS[operation].operands + 1)
    return lambda *operands: OPERATIONS[operation].compute(list(operands), formats, rules)


@pytest.mark.apart
def test_operations_are_told_apart_by_their_exact_results():
    """Rounding, saturation, signs of NaN; and what goes through a narrower format."""
    assert operates(reference()) == {}
    away = operates(reference(rounding="nearest_away"))
    assert set(away) == {"tie"}
    assert away["tie"].smallest["operand"] == "0x10 0x10"  # 2**-5 times itself
    assert set(operates(reference(saturation="finite"))) == {"overflow"}
    assert set(operates(reference(nan_sign="drop"))) == {"NaN"}

    def negative_nan(x, y):
        made = reference("divide")(x, y)
        made[(x & 0x7F == 0) & (y & 0x7F == 0)] = 0xFF
        return made

    assert set(operates(negative_nan, "divide")) == {"invalid"}
    assert set(operates(reference("sqrt", rounding="toward_zero"), "sqrt")) == {"direction"}

    def slip(x, y):
        made = reference("add")(x, y)
        made[(x == 0x38) & (y == 0x38)] = 0x12
        return made

    assert set(operates(slip, "add")) == {"other"}


def test_an_operation_rounded_in_binary32_first_is_found():
    """Of binary16 it never is wrong; of tf32 with twenty-four bits it is."""
    wide = lp.Format(
        name="wide", exponent_bits=8, trailing_bits=20, bias=127, nans=(1 << 20) - 1, infinity=True
    )
    found = operates(reference("multiply", wide, via=(catalog.BINARY32,)), "multiply", wide)
    assert set(found) == {"double rounding"}


BLOCKS = Blocks("float32", catalog.MXFP4)


def blocks_of(task=BLOCKS, **options):
    """A planted encoding of blocks, as many times as there are scales of tensors."""

    def encoded(blocks, *scales):
        made = np.empty((len(blocks), 1 + blocks.shape[1]), np.uint8)
        for scale in np.unique(scales[0]) if scales else [None]:
            here = np.ones(len(blocks), bool) if scale is None else scales[0] == scale
            part = lp.encode(blocks[here], task.target, axis=-1, tensor_scale=scale, **options)
            made[here] = np.concatenate([part.scales.reshape(-1, 1), part.codes], axis=1)
        return made

    return encoded


def block_kinds(function, task=BLOCKS):
    framework = dataclasses.replace(subject(None), targets=tuple, others=lambda: {task: function})
    (row,) = run([framework])
    return {finding.kind: finding for finding in row.findings}


@pytest.mark.apart
def test_scales_and_elements_of_blocks_are_told_apart():
    """The smallest block has a single number where one is enough."""
    assert block_kinds(blocks_of()) == {}
    scales = block_kinds(blocks_of(rule="ceil"))
    assert set(scales) == {"scale"}
    assert scales["scale"].smallest["operand"].endswith(" 0x00000000*31")
    assert "element" in block_kinds(blocks_of(profile="microxcaling"))
    assert {"special block"} <= set(block_kinds(blocks_of(profile="torchao_floor")))


@pytest.mark.apart
def test_zero_blocks_have_their_own_kind():
    """Another scale code for nothing."""

    def one(*operands):
        made = blocks_of()(*operands)
        made[(operands[0].view(np.uint32) << 1 == 0).all(axis=-1), 0] = 0x7F
        return made

    found = block_kinds(one)
    assert set(found) == {"zero block"}
    assert got_and_want(found["zero block"]) == ("0x7f: 0x0*32", "0x00: 0x0*32")


@pytest.mark.apart
def test_blocks_with_a_tensor_scale_show_it():
    """Both numbers are needed to try again."""
    task = Blocks("float32", catalog.NVFP4)
    found = block_kinds(blocks_of(task, profile="torchao_nvfp4"), task)
    assert set(found) == {"scale", "element", "zero block", "special block"}
    assert found["zero block"].smallest["operand"] == "0x00000000*16 times 0x3f800000"


def test_values_are_held_against_values():
    """A library without codes: one NaN, but zeros with signs."""

    def values(x, fmt):
        made = np.asarray(lp.quantize(x, fmt))
        return np.where(made == 0, np.float32(0), made)

    found = kinds(values, "float32")
    assert set(found) == {"zero", "sign of zero"}
    assert got_and_want(found["sign of zero"]) == ("0x0.0p+0", "-0x0.0p+0")


def test_a_framework_is_held_against_what_it_is_asked_for():
    """Its projection is the reference's."""
    asked = lp.Projection(rounding="nearest_away", saturation="finite")
    framework = dataclasses.replace(
        subject(lambda x, fmt: lp.encode(x, fmt, projection=asked)), projection=asked, sources=("float32",)
    )
    assert [row.findings for row in run([framework], samples=10)] == [()]
    (plain,) = run([dataclasses.replace(framework, projection=lp.Projection())], samples=10)
    assert {finding.kind for finding in plain.findings} == {"tie", "overflow"}


def test_one_number_at_a_time_means_fewer_cases_but_all_that_matter():
    """Ties, neighbours, thresholds and specials are still there."""
    (few,) = run([dataclasses.replace(subject(lp.encode), sources=("float32",), few=True)])
    (all_,) = run([dataclasses.replace(subject(lp.encode), sources=("float32",))], samples=0)
    assert 1000 < few.tried < all_.tried
    slow = dataclasses.replace(
        subject(lambda x, fmt: lp.encode(x, fmt, rounding="nearest_away")), sources=("float32",), few=True
    )
    (row,) = run([slow])
    assert {finding.kind: finding.count for finding in row.findings} == {"tie": 128}


@pytest.mark.apart
@pytest.mark.parametrize(
    "entry",
    known_divergences(),
    ids=lambda entry: f"{entry.frameworks[0]}, {entry.operations[0]}, {entry.kind}, {entry.targets[0]}",
)
def test_every_known_divergence_is_still_seen_with_its_smallest_input(entry, rows):
    """An entry that nothing shows any more would hide the next bug; frameworks must show all their types."""
    if entry.kind == "flush":
        need_framework("torch")  # it sets the processor's mode
    for framework in entry.frameworks:
        version = need_framework(framework)
        if not entry.concerns(version):
            pytest.skip(f"{framework} {version} is not a version of this entry")
        mine = [row for row in rows if row.framework == framework]
        seen = [(row, finding) for row in mine for finding in row.findings if entry.covers(row, finding.kind)]
        assert {row.operation for row, _ in seen} == set(entry.operations)
        assert {row.source for row, _ in seen} == set(entry.sources)
        assert {row.target for row, _ in seen} | rounded_once_here(entry) == set(entry.targets)
        if framework != entry.frameworks[0]:
            continue
        place = tuple(entry.smallest[key] for key in ("operation", "source", "target"))
        [finding] = [finding for row, finding in seen if (row.operation, row.source, row.target) == place]
        if place == ("sqrt", "binary32", "binary32") and framework == "torch":
            continue  # which roots its vector library has wrong depends on the processor
        if (framework, finding.kind) == ("paddle", "subnormal result"):
            continue  # random inputs alone lie there
        assert (finding.smallest["operand"], *got_and_want(finding)) == tuple(
            entry.smallest[key] for key in ("operand", "got", "want")
        )
        if entry.operations == ("cast",) and finding.kind not in ("NaN", "place", "tie", "subnormal operand"):
            assert abs(number(finding.smallest["value"])) == min(
                abs(number(other.smallest["value"])) for _, other in seen
            )


def rounded_once_here(entry):
    """Targets to which this processor has an instruction that rounds float64 once: XLA takes it."""
    if (entry.frameworks, entry.kind, "binary16" in entry.targets) != (("jax",), "double rounding", True):
        return set()
    just_above_a_tie = np.array([1 + 2.0**-11 + 2.0**-40])
    code = int(FRAMEWORKS["jax"].cast(just_above_a_tie, lp.format("binary16"))[0])
    assert code in (0x3C00, 0x3C01)
    return {"binary16"} if code == 0x3C01 else set()


def got_and_want(finding):
    return finding.smallest["got"], finding.smallest["want"]


def number(text):
    return float.fromhex(text) if "x" in text else float(text)


@pytest.mark.apart
def test_the_divergences_that_people_should_know_are_reported(rows):
    """The three that the README promises."""
    found = {
        (row.source, row.target, finding.kind)
        for row in rows
        for finding in row.findings
        if row.framework == "ml_dtypes"
    }
    assert ("float64", "e4m3fn", "double rounding") in found
    assert ("float32", "e8m0fnu", "tie") in found
    assert ("float32", "e8m0fnu", "subnormal operand") in found
    between = np.linspace(2.0**-127, 2.0**-126, 1001, dtype=np.float64)[1:-1].astype(np.float32)
    framework, cast = FRAMEWORKS["ml_dtypes"], Cast("float32", catalog.E8M0FNU)
    row = compare(framework, cast, framework.tasks()[cast], (between,))
    wrong = lp.encode(between, "e8m0fnu") != 1
    assert wrong.any()
    assert row.mismatches == wrong.sum()


@pytest.mark.apart
def test_an_unlisted_difference_is_unexplained(rows):
    """Without the file everything that differs is unexplained."""
    (row,) = run([FRAMEWORKS["ml_dtypes"]], sources=["float64"], targets=[E4M3FN], samples=0)
    assert row.unexplained == row.mismatches > 0


@pytest.mark.parametrize("name", ["torch", "jax", "onnx"])
def test_a_framework_that_is_not_installed_is_left_out(name, monkeypatch):
    """It has no version, and `lowprec conform` names the command that installs it."""
    framework = dataclasses.replace(FRAMEWORKS[name], package="no-such-package")
    assert framework.version is None
    assert framework.install == f'pip install "lowprec[{name}]"'


def test_a_cast_in_jax_leaves_the_process_as_it_was():
    """64-bit types are enabled for the cast alone."""
    need_framework("jax")
    import jax

    before = jax.config.jax_enable_x64
    codes = FRAMEWORKS["jax"].cast(np.array([1.0625 + 2.0**-40]), E4M3FN)
    assert codes.tolist() == [0x39]
    assert jax.config.jax_enable_x64 == before


@pytest.mark.apart
def test_the_report_is_json_with_sums(rows):
    """Machines read it."""
    report = json.loads(conformance.report(rows))
    assert report["schema"] == "lowprec.conform/2"
    assert report["lowprec"] == lp.__version__
    assert report["mismatches"] == sum(row["mismatches"] for row in report["rows"])
    assert report["unexplained"] == 0, [row for row in rows if row.unexplained]


ENTRY = (
    "[[divergence]]\nframeworks=['x']\nversions=['1']\noperations=['cast']\nsources=['float32']\ntargets=['e5m2']\n"
    "kind='tie'\nwhy='so'\nsmallest={operation='',source='',target='',operand='',got='',want=''}"
)


def test_an_entry_of_the_file_covers_its_own_rows_only(tmp_path):
    """Framework, version, operation, source, target and kind must all be the same."""
    (tmp_path / "divergences.toml").write_text(ENTRY)
    [entry] = known_divergences(tmp_path / "divergences.toml")
    row = conformance.Row("x", "1.2", "float32", "e5m2", 1)
    assert entry.covers(row, "tie")
    others = {"framework": "y", "version": "12", "operation": "add", "source": "float64", "target": "e4m3fn"}
    assert not any(
        entry.covers(dataclasses.replace(row, **{name: value}), "tie") for name, value in others.items()
    )
    assert not entry.covers(row, "overflow")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[divergence]]\nframeworks = ['numpy']", "divergence 1 has missing or unknown fields: kind"),
        (ENTRY.replace("got=''", "gotten=''"), "divergence 1 has missing or unknown fields: gotten, operand"),
        (
            ENTRY.replace("kind='tie'", "kind='other'"),
            "divergence 1 has kind 'other', which explains nothing",
        ),
        (ENTRY.replace("kind='tie'", "kind='ties'"), "divergence 1 has kind 'ties', which explains nothing"),
        (
            ENTRY.replace("versions=['1']", "versions=[]"),
            r"divergence 1 has versions = \[\]; it must be a list of names",
        ),
        (
            ENTRY.replace("['cast']", "'cast'"),
            "divergence 1 has operations = 'cast'; it must be a list of names",
        ),
        (ENTRY.replace("why='so'", "why=''"), "divergence 1 does not say why"),
    ],
)
def test_a_malformed_file_of_divergences_is_refused(text, message, tmp_path):
    """A typing error must not turn into silence."""
    path = tmp_path / "divergences.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        known_divergences(path)
