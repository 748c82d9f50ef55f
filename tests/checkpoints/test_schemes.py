"""Every scheme against its definition, written once more here, and back."""

import contextlib
import json
import math
import pathlib
import re
import tracemalloc
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import lowprec as lp
from lowprec.checkpoints.container import TAGS
from lowprec.checkpoints.containers.safetensors_writing import SafetensorsWriter
from lowprec.checkpoints.converting import convert_checkpoint, dequantize_checkpoint
from lowprec.checkpoints.decoding import PART, as_blocks, codes_of, ranges, values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.inspecting import inspect
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import FAMILIES, quantize_checkpoint, target
from lowprec.checkpoints.schemes.schemes import SCHEMES
from lowprec.checkpoints.verifying import verify_checkpoint
from lowprec.checkpoints.weights import weights_of
from tests.checkpoints.files import ENDINGS, changed, quantized, refusal, source
from tests.programs import need_package

#: The sixteen values of E2M1, by code.
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
#: Those of other containers are in test_gguf, test_onnx and test_transformer_engine.
PAIRS = [(family, to) for family, formats in FAMILIES.items() if family not in ENDINGS for to in formats]


def _nibbles(data):
    """Values of bytes, the first in the low half."""
    data = data.view(np.uint8)
    return np.stack([E2M1[data & 15], E2M1[data >> 4]], axis=-1).reshape(*data.shape[:-1], -1)


def _power(data):
    return np.ldexp(np.float64(1), data.view(np.uint8).astype(int) - 127)


def _tiles(scales, shape):
    return np.kron(scales, np.ones((128, 128)))[: shape[0], : shape[1]]


