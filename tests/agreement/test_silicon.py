"""Hashes of results that others recorded on devices, and what tables/silicon.toml says of accumulations."""

import dataclasses
import pathlib
import tomllib
from collections import Counter

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec.accumulations import ACCUMULATIONS, accumulation
from lowprec.spec.block import BlockFormat
from lowprec.spec.evidence.evidence import EVIDENCE_KINDS, evidence_for
from lowprec.spec.library_calls import LIBRARY_CALLS
from lowprec.spec.profiles import PROFILES
from lowprec.spec.rounding import TOWARD_POSITIVE, TOWARD_ZERO
from tests import silicon
from tests.agreement.test_published_dots import SETS, measured

ROOT = pathlib.Path(__file__).parents[2]
HASHES = tomllib.loads((ROOT / "tables" / "published" / "rtx_pro_6000.toml").read_text())

# -- mma.sync: fragments of 32 lanes, as the PTX ISA lays them out ------------------------------------

#: Words of each register, a row for each: four of A, two of B, scales of A and of B, metadata, two more of B.
WORDS = np.array([i * 2654435761 ^ (i >> 3) * 40503 for i in range(352)]).astype(np.uint32).reshape(11, 32)
WORDS[6:8] = sum(((123 + (np.arange(192, 256) * 7 + byte * 3) % 8) << 8 * byte) for byte in range(4)).reshape(
    2, 32
)
WORDS[8] = np.where(np.arange(32) % 2, 0x44444444, 0x4E4E4E4E)

#: Formats by their names in PTX. E2M1 in a byte has its bits where E2M3 has its upper ones.
PTX = {"e4m3": "e4m3fn", "e5m2": "e5m2", "e3m2": "e3m2fn", "e2m3": "e2m3fn", "e2m1": "e2m3fn"}


def elements(register, bits):
    """The elements of each lane's word of a register, the lowest bits first; shape (8, 4, count)."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    return (WORDS[register].reshape(8, 4, 1) >> shifts & (1 << bits) - 1).astype(np.uint8)


def operand(registers, bits):
    """Rows of eight groups of lanes, K along the last axis."""
    return np.concatenate([elements(register, bits).reshape(8, -1) for register in registers], axis=1)


def addend():
    """What each lane adds to its four results: half its number, 1, -2 and 0.25."""
    c = np.empty((16, 8), np.float32)
    c[:8, ::2], c[:8, 1::2] = 0.5 * np.arange(32).reshape(8, 4), 1
    c[8:, ::2], c[8:, 1::2] = -2, 0.25
    return c


def hashed(words, state, prime, bits):
    """FNV-1 on words instead of bytes, with the operations the other way round."""
    for word in words:
        state = (state ^ int(word)) * prime % (1 << bits)
    return state


def digest(results):
    """The hash of each lane's four results, and then of all lanes."""
    lanes = np.stack([results[:8, ::2], results[:8, 1::2], results[8:, ::2], results[8:, 1::2]], axis=-1)
    own = [hashed(lane, 2166136261, 16777619, 32) for lane in lanes.reshape(32, 4)]
    return f"{hashed(own, 1469598103934665603, 1099511628211, 64):016x}"


def accumulation_of(form):
    """The accumulation of a form, such as f8f6f4_e4m3_e2m1 or nvf4_4X_ue4m3_s0103."""
    kind, *words = form.split("_")
    x, y = (
        PTX[word]
        for word in {"f8f6f4": words[:2], "mx8": words[:2], "sp": ["e4m3"] * 2}.get(kind, ["e2m1"] * 2)
    )
    if kind in ("mxf4", "nvf4"):
        return f"rtx_blackwell_mma_e2m1fn_binary32_{'ue4m3_4' if words[0] == '4X' else 'e8m0fnu_2'}"
    both = x if x == y else f"{x}_{y}"
    return f"rtx_blackwell_mma_{both}_binary32{'' if kind == 'f8f6f4' else '_e8m0fnu_1'}"


def scales(form, count):
    """The scales of rows of A and of columns of B: of bytes and lanes that the form's last digits select."""
    byte_a, lane_a, byte_b, lane_b = map(int, form.rpartition("_s")[2])
    a, b = (WORDS[register].view(np.uint8).reshape(8, 4, 4) for register in (6, 7))
    rows = np.concatenate([a[:, 2 * lane_a + place, byte_a : byte_a + count] for place in (0, 1)])
    return rows, b[:, lane_b, byte_b : byte_b + count]


