"""Products that cuBLASLt returned on GPUs, by hashes that others recorded (tables/published/README.md).

Operands are halves and integers up to 4, or 128 or 4096 times these, and scales are powers of two, so sums
are exact in any order and say nothing of accumulations. What is compared: where numbers lie, the order and
the roundings of an epilogue's steps, saturation, largest magnitudes, and the blocks that results become.
"""

import dataclasses
import pathlib
import re
import tomllib
from collections import Counter

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec.block import BlockFormat
from tests.agreement.test_silicon import hashed

ROOT = pathlib.Path(__file__).parents[2]
HASHES = tomllib.loads((ROOT / "tables" / "published" / "cublaslt.toml").read_text())
#: Tables of each GPU, and how the names of its instructions and of its library call begin.
GPUS = {
    "NVIDIA L4": (("shared", "first"), "ada"),
    "NVIDIA L40S": (("shared", "newer"), "ada"),
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": (("shared", "newer", "rtx"), "rtx_blackwell"),
}
FORMATS = {
    "e4m3": "e4m3fn", "e5m2": "e5m2", "fp4": "e2m1fn",
    "bf16": "bfloat16", "f16": "binary16", "f32": "binary32",
}  # fmt: skip
FP8 = ("e4m3fn", "e5m2")

# -- cases, by their names ---------------------------------------------------------------------------


@dataclasses.dataclass
class Case:
    """What is multiplied, and what becomes of the sums: D of A, B and C."""

    x: str = "e4m3fn"
    y: str = "e4m3fn"
    c: str = "bfloat16"
    d: str = "bfloat16"
    shape: tuple[int, int, int] = (64, 64, 64)  # m, n, K
    transposed: str = "TN"
    order: str = "cccc"  # of A, B, C and D: stored by columns, or "r" by rows
    pads: dict[str, int] = dataclasses.field(
        default_factory=dict
    )  # elements that leading dimensions are longer
    batch: int = 1
    block: int = 0  # elements along K that share a scale
    scales: tuple[bool, bool] = (True, True)
    scale_c: bool = False
    scale_d: bool = False
    alpha: float = 1.0
    beta: float = 0.0
    large: bool = False
    steps: tuple[str, ...] = ()
    bias: str = ""
    bias_of_d: bool = False  # the bias is read as bfloat16 from numbers in D's format
    aux: str = ""
    blocks_out: bool = False


#: What some names say.
NAMED = {
    "e4m3_noscale_amax": {"d": "e4m3fn"},
    "e4m3_scale_noamax": {"d": "e4m3fn", "scale_d": True},
    "e4m3_noscale_noamax": {"d": "e4m3fn"},
    "no_ab_scales": {"scales": (False, False)},
    "a_scale_only": {"scales": (True, False)},
    "b_scale_only": {"scales": (False, True)},
    "beta1_noCscale": {"beta": 1.0},
    "alpha_half": {"alpha": 0.5},
    "alpha_3": {"alpha": 3.0},
    "device_pointer_mode": {"alpha": 2.0},
    "device_pointer_mode_beta1": {"alpha": 2.0, "beta": 1.0},
    "device_alpha": {"alpha": 2.0},
    "pad_all_e4m3": {"pads": {"a": 16, "b": 32, "d": 24}, "d": "e4m3fn", "scale_d": True},
    "dfp4_nodscale": {"d": "e2m1fn", "blocks_out": True},
}
STEPS = ("relu", "bias", "gelu", "aux", "drelu", "bgrad")