def _untiled(scales, shape):
    """Scales of a shape out of cuBLAS's tiles of 128 rows and 4 columns, place by place."""
    flat, across = scales.reshape(-1), -(-shape[1] // 4)
    row, column = np.indices(shape)
    inside = row % 32 * 16 + row % 128 // 32 * 4 + column % 4
    return flat[(row // 128 * across + column // 4) * 512 + inside]


def _sixes(data, name):
    """Values of codes of 6 bits, four in three bytes, the first in the lowest bits."""
    trios = data.reshape(-1, 3).astype(int) @ [1, 1 << 8, 1 << 16]
    codes = np.stack([trios >> shift & 63 for shift in (0, 6, 12, 18)], axis=-1).astype(np.uint8)
    kind = ml_dtypes.float6_e2m3fn if name.endswith("e2m3") else ml_dtypes.float6_e3m2fn
    return codes.view(kind).astype(np.float64).reshape(*data.shape[:-1], -1)


def _row_blocks(get):
    """Values of bitsandbytes: one long row, the first of two in the high half."""
    data = get[".weight"].reshape(-1)
    (state,) = (json.loads(part.tobytes()) for name, part in get.items() if ".quant_state." in name)
    codes = np.stack([data >> 4, data & 15], axis=-1).reshape(-1)
    scales = get[".weight.absmax"]
    if "nested_offset" in state:
        over = np.repeat(get[".weight.nested_absmax"], 256)[: scales.size]
        scales = get[".weight.nested_quant_map"][scales] * over + np.float32(state["nested_offset"])
    assert scales.dtype == np.float32
    return (get[".weight.quant_map"][codes] * np.repeat(scales, state["blocksize"])).reshape(state["shape"])


def _defined(name, tensors):
    """The weight's values as the layout's definition says, in float64."""
    get = {key.removeprefix("m.q"): array for key, (_, array) in tensors.items() if key.startswith("m.q")}
    if name in ("comfyui nvfp4", "comfyui mxfp8"):
        shape = get[".weight"].shape
        sizes = (shape[0], shape[1] // 8) if name.endswith("nvfp4") else (shape[0], shape[1] // 32)
        units = _untiled(get[".weight_scale"], sizes)
        if name.endswith("mxfp8"):
            return get[".weight"].astype(np.float64) * np.repeat(_power(units), 32, axis=-1)
        data = get[".weight"]
        units = units.astype(np.float32) * get[".weight_scale_2"]
        return _nibbles(data << 4 | data >> 4) * np.repeat(units, 16, axis=-1)
    if name in ("nvfp4-pack-quantized", "modelopt nvfp4", "torchao nvfp4"):
        codes, scales, tensor = {
            "nvfp4-pack-quantized": (".weight_packed", ".weight_scale", ".weight_global_scale"),
            "modelopt nvfp4": (".weight", ".weight_scale", ".weight_scale_2"),
            "torchao nvfp4": ("._weight_qdata", "._weight_scale", "._weight_per_tensor_scale"),
        }[name]
        number = get[tensor].reshape(()).astype(np.float32)
        units = get[scales].astype(np.float32)
        units = units / number if name.startswith("nvfp4") else units * number
        return _nibbles(get[codes]) * np.repeat(units, 16, axis=-1)
    if name in ("mxfp4-pack-quantized", "quark mxfp4", "deepseek-v4 fp4", "torchao mxfp4"):
        codes = get.get(".weight_packed", get.get("._weight_qdata", get.get(".weight")))
        scales = get.get(".weight_scale", get.get(".scale", get.get("._weight_scale")))
        return _nibbles(codes) * np.repeat(_power(scales), 32, axis=-1)
    if name.startswith("bitsandbytes"):
        return _row_blocks(get)
    if name == "pack-quantized":
        return _words(get)
    if "mxfp6" in name:
        kind = "e2m3" if name.startswith("mxfp6") else name
        return _sixes(get.get(".weight_packed", get.get(".weight")), kind) * np.repeat(
            _power(get[".weight_scale"]), 32, axis=-1
        )
    if name == "gpt-oss mxfp4":
        blocks, scales = get[".weight_blocks"], get[".weight_scales"]
        whole = _nibbles(blocks.reshape(*blocks.shape[:-2], -1)) * np.repeat(_power(scales), 32, axis=-1)
        return whole.swapaxes(-1, -2)
    codes = get.get("._weight_qdata", get.get(".weight")).astype(np.float64)
    if name in ("mxfp8-quantized", "torchao mxfp8"):
        return codes * np.repeat(_power(get.get(".weight_scale", get.get("._weight_scale"))), 32, axis=-1)
    if name == "deepseek fp8":
        return codes * _tiles(get[".weight_scale_inv"], codes.shape)
    if name == "deepseek-v4 fp8":
        return codes * _tiles(_power(get[".scale"]), codes.shape)
    if name == "plain":
        return codes
    return codes * get.get(".weight_scale", get.get(".scale_weight", get.get("._weight_scale")))


def _words(get):
    """Return values of 4-bit integers in words along rows, plus 8, the first in the lowest bits."""
    shape, words, scales = (get[f".weight_{part}"] for part in ("shape", "packed", "scale"))
    table = [[int(word) >> shift & 15 for word in row for shift in range(0, 32, 4)] for row in words]
    codes = np.array(table)[:, : shape[1]] - 8.0
    return codes * np.repeat(scales.astype(np.float64), shape[1] // scales.shape[1], axis=1)


@pytest.mark.parametrize("to", ["nf4", "fp4"])
def test_nested_scales_are_what_the_layout_defines(tmp_path, to):
    """Blocks of zeros too; the scales of scales have a ragged end."""
    found, made = quantized(tmp_path, "bitsandbytes", to, (200, 192), nested=True)
    (weight,) = [item for item in weights_of(found) if item.is_quantized]
    assert weight.scheme.name == f"bitsandbytes {to} nested"
    assert weight.value_shape == (200, 192)
    tensors = {name: (entry.tag, entry.read()) for name, entry in found.entries.items()}
    assert np.array_equal(values_of(weight), _defined(weight.scheme.name, tensors))
    parts = [values_of(weight, start, stop) for start, stop in ranges(weight, 640)]
    assert np.array_equal(np.concatenate(parts), values_of(weight))
    (verdict,) = verify_checkpoint(found, made)
    assert (verdict.rule, verdict.codes_differ) == ("divide", 0)
    with refusal("is in no block format; use its values"):
        as_blocks(weight)


@pytest.mark.parametrize(("family", "to"), PAIRS)
def test_what_is_written_is_what_the_layout_defines(tmp_path, family, to):
    """Recognised by its names, decoded to the values of the definition, and made by the rule it says."""
    shape = {"gpt-oss": (2, 64, 96), "comfyui": (224, 192)}.get(family, (200, 192))
    found, made = quantized(tmp_path, family, to, shape)
    (weight,) = [item for item in weights_of(found) if item.name == "m.q.weight"]
    expected = FAMILIES[family][to]
    if expected in ("modelopt fp8", "quark fp8"):  # only the configuration tells them apart
        expected = "float-quantized"
    assert weight.scheme.name == expected
    assert weight.problem is None
    assert weight.value_shape == shape
    tensors = {name: (entry.tag, entry.read()) for name, entry in found.entries.items()}
    values = values_of(weight)
    assert values.dtype == np.float32
    assert np.array_equal(values, _defined(weight.scheme.name, tensors).astype(np.float32))
    (verdict,) = verify_checkpoint(found, made)
    assert verdict.holds
    assert verdict.codes_differ == 0
    assert verdict.rule or weight.scheme.name == "plain"
    single = not (weight.scheme.block or to == "int4")
    assert verdict.rule in ("", "max") if single else verdict.rule


@pytest.mark.parametrize(("columns", "options"), [(200, {}), (256, {"group": None}), (192, {"group": 64})])
def test_integers_of_rows_or_groups_are_what_the_layout_defines(tmp_path, columns, options):
    """Hold codes and scales to `lowprec.encode` and `scale_for`, of rows of words with a rest too."""
    options = options or {"channel": True}
    found, made = quantized(tmp_path, "compressed-tensors", "int4", (64, columns), **options)
    (weight,) = [item for item in weights_of(found) if item.is_quantized]
    tensors = {name: (entry.tag, entry.read()) for name, entry in found.entries.items()}
    assert np.array_equal(values_of(weight), _defined("pack-quantized", tensors).astype(np.float32))
    x = made.entries["m.q.weight"].read()
    size = columns if "channel" in options else options["group"] or 128
    assert weight.sizes == (1, size)
    amax = np.abs(x.reshape(64, -1, size)).max(axis=-1)
    scales = tensors["m.q.weight_scale"][1]
    if "channel" not in options:
        assert np.array_equal(scales, amax / np.float32(7))
    assert (verify_checkpoint(found, made)[0].codes_differ, lint(found, made)) == (0, ())


@pytest.mark.parametrize(
    "options", [{"to": "int8", "group": 32}, {"channel": True, "group": 32}, {"group": 16}]
)
def test_groups_are_those_of_packed_integers(options):
    with refusal(r"channel has groups of 32, 64, 128 columns; leave group out"):
        target("compressed-tensors", **({"to": "int4"} | options))


@pytest.mark.parametrize("options", [{}, {"channel": True}])
@pytest.mark.parametrize("to", ["e4m3fn", "int8", "int4"])
def test_zeros_have_scale_one(tmp_path, to, options):
    """Write no rows of scales 64, which were taken for bytes of E8M0."""
    save_file({"m.q.weight": np.zeros((4, 128), np.float32)}, tmp_path / "s.safetensors")
    out = tmp_path / "o.safetensors"
    quantize_checkpoint(
        open_checkpoint(tmp_path / "s.safetensors"), out, target("compressed-tensors", to, **options)
    )
    found = open_checkpoint(out)
    if options or to != "int4":
        assert (found.entries["m.q.weight_scale"].read() == 1).all()
    assert lint(found) == ()


@pytest.mark.parametrize("channel", [False, True])
def test_the_rule_of_single_scales_is_named(tmp_path, channel):
    """The quotient rounded to nearest, that with which nothing is clipped, and neither."""
    found, made = quantized(tmp_path, "compressed-tensors", "e4m3fn", (64, 192), channel=channel)
    x = made.entries["m.q.weight"].read()
    amax = np.abs(x).max(axis=1 if channel else None, keepdims=channel)
    assert [verdict.rule for verdict in verify_checkpoint(found, made)] == ["max"]
    for factor, rule in ((1, "divide"), (2, "")):

        def rescale(tensors, factor=factor):
            scale = np.float32(factor) * (amax / np.float32(448))
            codes = np.clip(x / scale, -448, 448).astype(ml_dtypes.float8_e4m3fn)
            tensors["m.q.weight"] = "F8_E4M3", codes
            tensors["m.q.weight_scale"] = (
                "F32",
                scale.astype(np.float32).reshape(-1, 1) if channel else (np.array([scale], np.float32)),
            )

        other = changed(found, tmp_path / f"{factor}.safetensors", rescale)
        (verdict,) = verify_checkpoint(other, made)
        assert (verdict.rule, verdict.codes_differ) == (rule, 0)


def test_every_scheme_is_written_or_named_here():
    written = {name for formats in FAMILIES.values() for name in formats.values()}
    written |= {"bitsandbytes nf4 nested", "bitsandbytes fp4 nested"}
    only_read = {"gpt-oss mxfp4 (original)", "transformer-engine float8"}
    only_read |= {f"transformer-engine {name} columnwise" for name in ("mxfp8", "nvfp4")}  # beside the others
    only_read |= {f"gguf Q{kind}" for kind in "4_0 4_1 5_0 5_1 2_K 3_K 4_K 5_K 6_K".split()}
    only_read |= {"awq", "gptq", "gptq v2"}
    assert {scheme.name for scheme in SCHEMES} - written == only_read


@pytest.mark.parametrize(
    ("family", "to"),
    [
        ("deepseek", "e4m3fn"),
        ("compressed-tensors", "nvfp4"),
        ("gpt-oss", "mxfp4"),
        ("comfyui", "nvfp4"),  # tiles of scales
        ("comfyui", "mxfp8_e4m3"),
    ],
)
def test_parts_are_the_whole(tmp_path, family, to):
    """Ranges of rows end where blocks do, and give what the whole gives."""
    found, _ = quantized(tmp_path, family, to, (3, 64, 96) if family == "gpt-oss" else (320, 192))
    weight = next(item for item in weights_of(found) if item.is_quantized)
    parts = list(ranges(weight, part=64))
    assert len(parts) > 2
    joined = np.concatenate([values_of(weight, start, stop) for start, stop in parts])
    assert np.array_equal(joined, values_of(weight))


def test_the_original_names_of_gpt_oss_are_not_transposed(tmp_path):
    found, _ = quantized(tmp_path, "gpt-oss", "mxfp4", (2, 64, 96))

    def rename(tensors):
        for name in list(tensors):
            tensors[
                name.replace("weight_blocks", "weight.blocks").replace("weight_scales", "weight.scales")
            ] = tensors.pop(name)

    other = changed(found, tmp_path / "original.safetensors", rename)
    (ours,), (theirs,) = ([w for w in weights_of(item) if w.is_quantized] for item in (found, other))
    assert theirs.scheme.name == "gpt-oss mxfp4 (original)"
    assert theirs.value_shape == (2, 96, 64)
    assert np.array_equal(values_of(theirs), values_of(ours).swapaxes(-1, -2))


@pytest.mark.parametrize("shape", [(64, 32), (3, 16, 32), (2, 2, 8, 32)])
@pytest.mark.parametrize("family", ["compressed-tensors", "torchao"])
def test_scales_of_channels_are_per_row(tmp_path, family, shape):
    """Of three axes only as many scales were written as there are experts; the others were 0."""
    made, out = source(tmp_path / "s.safetensors", shape), tmp_path / "q.safetensors"
    quantize_checkpoint(made, out, target(family, "e4m3fn", channel=True), include=["m.q.*"])
    found = open_checkpoint(out)
    (weight,) = [item for item in weights_of(found) if item.is_quantized]
    assert weight.blocks == "channel"
    assert weight.scales.shape == (*shape[:-1], 1)
    (verdict,) = verify_checkpoint(found, made)
    assert (verdict.rule, verdict.codes_differ) == ("max", 0)
    amax = np.abs(made.entries["m.q.weight"].read()).max(axis=-1)
    scales = weight.scales.read()[..., 0].astype(np.float64)
    assert (scales * 448 >= amax).all()
    assert (np.nextafter(scales.astype(np.float32), np.float32(0)).astype(np.float64) * 448 < amax).all()


@pytest.mark.parametrize("to", ["e4m3fn", "e5m2", "bfloat16", "binary16"])
def test_weights_of_float64_are_rounded_once(tmp_path, to):
    """Numbers just beside ties of the target became ties in float32, and went to the even code."""
    ties = [Fraction(9, 8), Fraction(5, 4), 1 + Fraction(1, 256), 1 + Fraction(1, 2048)]
    ties = [tie + sign * Fraction(1, 1 << 40) for tie in ties for sign in (-1, 0, 1)]
    fmt = lp.formats[to]
    ties += [(1 + Fraction(2 * step + 1, 2 << fmt.trailing_bits)) + Fraction(1, 1 << 40) for step in range(2)]
    values = np.array([float(tie) for tie in ties] * 2).reshape(2, -1)
    assert [Fraction(value) for value in values[0]] == ties
    save_file({"m.weight": values}, tmp_path / "s.safetensors")
    made, out = open_checkpoint(tmp_path / "s.safetensors"), tmp_path / "out.safetensors"
    quantize_checkpoint(made, out, target("plain", to))
    found = lp.load(out)["m.weight"].astype(np.float64)
    steps = Fraction(1, 1 << fmt.trailing_bits)
    nearest = [round(tie / steps) * steps for tie in ties]  # of halves to the even number
    assert [Fraction(value) for value in found[0]] == nearest
    (verdict,) = verify_checkpoint(open_checkpoint(out), made)
    assert verdict.codes_differ == 0


@pytest.mark.parametrize(
    ("family", "to"), [("compressed-tensors", "nvfp4"), ("modelopt", "nvfp4"), ("deepseek", "e4m3fn"),
                       ("quark", "mxfp4"), ("quark", "e4m3fn"), ("bitsandbytes", "nf4")]
)  # fmt: skip
def test_weights_of_float64_follow_a_known_rule(tmp_path, family, to):
    values = np.random.default_rng(0).standard_normal((128, 128))
    save_file({"m.weight": values}, tmp_path / "s.safetensors")
    made, out = open_checkpoint(tmp_path / "s.safetensors"), tmp_path / "out.safetensors"
    reports, _ = quantize_checkpoint(made, out, target(family, to))
    assert reports["m.weight"]["sqnr"] > 15
    (verdict,) = verify_checkpoint(open_checkpoint(out), made)
    assert (bool(verdict.rule), verdict.codes_differ) == (True, 0)
    if family in ("modelopt", "quark") and to != "e4m3fn":
        (weight,) = weights_of(open_checkpoint(out))
        assert np.array_equal(codes_of(weight), lp.encode(values, to).codes)


def test_powers_of_two_for_tiles(tmp_path):
    found, _ = quantized(tmp_path, "deepseek", "e4m3fn", powers=True)
    scales = found.entries["m.q.weight_scale_inv"].read()
    assert scales.dtype == np.float32
    assert (np.frexp(scales)[0] == 0.5).all()


@pytest.mark.parametrize(
    ("family", "to"), [("quark", "mxfp4"), ("modelopt", "nvfp4"), ("compressed-tensors", "mxfp8_e4m3")]
)
def test_block_arrays_have_the_same_values(tmp_path, family, to):
    found, _ = quantized(tmp_path, family, to)
    weight = next(item for item in weights_of(found) if item.is_quantized)
    blocks = as_blocks(weight)
    assert blocks.shape == weight.shape
    exact = values_of(weight, dtype=np.float64)
    assert np.array_equal(np.asarray(blocks, np.float64), exact)


def test_a_divisor_without_inverse_makes_no_block_array(tmp_path):
    found, _ = quantized(tmp_path, "compressed-tensors", "nvfp4")
    with refusal("whose inverse is no float32"):
        as_blocks(next(item for item in weights_of(found) if item.is_quantized))


def test_inspect_says_bits_and_reads_headers_only(tmp_path):
    found, _ = quantized(tmp_path, "quark", "mxfp4")
    summary = inspect(found)
    assert summary.schemes() == {"quark mxfp4": (1, 256 * 192, 256 * 192 * 17 // 32), "plain F32": (1, 8, 32)}
    assert summary.as_json()["weights"][0]["block"] in ("32", None)


@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_dequantize_writes_the_values(tmp_path, dtype):
    found, _ = quantized(tmp_path, "modelopt", "nvfp4")
    assert dequantize_checkpoint(found, tmp_path / "out.safetensors", dtype) == ("m.q.weight",)
    out = open_checkpoint(tmp_path / "out.safetensors")
    kind = {"F32": np.float32, "BF16": ml_dtypes.bfloat16}[dtype]
    expected = values_of(next(item for item in weights_of(found) if item.is_quantized)).astype(kind)
    assert np.array_equal(out.entries["m.q.weight"].read(), expected)
    assert sorted(out.entries) == ["m.norm.weight", "m.q.weight"]


# -- conversions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["modelopt", "compressed-tensors", "torchao"])
def test_mxfp4_becomes_nvfp4_without_loss(tmp_path, family):
    """Exponents within 17 of the largest: every block is exact, and the values are the same numbers."""
    found, _ = quantized(tmp_path, "quark", "mxfp4")
    out = tmp_path / "out.safetensors"
    reports, _ = convert_checkpoint(found, out, target(family, "nvfp4"))
    report = reports["m.q.weight"]
    assert report["exact_blocks"] == report["blocks"] == 256 * 192 // 16
    both = [next(w for w in weights_of(item) if w.is_quantized) for item in (found, open_checkpoint(out))]
    assert np.array_equal(values_of(both[0]), values_of(both[1]))


@pytest.mark.parametrize("largest", [1e-170, 1.0])
@pytest.mark.parametrize("to", ["mxfp4", "nvfp4"])
def test_blocks_whose_values_became_zero_are_not_exact(tmp_path, to, largest):
    """Squares of such errors are zero in float64, beside large values too."""
    weight = np.full((64, 64), 1e-170)
    weight[:, ::16] = largest
    lp.save(tmp_path / "m.safetensors", {"a.weight": weight})
    made = open_checkpoint(tmp_path / "m.safetensors")
    reports, _ = quantize_checkpoint(made, tmp_path / "q.safetensors", target("compressed-tensors", to))
    flushed = 1.0 if largest < 1 else 15 / 16
    assert (reports["a.weight"]["flushed"], reports["a.weight"]["exact_blocks"]) == (flushed, 0)


def test_blocks_too_far_below_the_largest_are_counted(tmp_path):
    found, _ = quantized(tmp_path, "quark", "mxfp4", (32, 64))

    def spread_out(tensors):
        tag, scales = tensors["m.q.weight_scale"]
        scales = scales.copy()
        scales[0, 0], scales[1, 0], scales[2, 0] = 140, 140 - 17, 140 - 30
        tensors["m.q.weight_scale"] = tag, np.minimum(scales, 140).astype(np.uint8).clip(124)
        tensors["m.q.weight_scale"][1][2, 0] = 110

    wide = changed(found, tmp_path / "wide.safetensors", spread_out)
    report = convert_checkpoint(wide, tmp_path / "out.safetensors", target("modelopt", "nvfp4"))[0][
        "m.q.weight"
    ]
    assert report["blocks"] - report["exact_blocks"] == 2  # the two halves of one block of 32


@pytest.mark.parametrize(
    ("first", "second", "to"), [("quark", "compressed-tensors", "mxfp4"), ("torchao", "modelopt", "nvfp4")]
)
def test_one_layout_becomes_another_byte_for_byte(tmp_path, first, second, to):
    """The same scales and codes under other names."""
    found, _ = quantized(tmp_path, first, to)
    convert_checkpoint(found, tmp_path / "out.safetensors", target(second, to))
    both = [
        next(w for w in weights_of(item) if w.is_quantized)
        for item in (found, open_checkpoint(tmp_path / "out.safetensors"))
    ]
    assert both[0].scheme != both[1].scheme
    for part in ("codes", "scales"):
        ours, theirs = (getattr(weight, part).read().view(np.uint8) for weight in both)
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("family", ["torchao", "compressed-tensors", "comfyui", "gguf"])
def test_blocks_that_stay_the_same_numbers_are_counted_as_exact(tmp_path, family):
    """Hold what readers round to what they round, not to exact products with scales of tensors."""
    if family == "gguf":
        need_package(family)
    found, _ = quantized(tmp_path, "modelopt", "nvfp4")
    out = tmp_path / ("out.gguf" if family == "gguf" else "out.safetensors")
    report = convert_checkpoint(found, out, target(family, "nvfp4"))[0]["m.q.weight"]
    before, after = (values_of(_of(item)).reshape(-1, 16) for item in (found, open_checkpoint(out)))
    same = (before == after).all(axis=1)
    assert report["blocks"] == same.size
    assert report["exact_blocks"] == same.sum()
    assert same.all() == (report["sqnr"] is None)
    assert report["clipped"] == 0 or not same.all()


# -- what is refused --------------------------------------------------------------------------------


def test_targets_that_there_are_not(tmp_path):
    for family, to, options, message in (
        ("theirs", "nvfp4", {}, "unknown scheme 'theirs'; use one of compressed-tensors"),
        ("quark", "nvfp4", {}, "scheme 'quark' has no 'nvfp4'; it has mxfp4, mxfp6_e3m2, mxfp6_e2m3, e4m3fn"),
        ("quark", "mxfp4", {"channel": True}, "scales of channels are for e4m3fn of compressed-tensors"),
        ("quark", "mxfp4", {"powers": True}, "can be chosen for deepseek only"),
        ("quark", "e4m3fn", {"rule": "floor"}, "is for scales of blocks"),
        ("quark", "mxfp4", {"nested": True}, "nested scales are for bitsandbytes only, not for quark mxfp4"),
        ("bitsandbytes", "nf4", {"rule": "floor"}, "has no scales but the largest magnitudes"),
    ):
        with refusal(message):
            target(family, to, **options)


def test_weights_that_hold_nan_are_refused_and_nothing_is_written(tmp_path):
    made = source(tmp_path / "s.safetensors", **{"m.k.weight": np.full((4, 32), math.nan, np.float32)})
    with refusal(r"'m\.k\.weight' holds 128 values that are NaN or infinite in float32"):
        quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4"))
    assert not (tmp_path / "out.safetensors").exists()
    quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4"), exclude=["*.k.*"])
    assert open_checkpoint(tmp_path / "out.safetensors").entries["m.k.weight"].tag == "F32"


def test_rows_that_are_no_whole_blocks_stay_as_they_are(tmp_path):
    made = source(tmp_path / "s.safetensors", **{"m.k.weight": np.ones((4, 33), np.float32)})
    _, kept = quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4"))
    assert kept["m.k.weight"] == "33 elements are no multiple of 32"


def test_reasons_why_tensors_stay_are_true(tmp_path):
    """Shapes decide, and names of embeddings and norms; a kernel of two axes is quantised."""
    shapes = {"m.k.weight": (4, 32), "m.kernel": (4, 32), "m.k.bias": (32,), "m.token": (1, 1, 32)}
    shapes |= {"optimizer.state.0.exp_avg": (4, 32), "optimizer.state.0.momentum_buffer": (4, 32)}
    shapes |= {"m.embed.weight": (4, 32), "m.conv.weight": (4, 8, 3), "m.head.weight": (1, 32)}
    tensors = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    made = source(tmp_path / "s.safetensors", **tensors)
    reports, kept = quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4"))
    assert reports.keys() == {"m.q.weight", "m.k.weight", "m.kernel", "m.head.weight"}
    assert kept == {
        "m.k.bias": "fewer than two axes",
        "m.norm.weight": "fewer than two axes",
        "m.token": "a vector, whose other axes have length 1",
        "m.embed.weight": "kept by default, by its name (*embed*); --include takes it",
        "optimizer.state.0.exp_avg": "kept by default, by its name (*.exp_avg); --include takes it",
        "optimizer.state.0.momentum_buffer": (
            "kept by default, by its name (*.momentum_buffer); --include takes it"
        ),
        "m.conv.weight": "3 elements are no multiple of 32",
    }
    _, kept = quantize_checkpoint(
        made, tmp_path / "i.safetensors", target("quark", "mxfp4"), include=["m.embed*"], exclude=["*.head.*"]
    )
    assert kept["m.q.weight"] == "not included"
    assert kept["m.head.weight"] == "excluded"
    assert "m.embed.weight" not in kept


def test_files_of_an_ending_that_nobody_reads_are_refused_with_those_that_are(tmp_path):
    path = tmp_path / "model.jit"
    path.write_bytes(b"PK" + bytes(100))
    endings = ".safetensors, .gguf, .onnx, .pt, .pth, .bin"
    with refusal(re.escape(f"ends in '.jit', and files that are read end in {endings}; it")):
        open_checkpoint(path)


def test_a_weight_without_scales_is_not_decoded(tmp_path):
    found, _ = quantized(tmp_path, "compressed-tensors", "mxfp4")
    broken = changed(found, tmp_path / "b.safetensors", lambda tensors: tensors.pop("m.q.weight_scale"))
    with refusal("has no weight_scale beside it"):
        dequantize_checkpoint(broken, tmp_path / "out.safetensors")


def test_memory_does_not_grow_with_the_weight(tmp_path):
    """Of 24 million elements, 96 MB in the file: a part of them at a time."""
    save_file({"w.weight": np.ones((12_000, 2_000), np.float32)}, tmp_path / "s.safetensors")
    made, how = open_checkpoint(tmp_path / "s.safetensors"), target("modelopt", "nvfp4")
    tracemalloc.start()
    quantize_checkpoint(made, tmp_path / "out.safetensors", how)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 120 * PART  # bytes: 250 MB; all at once would take 1.4 GB


def test_the_page_names_every_scheme_that_is_written():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "checkpoints.md").read_text()
    table, family, found = page.split("| `--scheme` | `--to` | tensors")[1].split("\n\n")[0], "", set()
    for row in table.splitlines()[2:]:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        family = cells[0] or family
        found |= {(family, to.strip()) for to in cells[1].split(",")}
    assert found == {(family, to) for family, formats in FAMILIES.items() for to in formats}


#: Weights at the ends of float32's range, as functions of a shape.
EXTREMES = {
    "zeros": lambda shape: np.zeros(shape),
    "tiny": lambda shape: np.full(shape, 1e-40),
    "small": lambda shape: np.random.default_rng(3).standard_normal(shape) * 1e-37,
    "huge": lambda shape: np.full(shape, 3e38),
}
#: Schemes whose scales and elements together do not reach from 1e-37 to 3e38.
SHORT = ("gguf-q8_0", "gguf-iq4_nl", "plain-e4m3fn", "plain-e5m2", "plain-binary16")
#: Schemes that store the scale of a tensor or of a channel.
RAISED = ("nvfp4", "e4m3fn", "int8")
#: Schemes whose blocks have scales in float32.
BLOCKS_IN_FLOAT32 = {
    *(("deepseek", "e4m3fn"), ("compressed-tensors", "int4"), ("onnx", "int4")),
    *(("bitsandbytes", to) for to in ("nf4", "fp4")),
}
ALL = [
    (family, to, options)
    for family, formats in FAMILIES.items()
    for to in formats
    for options in (
        [{}, {"nested": True}]
        if family == "bitsandbytes"
        else [{}, {"channel": True}]
        if (family, to)
        in {("torchao", "e4m3fn"), *(("compressed-tensors", to) for to in ("e4m3fn", "int8", "int4"))}
        else [{}]
    )
]


def _at_the_ends(path, family, to, options, weight):
    """Quantise a weight beside another one; return the file, the report, and why the weight was kept."""
    if family in ("gguf", "onnx"):
        need_package(family)
    usual = np.random.default_rng(2).standard_normal(_shape(family)).astype(np.float32)
    save_file({"m.b.weight": usual, "m.q.weight": weight}, path / "s.safetensors")
    out = path / f"out{ENDINGS.get(family, '.safetensors')}"
    made = open_checkpoint(path / "s.safetensors")
    reports, kept = quantize_checkpoint(made, out, target(family, to, **options))
    assert "m.b.weight" in reports
    return open_checkpoint(out), reports.get("m.q.weight"), kept.get("m.q.weight", "")


def _shape(family):
    return (2, 64, 128) if family == "gpt-oss" else (128, 128)


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize(("family", "to", "options"), ALL)
def test_weights_at_the_ends_of_the_range_go_through_every_scheme(tmp_path, family, to, options, extreme):
    """The scale of a tensor or channel is normal, which the report says where it is not that of the rule."""
    weight = EXTREMES[extreme](_shape(family)).astype(np.float32)
    found, report, _ = _at_the_ends(tmp_path, family, to, options, weight)
    (held,) = [item for item in weights_of(found) if item.name == "m.q.weight"]
    values, exact = values_of(held, dtype=np.float64), weight.astype(np.float64)
    short = f"{family}-{to}" in SHORT
    if extreme in ("zeros", "tiny"):
        assert (np.abs(values) <= 2 * exact).all()
    elif extreme == "small" and (family, to) == ("transformer-engine", "nvfp4"):
        assert report["sqnr"] < 1  # which the note says
    elif not short:
        # A block's smallest values may be 0: a quarter of its largest is kept.
        assert (np.abs(values - exact) <= 0.25 * np.abs(exact).max()).all()
    elif extreme == "huge":
        assert np.isfinite(values).all()
        assert report["clipped"] == 1
    noted = to in RAISED and family not in ("plain", "deepseek", "deepseek-v4")
    single = noted and family != "transformer-engine"
    of_blocks = (family, to) in BLOCKS_IN_FLOAT32 and "nested" not in options
    entries = (held.tensor, held.scales) if single or of_blocks else ()
    stored = [part.read() for part in entries if part is not None and part.tag == "F32"]
    assert all(((part == 0) & of_blocks | (part >= np.float32(2.0**-126))).all() for part in stored)
    raised = of_blocks and any((part == np.float32(2.0**-126)).any() for part in stored)
    assert ("note" in report) == (noted and extreme in ("tiny", "small") or report["lost"] > 0 or raised)
    assert_lost_values_are_told(held, weight, report)
    assert stored or not single


def assert_lost_values_are_told(held, weight, report):
    with np.errstate(all="ignore"):
        decoded = values_of(held)
    assert report["lost"] == np.count_nonzero(~np.isfinite(decoded))
    told = f"{report['lost']:,} values become NaN or infinite when they are decoded in float32"
    assert (told in report.get("note", "")) == (report["lost"] > 0)


@pytest.mark.parametrize(
    ("family", "to", "options", "lost"),
    [
        ("deepseek-v4", "e4m3fn", {}, True),
        ("deepseek", "e4m3fn", {"powers": True}, True),
        ("deepseek", "e4m3fn", {}, False),
        ("quark", "mxfp4", {"rule": "rceil"}, True),
        ("gguf", "mxfp4", {"rule": "even"}, True),
        ("transformer-engine", "mxfp8_e4m3", {}, True),
        ("transformer-engine", "nvfp4", {}, True),
        ("onnx", "int8", {}, True),
        ("modelopt", "nvfp4", {}, False),
        ("bitsandbytes", "nf4", {}, False),
    ],
)
def test_values_that_become_infinite_in_float32_are_told(tmp_path, family, to, options, lost):
    """Near float32's largest number a scale that is rounded up makes infinities, and NaNs of zeros."""
    weight = np.random.default_rng(5).uniform(-1e38, 1e38, (128, 128)).astype(np.float32)
    weight[0, :32], weight[1, :8] = 0, [3.4e38, -3.4e38, 3.3e38, -3.3e38, 3.4028235e38, 1, 0, 0]
    found, report, _ = _at_the_ends(tmp_path, family, to, options, weight)
    (held,) = [item for item in weights_of(found) if item.name == "m.q.weight"]
    assert_lost_values_are_told(held, weight, report)
    assert (report["lost"] > 0) == lost
    *_, verdict = verify_checkpoint(found, open_checkpoint(tmp_path / "s.safetensors"))
    assert verdict.report["lost"] == report["lost"]
    assert not lost or verdict.report["exact_blocks"] < verdict.report["blocks"] or not report["blocks"]
    assert verdict.holds == (not lost)


@pytest.mark.parametrize(("family", "to", "options"), ALL)
def test_weights_without_rows_stay_as_they_are(tmp_path, family, to, options):
    empty = np.zeros((*_shape(family)[:-2], 0, 128), np.float32)
    found, report, why = _at_the_ends(tmp_path, family, to, options, empty)
    assert (report, why) == (None, "it has no elements")
    assert found.entries["m.q.weight"].shape == empty.shape


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("family", "to", "options"), ALL)
def test_one_element_that_is_no_number_is_refused_by_name(tmp_path, family, to, options, value):
    weight = np.ones(_shape(family), np.float32)
    weight[1, 3] = value
    with refusal(r"'m.q.weight' holds .* values that are NaN or infinite in float"):
        _at_the_ends(tmp_path, family, to, options, weight)
    assert not list(tmp_path.glob("out*"))


def test_any_other_error_within_a_weight_names_it(tmp_path, monkeypatch):
    def broken(*args, **options):
        raise ValueError("something is odd")

    monkeypatch.setattr("lowprec.checkpoints.scaling.encode", broken)
    with refusal(r"weight 'm.q.weight': something is odd"):
        quantized(tmp_path, "modelopt", "nvfp4")


def test_a_scale_that_another_scheme_cannot_invert_is_found_anew(tmp_path):
    """Of ModelOpt's tensor scales 1e-41 has no inverse, which compressed-tensors stores."""
    found, _ = quantized(tmp_path, "modelopt", "nvfp4")
    tiny = changed(
        found,
        tmp_path / "t.safetensors",
        lambda t: t.update({"m.q.weight_scale_2": ("F32", np.float32(1e-41))}),
    )
    reports, _ = convert_checkpoint(tiny, tmp_path / "c.safetensors", target("compressed-tensors", "nvfp4"))
    (before,), (after,) = (
        [item for item in weights_of(each) if item.is_quantized]
        for each in (tiny, open_checkpoint(tmp_path / "c.safetensors"))
    )
    assert "note" in reports["m.q.weight"]
    one, two = (values_of(item, dtype=np.float64) for item in (before, after))
    assert (np.abs(one - two) <= 0.25 * np.abs(one).max()).all()


@pytest.mark.parametrize("to", ["e4m3fn", "bfloat16"])
def test_comfyuis_mark_goes_when_no_weight_is_scaled(tmp_path, to):
    """ComfyUI took plain FP8 for scaled, and two marks in one file were refused."""
    found, _ = quantized(tmp_path, "comfyui", "e4m3fn", (64, 64))
    out = tmp_path / "out.safetensors"
    convert_checkpoint(found, out, target("plain", to))
    assert sorted(open_checkpoint(out).entries) == ["m.norm.weight", "m.q.weight"]
    assert np.array_equal(
        values_of(weights_of(open_checkpoint(out))[-1]), lp.decode(lp.encode(values_of(_of(found)), to), to)
    )
    dequantize_checkpoint(found, out)
    assert sorted(open_checkpoint(out).entries) == ["m.norm.weight", "m.q.weight"]
    convert_checkpoint(found, out, target("comfyui", "e4m3fn"))
    assert "scaled_fp8" in open_checkpoint(out).entries
    words = r"'m\.q\.weight' would not be read .* without a scale, among weights that are scaled; .* too, or"
    expected = refusal(words)
    two = source(tmp_path / "two.safetensors", (64, 64), **{"m.k.weight": np.ones((64, 64), np.float32)})
    quantize_checkpoint(two, out, target("comfyui", "e4m3fn"))
    one = tmp_path / "one.safetensors"
    with expected if to == "e4m3fn" else contextlib.nullcontext():
        convert_checkpoint(open_checkpoint(out), one, target("plain", to), include=["*.q.*"])
        assert "scaled_fp8" in open_checkpoint(one).entries


@pytest.mark.parametrize("to", ["mxfp4", "e4m3fn"])
def test_tensors_with_the_name_of_comfyuis_mark_are_kept(tmp_path, to):
    """Keep tensors that only end as the mark does: they were left out without a word."""
    others = {"m.scaled_fp8": np.float32([1, 2, 3]), "n.scaled_fp8": np.ones((4, 64), np.float32)}
    found = source(tmp_path / "two.safetensors", (64, 64), **others)
    family = "quark" if to == "mxfp4" else "modelopt"
    quantize_checkpoint(found, tmp_path / "a.safetensors", target(family, to), include=["m.q.weight"])
    dequantize_checkpoint(open_checkpoint(tmp_path / "a.safetensors"), tmp_path / "b.safetensors")
    entries = open_checkpoint(tmp_path / "b.safetensors").entries
    assert all(np.array_equal(entries[name].read(), array) for name, array in others.items())
    quantize_checkpoint(found, tmp_path / "c.safetensors", target("plain", "e5m2"), include=["*"])
    assert open_checkpoint(tmp_path / "c.safetensors").entries.keys() == found.entries.keys()


def test_verify_refuses_a_source_with_nans_that_codes_lack(tmp_path):
    found, made = quantized(tmp_path, "modelopt", "nvfp4", (32, 64))

    def damage(tensors):
        tag, values = tensors["m.q.weight"]
        tensors["m.q.weight"] = tag, np.where(np.arange(64) == 3, np.nan, values).astype(values.dtype)

    other = changed(made, tmp_path / "nan.safetensors", damage)
    with refusal(r"'m\.q\.weight' has 32 NaNs in the source, and 'e2m1fn' has no"):
        verify_checkpoint(found, other)


@pytest.mark.parametrize("rounding", ["nearest_even", "stochastic(8)"])
def test_a_single_number_is_quantised_alone(tmp_path, rounding):
    """Quantise the scale of logits, say, which NumPy refused to concatenate."""
    found = source(tmp_path / "a.safetensors", (4, 32), **{"logit_scale": np.array(4.6, np.float32)})
    how = target("plain", "bfloat16", rounding=rounding)
    quantize_checkpoint(found, tmp_path / "b.safetensors", how, include=["logit_scale"])
    made = open_checkpoint(tmp_path / "b.safetensors").entries["logit_scale"]
    assert made.shape == ()
    assert float(made.read()) in (4.59375, 4.625)


def _of(checkpoint):
    """Return the weight of a checkpoint that is quantised."""
    (weight,) = [item for item in weights_of(checkpoint) if item.is_quantized]
    return weight


@pytest.mark.parametrize("shape", [(1 << 50, 0), (1 << 50, 0, 3), (0, 1 << 50)])
def test_tensors_without_elements_take_no_time(tmp_path, shape):
    """Their rows were gone through, thousands of millions of times."""
    path, out = tmp_path / "s.safetensors", tmp_path / "out.safetensors"
    writer = SafetensorsWriter(path.open("w+b"), [("m.weight", "F8_E4M3", shape), ("b", "F16", shape)], {})
    with writer:
        writer.sync()
    assert lint(open_checkpoint(path)) == ()
    assert dequantize_checkpoint(open_checkpoint(path), out) == ("m.weight",)
    assert open_checkpoint(out).entries["m.weight"].shape == shape


def test_codes_of_one_axis_are_shown_where_a_scheme_transposes(tmp_path):
    """`inspect` ended with an IndexError."""
    found, _ = quantized(tmp_path, "gpt-oss", "mxfp4", (2, 64, 32))

    def flatten(tensors):
        name = next(name for name in tensors if name.endswith("_blocks"))
        tensors[name] = tensors[name][0], tensors[name][1].reshape(-1)

    other = changed(found, tmp_path / "other.safetensors", flatten)
    assert "are no groups of 16 bytes" in inspect(other).as_json()["weights"][-1]["problem"]


#: The configuration of compressed-tensors, weights, scales, and the block; none where it would be a guess.
BLOCKS = [
    ({"strategy": "block", "block_structure": [128, 128]}, (576, 512), (5, 4), (128, 128)),
    ({"strategy": "block", "block_structure": "128x128"}, (576, 512), (5, 4), (128, 128)),
    ({"strategy": "block", "block_structure": [64, 32]}, (80, 64), (2, 2), (64, 32)),
    ({"strategy": "group", "group_size": 48}, (8, 80), (8, 2), (1, 48)),
    ({"strategy": "block", "block_structure": [64, 64]}, (576, 512), (5, 4), None),
    ({"strategy": "block"}, (576, 512), (5, 4), (128, 128)),
    (None, (576, 512), (5, 4), (128, 128)),
    (None, (200, 192), (4, 3), (64, 64)),
    (None, (8, 200), (8, 2), (1, 128)),
    (None, (90, 60), (3, 1), (30, 60)),
    (None, (70, 70), (4, 4), None),
    (None, (70, 70), (70, 1), (1, 70)),
]


@pytest.mark.parametrize(("said", "shape", "grid", "block"), BLOCKS)
def test_blocks_of_fp8_are_those_of_the_configuration(tmp_path, said, shape, grid, block):
    """Without one they are of 128x128 where these give the number of scales; others must follow from it."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 0x7E, shape).astype(np.uint8)
    scales = (2.0 ** rng.integers(-5, 5, grid)).astype(np.float32)
    path = tmp_path / "model.safetensors"
    plan = [("m.q.weight", "F8_E4M3", shape), ("m.q.weight_scale", "F32", grid)]
    with SafetensorsWriter(path.open("w+b"), plan, {}) as writer:
        writer.write("m.q.weight", codes)
        writer.write("m.q.weight_scale", scales)
    if said is not None:
        weights = {"num_bits": 8, "type": "float", **said}
        groups = {
            "other": {"targets": ["m.k"], "weights": {**weights, "block_structure": [16, 16]}},
            "group_0": {"targets": ["Linear"], "weights": weights},
        }
        config = {"quant_method": "compressed-tensors", "config_groups": groups}
        (tmp_path / "config.json").write_text(json.dumps({"quantization_config": config}))
    (weight,) = weights_of(open_checkpoint(path))
    assert weight.scheme.name == "float-quantized"
    if block is None:
        assert weight.problem[0] == "shape"
        assert ("several sizes" if said is None else "blocks of 64x64 need [9, 8]") in weight.problem[1]
        return
    assert weight.problem is None
    assert weight.sizes == block
    wide = np.kron(scales, np.ones(block, np.float32))[: shape[0], : shape[1]]
    assert np.array_equal(values_of(weight), codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32) * wide)


def _six_bits(path, names, config=None, **formats):
    """Write files of codes of six bits, as Quark names them, and return the formats that they are read in."""
    path.mkdir()
    for file, to in formats.items():
        parts = {f"{name}.weight": np.zeros((2, 48), np.uint8) for name in names.get(file, [file])}
        parts |= {f"{name}_scale": np.full((2, 2), 127, np.uint8) for name in parts}
        made = {} if to is None else {"lowprec": json.dumps({"scheme": f"quark {to}", "format": to})}
        save_file(parts, path / f"{file}.safetensors", made)
    if config is not None:
        (path / "config.json").write_text(json.dumps({"quantization_config": config}))
    found = weights_of(open_checkpoint(path))
    return {weight.name.removesuffix(".weight"): weight.problem or weight.element for weight in found}


@pytest.mark.parametrize("order", [1, -1])
def test_each_file_says_the_format_of_its_own_six_bits(tmp_path, order):
    """Those of all files were read as the last one says."""
    formats = dict(zip("ab", ("mxfp6_e2m3", "mxfp6_e3m2")[::order], strict=True))
    found = _six_bits(tmp_path / "all", {}, **formats, c=None)
    (rule, evidence) = found.pop("c")  # no file of lowprec's
    assert (rule, "these may be codes of 6 bits" in evidence) == ("shape", True)
    assert found == {name: f"{to.removeprefix('mxfp6_')}fn" for name, to in formats.items()}


def test_a_layer_of_quark_has_its_own_six_bits(tmp_path):
    """All layers were read in the format of the whole; the first pattern that matches counts."""
    e2m3, e3m2 = ({"weight": {"dtype": f"fp6_{name}"}} for name in ("e2m3", "e3m2"))
    config = {"quant_method": "quark", "global_quant_config": e2m3}
    names = {"f": ["a", "b.0", "b.1", "ab", "c", "d"]}
    layers = {"a": e3m2, "b.1": e2m3, "b.*": e3m2, "c": {"weight": {"dtype": "fp4"}}, "d": {"weight": None}}
    found = _six_bits(tmp_path / "own", names, {**config, "layer_quant_config": layers}, f="mxfp6_e3m2")
    assert found.pop("c")[0] == "shape"  # no codes of six bits, as its layer says
    assert found == {"a": "e3m2fn", "b.0": "e3m2fn", "b.1": "e2m3fn", "ab": "e2m3fn", "d": "e3m2fn"}
    only = {"quant_method": "quark", "layer_quant_config": {"a": e2m3}}  # and of others what lowprec wrote
    found = _six_bits(tmp_path / "only", names, only, f="mxfp6_e3m2")
    assert found == {name: "e2m3fn" if name == "a" else "e3m2fn" for name in names["f"]}


def test_a_layer_under_a_pattern_that_is_not_understood_is_not_decoded(tmp_path):
    whole = {"weight": {"dtype": "fp6_e2m3"}}
    layers = {"a": whole, r"re:(b)\1": {"weight": {"dtype": "fp6_e3m2"}}}
    config = {"quant_method": "quark", "global_quant_config": whole, "layer_quant_config": layers}
    found = _six_bits(tmp_path / "own", {"f": ["a", "bb"]}, config, f="mxfp6_e3m2")
    assert (found["a"], found["bb"][0]) == ("e2m3fn", "shape")


@pytest.mark.parametrize("order", [1, -1])
def test_each_file_says_whether_its_scales_lie_in_tiles(tmp_path, order):
    """Metadata of torchao that two exports left were taken from the last file."""
    name, tiled = "m._weight_qdata", {"a": order > 0, "b": order < 0}
    for file, said in tiled.items():
        parts = {name: np.zeros((128, 64), np.uint8), "m._weight_scale": np.full((128, 4), 127, np.uint8)}
        told = json.dumps({"_type": "MXTensor", "_data": {"is_swizzled_scales": said}})
        kept = parts if file == "a" else {"other": np.zeros(2, np.float32)}
        save_file(kept, tmp_path / f"{file}.safetensors", {"m.weight": told})
    assert [each.swizzled for each in weights_of(open_checkpoint(tmp_path)) if each.is_quantized] == [
        order > 0
    ]


def test_any_file_may_say_that_weights_are_scaled(tmp_path):
    """A weight of FP8 whose scale is lost counted as whole where the last file was a plain one."""
    codes = np.zeros((4, 4), ml_dtypes.float8_e4m3fn)
    with SafetensorsWriter((tmp_path / "a.safetensors").open("w+b"), [("m.weight", "F8_E4M3", (4, 4))],
                           {"lowprec": json.dumps({"scheme": "float-quantized"})}) as writer:  # fmt: skip
        writer.write("m.weight", codes)
    save_file({"b": np.zeros(2, np.float32)}, tmp_path / "b.safetensors", {"lowprec": '{"scheme": "plain"}'})
    (weight, _) = weights_of(open_checkpoint(tmp_path))
    assert weight.problem is not None
    assert weight.problem[0] == "fp8-without-scale"


@pytest.mark.parametrize(
    ("tag", "zero", "shifts"), [("F8_E4M3", 0.0, False), ("BF16", -0.0, False), ("I8", 3, True)]
)
def test_zero_points_that_are_not_zero_are_refused_by_name(tmp_path, tag, zero, shifts):
    """Codes were read as if there were none, and these were left out of what was written."""
    parts = {"m.weight": ("F8_E4M3", np.ones((2, 4), ml_dtypes.float8_e4m3fn))}
    parts |= {"m.weight_scale": ("F32", np.ones((2, 1), np.float32))}
    parts |= {"m.weight_zero_point": (tag, np.full((2, 1), zero).astype(TAGS[tag][0]))}
    plan = [(name, kind, data.shape) for name, (kind, data) in parts.items()]
    with SafetensorsWriter((tmp_path / "x.safetensors").open("w+b"), plan, {}) as writer:
        for name, (_, data) in parts.items():
            writer.write(name, data)
    (weight,) = weights_of(open_checkpoint(tmp_path / "x.safetensors"))
    assert (weight.problem is not None) == shifts
    if shifts:
        words = r"'m\.weight' cannot be decoded: m\.weight_zero_point has others than 0, which"
        with refusal(words):
            dequantize_checkpoint(open_checkpoint(tmp_path / "x.safetensors"), tmp_path / "y.safetensors")
        assert not (tmp_path / "y.safetensors").exists()


def test_weights_without_axes_or_elements_are_decoded_and_verified(tmp_path):
    e4m3, scale = ml_dtypes.float8_e4m3fn, np.array(2, np.float32)
    tensors = {"a.weight": np.array(448, e4m3), "b.weight": np.zeros((0, 64), e4m3)}
    save_file(tensors | {f"{name}_scale": scale for name in tensors}, tmp_path / "x.safetensors")
    checkpoint = open_checkpoint(tmp_path / "x.safetensors")
    found = {weight.name: values_of(weight) for weight in weights_of(checkpoint)}
    assert found["a.weight"] == 896
    assert found["b.weight"].shape == (0, 64)
    save_file(
        {"a.weight": np.float32([896]).reshape(()), "b.weight": np.zeros((0, 64))}, tmp_path / "s.safetensors"
    )
    verdicts = {v.name: v for v in verify_checkpoint(checkpoint, open_checkpoint(tmp_path / "s.safetensors"))}
    assert verdicts["a.weight"].rule == "max"
    assert verdicts["a.weight"].holds
    assert sorted(verdicts) == ["a.weight", "b.weight"]


@pytest.mark.parametrize(
    ("family", "to", "words"),
    [
        (
            "compressed-tensors",
            "nvfp4",
            "'m.w' has values up to 1e+300, whose scale has no inverse in float32",
        ),
        (
            "bitsandbytes",
            "nf4",
            "'m.w' holds 128 values that are NaN or infinite in float32, in rows 0 to 2;",
        ),
    ],
)
def test_numbers_beyond_float32_are_named_as_such(tmp_path, family, to, words):
    checkpoint = source(tmp_path / "x.safetensors", **{"m.w": np.full((2, 64), 1e300)})
    with refusal(re.escape(words)):
        quantize_checkpoint(checkpoint, tmp_path / "y.safetensors", target(family, to))