def in_blocks(codes, words, element, how, axis):
    """Rows of codes in blocks, along an axis of what is made."""
    scale, size = how.scale
    fmt = BlockFormat(name="mma", element=element, scale=scale, size=size)
    codes, words = (each if axis else each.T for each in (codes, words & (1 << scale.width) - 1))
    return lp.BlockArray(np.ascontiguousarray(codes), np.ascontiguousarray(words), fmt, (axis,))


def products(form):
    """The results of a form, shape (16, 8), as codes."""
    kind, how = form.partition("_")[0], accumulation(accumulation_of(form))
    bits = 4 if kind in ("mxf4", "nvf4") else 8
    a = np.concatenate([operand((0, 2), bits), operand((1, 3), bits)])
    b = operand((4, 5, 9, 10) if kind == "sp" else (4, 5), bits)
    a, b = (codes & (1 << fmt.width) - 1 for codes, fmt in zip((a, b), how.operands, strict=True))
    if kind == "f8f6f4":
        x, y = (lp.decode(codes, fmt) for codes, fmt in zip((a, b), how.operands, strict=True))
        return lp.matmul(x, y.T, how, addend=addend(), dtype=np.uint32)
    rows, columns = scales(form, a.shape[1] // how.scale[1])
    made = np.empty((16, 8), np.uint32)
    for row in range(16 if kind == "sp" else 1):
        some, theirs = (slice(row, row + 1), b[:, selected(row)]) if kind == "sp" else (slice(None), b)
        x = in_blocks(a[some], rows[some], how.operands[0], how, 1)
        y = in_blocks(theirs, columns, how.operands[1], how, 0)
        made[some] = lp.matmul(x, y, how, addend=addend()[some], dtype=np.uint32)
    return made


def selected(row):
    """Which of 64 elements of B a row of a sparse A meets: two of each four, by its lanes' metadata."""
    words = WORDS[8].reshape(8, 4)[row % 8, row // 8 :: 2]
    fields = (words[:, None] >> np.arange(0, 32, 2, dtype=np.uint32) & 3).reshape(-1)
    return fields + np.arange(16).repeat(2) * 4


@pytest.mark.parametrize("form", HASHES["mma"])
def test_mma_gives_what_the_device_gave(form):
    """Each form has 128 results, of operands of any bits: zeros, NaNs and infinities too."""
    assert digest(products(form)) == HASHES["mma"][form]


def test_a_hash_tells_one_bit(monkeypatch):
    """A hash changes with a bit of one result, and where windows keep a bit less."""
    form = "f8f6f4_e4m3_e4m3"
    made = products(form)
    made[3, 5] ^= 1
    assert digest(made) != HASHES["mma"][form]
    how = accumulation(accumulation_of(form))
    less = dataclasses.replace(how, accumulator=dataclasses.replace(how.accumulator, fraction_bits=24))
    monkeypatch.setattr(f"{__name__}.accumulation", lambda name: less)
    assert digest(products(form)) != HASHES["mma"][form]


#: A row of subnormal sums for which H100 gave 0x1.6p-146, and a published model another number:
#: github.com/north-numerical-computing/MATLAB-tensor-core, issue 7. Upper halves of binary32 patterns.
SMALL = (
    "9b94 19f3 9a2e 1a67 9a25 9b4e 9b29 9a33 99e0 1a14 9914 99d1 9ae9 1b1a 9a9c 1b3a",
    "9aaf 99f3 9acc 1b7c 19ed 1b25 9a1b 9a20 9af7 9a48 1ae1 1b32 1b12 1b0e 9a68 1735",
)


@pytest.mark.parametrize("instruction", ["mma", "wgmma"])
def test_a_row_that_tells_how_hopper_aligns_small_products(instruction):
    """They are cut below the subnormals of binary32, at the exponents that normal numbers have."""
    x, y = (lp.decode(np.array([int(word, 16) for word in row.split()]), "bfloat16") for row in SMALL)
    assert lp.dot(x, y, f"hopper_{instruction}_bfloat16_binary32") == np.float32(float.fromhex("0x1.6p-146"))


# -- cvt: pairs of binary32 numbers -------------------------------------------------------------------


def numbers():
    """4,096 numbers between -10 and 10, zeros, infinities, NaNs, and some far too small or too large."""
    i = np.arange(4096)
    x = ((i * 2654435761 % 2**32 % 40001 - 20000).astype(np.float32) / np.float32(1999)).astype(np.float32)
    for every, odd, even in (
        (97, np.nan, np.nan), (89, np.inf, -np.inf), (83, 1e-40, -3e-39), (79, 1e30, -7e5), (73, 0, 0),
        (71, -0.0, -0.0),
    ):  # fmt: skip
        x = np.where(i % every == 0, np.where(i % 2, odd, even), x).astype(np.float32)
    return x, x[(i * 7 + 3) % 4096]


def narrowed(fmt, numbers, rounding=None):
    """Pairs of codes in a word, the first in the upper half of 8 or 16 bits."""
    rule = lp.profiles["ptx_cvt"].projection(lp.format(fmt))
    rule = rule if rounding is None else dataclasses.replace(rule, rounding=rounding)
    first, second = (lp.encode(each, fmt, projection=rule).astype(np.uint32) for each in numbers)
    return first << (4 if fmt == "e2m1fn" else 8) | second


def widened(pairs, fmt, target="binary16"):
    """Pairs of 16-bit codes in a word."""
    bits = 4 if fmt == "e2m1fn" else 8
    first, second = (
        lp.cast((part & (1 << bits) - 1).astype(np.uint8), fmt, target, profile="ptx_cvt").astype(np.uint32)
        for part in (pairs >> bits, pairs)
    )
    return first << 16 | second


def conversions():
    """Yield the name of each hash, and the words."""
    both = numbers()
    positive = [np.where(np.signbit(each) & ~np.isnan(each), np.float32(0), each) for each in both]
    magnitudes = [np.abs(each) for each in both]
    fp4, relu = narrowed("e2m1fn", both), narrowed("e2m1fn", positive)
    wide = {fmt: narrowed(fmt, both) for fmt in ("e3m2fn", "e2m3fn", "e4m3fn", "e5m2")}
    down = narrowed("e8m0fnu", magnitudes, TOWARD_ZERO)
    yield "e2m1x2 and relu", (fp4 | relu << 8) * 0x10001
    yield "e3m2x2 e2m3x2", wide["e3m2fn"] | wide["e2m3fn"] << 16
    yield "e4m3x2 e5m2x2", wide["e4m3fn"] | wide["e5m2"] << 16
    yield "ue8m0x2 rz", down
    yield "ue8m0x2 rp", narrowed("e8m0fnu", magnitudes, TOWARD_POSITIVE)
    yield "f16x2 from e2m1x2", widened(fp4, "e2m1fn")
    yield "f16x2 from e2m1x2 relu", widened(relu, "e2m1fn")
    for fmt, pairs in wide.items():
        yield f"f16x2 from {fmt.removesuffix('fn')}x2", widened(pairs, fmt)
    yield "bf16x2 from ue8m0x2", widened(down, "e8m0fnu", "bfloat16")


def test_cvt_gives_what_the_device_gave():
    """Each hash is of 8,192 results."""
    made = {name: f"{hashed(words, 2166136261, 16777619, 32):08x}" for name, words in conversions()}
    assert made == HASHES["cvt"]


# -- the page ---------------------------------------------------------------------------------------


def test_every_subject_is_an_accumulation_a_library_call_or_a_format_of_a_profile():
    """Every kind and reference is one too."""
    references = (ROOT / "docs" / "references.md").read_text()
    for entry in tomllib.loads((ROOT / "tables" / "silicon.toml").read_text())["evidence"]:
        assert entry["kind"] in EVIDENCE_KINDS
        assert f"\n## {entry['by']}\n" in references, entry["by"]
        for subject in entry["subjects"]:
            name, _, fmt = subject.partition(" ")
            assert name in ACCUMULATIONS or name in LIBRARY_CALLS or name in PROFILES, subject
            blocks = fmt in lp.block_formats
            known = PROFILES[name].blocks if blocks else PROFILES[name].formats if fmt else {}
            assert not fmt or (lp.block_formats[fmt] if blocks else lp.format(fmt)) in known, subject


def test_what_is_said_to_be_measured_is_what_tests_compare():
    """The page says whose results, and of the hashes how many."""
    said = {}
    for name in ACCUMULATIONS:
        said |= {(name, each.what): each.values for each in evidence_for(name) if each.kind == "measured"}
    hashed_ones = Counter(accumulation_of(form) for form in HASHES["mma"])
    device = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    assert {name: count for (name, what), count in said.items() if what == device} == {
        name: 128 * forms for name, forms in hashed_ones.items()
    }
    devices = {"Ada": "RTX 1000 Ada"}
    assert {key for key in said if key[1] != device} == {
        (measured(name).name, f"NVIDIA {devices.get(gpu, gpu)}")
        for name in SETS
        for gpu in [name.split(".")[0]]
    }


def test_instructions_of_mmasim_agree():
    """Some rows of some agree: `python -m tests.silicon mmasim` compares more."""
    pytest.importorskip("mmasim")
    made = silicon.instructions()
    model = {name for name in ACCUMULATIONS for each in evidence_for(name) if each.kind == "model"}
    assert set(made) == model
    for name in sorted(made)[::10]:
        assert silicon.of_mmasim(name, made[name], 40) == 0, name