def described(table, name):
    """Return the case that a name stands for. A name read wrongly is a hash that differs."""
    group, _, tag = name.partition("/")
    four = group.startswith("fp4") or tag.startswith(("v16", "nv4"))
    block = 16 if four else 32 if group.startswith(("mx8", "bs")) or tag.startswith("v32") else 0
    case = Case(block=block, large=group == "fp8sat", bias_of_d=table == "first")
    if four:
        case.x = case.y = "e2m1fn"
    if block or group == "scalemix":
        case.shape = 128, 128, 256
    if group == "plainscales":
        case.x = case.y = case.c = case.d = FORMATS[tag.partition("_")[0]]
        case.scales = False, False
    elif tag in NAMED:
        case = dataclasses.replace(case, **NAMED[tag])
    else:
        for token in tag.split("_"):
            read(case, token)
        if "e4m3" in tag and group in ("fp8fast", "fp8batch"):
            case.d = "e4m3fn"
        if case.d == "e5m2" and group == "fp8epi":
            case.x = "e5m2"
        case.scale_d = case.d in (*FP8, "e2m1fn") and block != 32
        case.scale_c = group == "fp8beta"
    return case


def read(case, token):
    """Let a part of a name change the case."""
    if token in ("TN", "NN", "NT"):
        case.transposed = token
    elif token in STEPS:
        case.steps += (token,)
    elif token in ("dout", "fp4out", "dfp4"):
        case.d, case.blocks_out = "e2m1fn" if case.block == 16 else "e4m3fn", True
    elif token in ("e4m3out", "f32"):
        case.d = FORMATS[token.removesuffix("out")]
    elif token == "odd":
        case.shape = 160, 96, 192
    elif re.fullmatch("[cr]{4}", token):
        case.order = token
    elif found := re.fullmatch(r"(\d+)x(\d+)x(\d+)", token):
        case.shape = tuple(map(int, found.groups()))
    elif found := re.fullmatch(r"(e[45]m[23])x?(e[45]m[23])", token):
        case.x, case.y = (FORMATS[each] for each in found.groups())
    elif found := re.fullmatch(r"beta([12])", token):  # twice beta
        case.beta = int(found[1]) / 2
    elif found := re.fullmatch(r"b([23])", token):
        case.batch = int(found[1])
    elif found := re.fullmatch(r"c?([abd])(\d+)", token):
        case.pads[found[1]] = int(found[2])
    elif found := re.fullmatch(r"(bias|aux)(\w+)", token):
        setattr(case, found[1], FORMATS[found[2]])
    elif token[:1] in ("c", "d") and token[1:] in FORMATS:
        setattr(case, token[0], FORMATS[token[1:]])


# -- operands ----------------------------------------------------------------------------------------

VALUES = np.float32([1, -1, 0.5, -0.5, 2, -2, 1.5, -1.5, 0, 3, -3, 4])


def drawn(count, step, salt):
    """A random word for each index: a multiplicative hash of 32 bits."""
    words = (np.arange(count, dtype=np.uint64) * np.uint64(step) + np.uint64(salt)).astype(np.uint32)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        words = (words ^ words >> np.uint32(shift)) * np.uint32(factor)
    return words


def numbers(count, salt, fmt, large=False):
    """Numbers of an operand, in the order in which they are stored."""
    values = VALUES[drawn(count, 2654435761, salt) % 12]
    if large:
        values = values * np.float32(4096) if fmt == "e5m2" else np.clip(values * np.float32(128), -448, 448)
    return values


def matrices(case, which, rows, columns):
    """The matrices of a batch, of A, B or C, shape (batch, rows, columns)."""
    place = "abc".index(which)
    fmt, by_rows = (case.x, case.y, case.c)[place], case.order[place] == "r"
    lead, lines = (columns, rows) if by_rows else (rows, columns)
    whole = lead + case.pads.get(which, 0)
    stored = numbers(case.batch * lines * whole, place + 1, fmt, case.large and which != "c")
    stored = stored.reshape(case.batch, lines, whole)[:, :, :lead]
    return stored if by_rows else stored.swapaxes(1, 2)


def scale_of(salt):
    """The scale of a tensor."""
    return np.float32([0.5, 1, 2, 0.25])[drawn(1, 40503, salt)[0] & 3]


def scales_of(case, rows, salt):
    """Codes of the scales of blocks along K, shape (batch, rows, blocks), out of tiles of 128 rows."""
    blocks = -(-case.shape[2] // case.block)
    size = -(-rows // 128) * -(-blocks // 4) * 512
    table = np.uint8([0x30, 0x38, 0x40, 0x28] if case.block == 16 else [126, 127, 128, 125])
    tiles = table[drawn(case.batch * size, 40503, salt) & 3].reshape(case.batch, size)
    return np.stack([lp.BlockArray.unswizzle(each, (rows, blocks)) for each in tiles])


def operands(case):
    """Yield A, B and C of each product, A and B in blocks where they have them."""
    m, n, k = case.shape
    first, second = (each == "T" for each in case.transposed)
    a = matrices(case, "a", k, m).swapaxes(1, 2) if first else matrices(case, "a", m, k)
    b = matrices(case, "b", n, k).swapaxes(1, 2) if second else matrices(case, "b", k, n)
    c = matrices(case, "c", m, n)
    if not case.block:
        yield from zip(a, b, c, strict=True)
        return
    of_rows, of_columns = scales_of(case, m, 11), scales_of(case, n, 12).swapaxes(1, 2)
    for item in range(case.batch):
        x = in_blocks(case, a[item], of_rows[item], case.x, 1)
        yield x, in_blocks(case, b[item], of_columns[item], case.y, 0), c[item]


def in_blocks(case, values, scales, element, axis):
    """Numbers in blocks along an axis, with these scales."""
    scale = "ue4m3" if case.block == 16 else "e8m0fnu"
    fmt = BlockFormat(name="operand", element=element, scale=scale, size=case.block)
    return lp.BlockArray(lp.encode(values, element), np.ascontiguousarray(scales), fmt, (axis,))


def bias_of(case):
    """The bias, a number for each row."""
    m = case.shape[0]
    if case.bias_of_d:
        stored = lp.encode(numbers(m, 5, case.d), case.d).tobytes().ljust(2 * m, b"\0")
        return lp.decode(np.frombuffer(stored, np.uint16)[:m], "bfloat16")[:, None]
    return numbers(m, 5, case.bias)[:, None]


# -- results -----------------------------------------------------------------------------------------


#: Scales that an instruction takes, by the elements that share one.
SCALED = {0: "", 16: "_ue4m3_4", 32: "_e8m0fnu_1"}


def multiplied(case, machine, a, b, output, **joined):
    """A product with an epilogue, as codes of the output."""
    scales = [scale_of(11 + each) if case.scales[each] and not case.block else 1 for each in (0, 1)]
    joined |= {"scales": (np.float32(case.alpha) * scales[0], scales[1]), "dtype": codes_of(output)}
    if case.x in FP8 and not case.block:
        call = lp.library_calls[f"{machine}_cublaslt_fp8"](formats=(case.x, case.y), output=output)
        return lp.matmul(a, b, call, **joined)
    both = case.x if case.x == case.y else f"{case.x}_{case.y}"
    how = f"{machine}_mma_{both}_binary32{SCALED[case.block]}" if case.x != "binary32" else "fp32_fma"
    return lp.matmul(a, b, how, epilogue=lp.Epilogue(output=result_of(output)), **joined)


def result_of(fmt):
    """The format and the projection of a result."""
    return lp.library_calls["ada_cublaslt_fp8"](output=fmt).output


def codes_of(fmt):
    """The type of a format's codes."""
    return np.dtype(f"u{lp.format(fmt).code_bits // 8}")


def converted(values, fmt):
    """Codes of numbers of binary32 in an output's format."""
    return lp.encode(values, fmt, projection=result_of(fmt)[1])


def computed(case, machine):
    """Yield codes of each D, or the numbers of its blocks; its numbers unscaled, and those before RELU."""
    for a, b, c in operands(case):
        joined = {}
        if case.beta:
            joined["addend"] = np.float32(case.beta) * (scale_of(13) if case.scale_c else 1) * c
        twice = {"bias", "aux"} <= {*case.steps}
        if "bias" in case.steps and not twice:
            joined["bias"] = bias_of(case)
        scale = np.float32((8 if case.large else 4) if case.scale_d else 1)
        if twice:  # the product is rounded to D's format before the bias is added; hashes do not tell whether
            middle = "binary16" if case.d in FP8 else case.d  # under FP8 it is rounded to binary16
            product = lp.decode(multiplied(case, machine, a, b, middle, **joined), middle)
            v = before = lp.add(product, bias_of(case), "binary32")
        else:
            v = before = multiplied(case, machine, a, b, "binary32", **joined).view(np.float32)
        if "relu" in case.steps:
            v = lp.maximum(v, np.float32(0), "binary32")
        if "drelu" in case.steps:  # bits of a mask, each byte of which is 0xA5
            v = np.where((0xA5 >> np.arange(len(v)) % 8 & 1)[:, None], v, np.float32(0))
        if case.blocks_out:
            d = lp.multiply(v, scale, "binary32")
        elif v is not before or twice:
            d = converted(lp.multiply(v, scale, "binary32"), case.d)
        else:
            d = multiplied(case, machine, a, b, case.d, output_scale=scale, **joined)
        yield d, v, before


#: Whose blocks results become.
STACK = {"profile": "cublaslt"}


def blocks_of(case, values):
    """A matrix of results in blocks along its columns."""
    fmt = "nvfp4" if case.block == 16 else "mxfp8_e4m3"
    return lp.encode(np.ascontiguousarray(values.T), fmt, axis=1, **STACK)


def tiles_of(blocks):
    """Bytes of scales in tiles, where those of no block stay what they were, 0xEE."""
    there = dataclasses.replace(blocks, scales=np.ones_like(blocks.scales)).swizzled()
    return np.where(there, blocks.swizzled(), np.uint8(0xEE)).tobytes()


def stored(case, codes):
    """Bytes of D, where those that are not written stay what they were, 0xA5."""
    lines = codes if case.order[3] == "r" else codes.swapaxes(1, 2)
    lines = np.ascontiguousarray(lines).view(np.uint8)
    pad = case.pads.get("d", 0) * codes.itemsize
    return np.pad(lines, ((0, 0), (0, 0), (0, pad)), constant_values=0xA5).tobytes()


def digest(written, size, fill=0xA5):
    """Hash a buffer of so many bytes and the 4,096 after it, from whose start on these were written."""
    buffer = written + bytes([fill]) * (size + 4096 - len(written))
    return f"{hashed(buffer, 1469598103934665603, 1099511628211, 64):016x}"


def made(case, machine):
    """Return the hashes of a case, and its largest magnitude before D's scale, by name."""
    m, n, _ = case.shape
    case.bias = case.bias or ("bfloat16" if case.d in (*FP8, "binary32") else case.d)
    results, values, before = map(np.stack, zip(*computed(case, machine), strict=True))
    if case.blocks_out:
        blocks = [blocks_of(case, each) for each in results]
        d, scales = (b"".join(map(f, blocks)) for f in (lambda each: each.packed().tobytes(), tiles_of))
        return {"d": digest(d, len(d)), "dscale": digest(scales, len(scales), 0xEE)}
    d, largest = stored(case, results), np.float32(np.abs(values).max())
    found = {"d": digest(d, len(d)), "amax": f"{largest.view(np.uint32):08x}"}
    if "gelu" in case.steps:  # D itself is not hashed
        fmt = case.aux or ("bfloat16" if case.d in FP8 else case.d)
        aux = converted(before[0].T, fmt).tobytes()
        found["aux"] = digest(aux, m * n * codes_of(case.aux or case.d).itemsize)
    elif "aux" in case.steps:  # a bit for each result, columns of 128 bits
        bits = np.packbits(before[0].T >= 0, axis=1, bitorder="little")
        aux = np.pad(bits, ((0, 0), (0, 16 - bits.shape[1])), constant_values=0xA5).tobytes()
        found["aux"] = digest(aux, len(aux) + 64)
    if "bgrad" in case.steps:  # of D as it is stored
        sums = lp.dot(lp.decode(results[0], case.d), np.ones(n), "fp32_fma")
        found["bgrad"] = digest(converted(sums, case.d).tobytes(), max(m, n) * results.itemsize)
    return found


# -- tests -------------------------------------------------------------------------------------------


def check(table, name, machine):
    """Compare what a case gives with what the library gave."""
    wanted = dict(part.split("=") for part in HASHES[table][name].split())
    found = made(described(table, name), machine)
    assert {key: found[key] for key in wanted} == wanted, name


#: Small cases, one of each kind.
EACH_KIND = (
    ("shared", "fp8dims/TN_16x17x16"),
    ("shared", "fp8sat/de4m3_e5m2xe4m3"),
    ("shared", "fp8beta/beta1_cf16_de4m3"),
    ("shared", "fp8epi/relu_aux_bias_dbf16"),
    ("shared", "fp8bwd/drelu_bgrad_TN_dbf16"),
    ("rtx", "fp8ld/pad_all_e4m3"),
    ("rtx", "mx8out/dout_v32_de4m3_32x32x32"),
    ("rtx", "fp4shape/TN_fp4out_32x32x32"),
)


def test_one_of_each_kind_is_what_cublaslt_returned():
    """By the instructions of RTX Blackwell, which has all kinds."""
    for table, name in EACH_KIND:
        check(table, name, "rtx_blackwell")


#: Groups of cases by kind of GPU, and the tables that have them.
GROUPS = sorted(
    {
        (name.partition("/")[0], table, machine)
        for tables, machine in GPUS.values()
        for table in tables
        for name in HASHES[table]
    }
)


@pytest.mark.apart
@pytest.mark.parametrize(("group", "table", "machine"), GROUPS)
def test_products_are_what_cublaslt_returned(group, table, machine):
    """By the instructions of each kind of GPU that ran them."""
    for name in HASHES[table]:
        if name.startswith(f"{group}/"):
            check(table, name, machine)


def test_hashes_tell_other_rules(monkeypatch):
    """Those of the catalog's blocks, a bias that joins before the product is rounded, and a bit."""
    monkeypatch.setattr(f"{__name__}.STACK", {})
    name = "mx8out/dout_v32_de4m3_32x32x32"
    assert differing("rtx", name) == {"d", "dscale"}
    monkeypatch.setattr(f"{__name__}.STACK", {"tensor_scale": 1.0})
    assert differing("rtx", "fp4shape/TN_fp4out_32x32x32") == {"d"}
    once, twice = (HASHES["shared"][f"fp8epi/relu_{each}bias_dbf16"].split()[0] for each in ("", "aux_"))
    assert once != twice
    assert digest(b"\1", 1) != digest(b"\0", 1)


def differing(table, name):
    """The hashes of a case that are not the library's."""
    found, wanted = made(described(table, name), "rtx_blackwell"), HASHES[table][name].split()
    return {key for key, _, value in (each.partition("=") for each in wanted) if found[key] != value}


def test_the_evidence_counts_the_results_that_are_compared():
    """Of each GPU those of its library call, and those that become blocks, by format."""
    counts: Counter[tuple[str, str]] = Counter()
    for gpu, (tables, machine) in GPUS.items():
        for table, name in [(each, name) for each in tables for name in HASHES[each]]:
            case = described(table, name)
            blocks = f"cublaslt {'nvfp4' if case.block == 16 else 'mxfp8_e4m3'}" if case.blocks_out else ""
            subject = blocks or ("" if case.block or case.x not in FP8 else f"{machine}_cublaslt_fp8")
            if subject and "d=" in HASHES[table][name]:
                counts[gpu, subject] += case.batch * case.shape[0] * case.shape[1]
    said = {
        (entry["what"].removeprefix("cuBLASLt 13.3 on ").partition(",")[0], subject): entry["values"]
        for entry in tomllib.loads((ROOT / "tables" / "silicon.toml").read_text())["evidence"]
        for subject in entry["subjects"]
        if "cublaslt" in subject
    }
    assert said == counts
