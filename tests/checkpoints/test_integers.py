"""Integers in safetensors: GPTQ, AWQ and those of compressed-tensors, by their layouts bit by bit."""

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from lowprec.checkpoints.converting import convert_checkpoint, dequantize_checkpoint
from lowprec.checkpoints.decoding import ranges, values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.checkpoints.schemes.packings import LONG_ROW, GgufPacking
from lowprec.checkpoints.schemes.words import ColumnWords
from lowprec.checkpoints.verifying import verify_checkpoint
from lowprec.checkpoints.weights import weights_of
from lowprec.spec import catalog
from tests.checkpoints.files import refusal
from tests.checkpoints.writers import folder

#: Which of eight columns each code of a word belongs to, in AWQ.
AWQ = (0, 2, 4, 6, 1, 3, 5, 7)


def words(codes, bits, axis, order=range(8)):
    """Pack codes along an axis, bit by bit: each run of 32 codes as one long whole number."""
    rows = np.moveaxis(np.asarray(codes), axis, -1)
    packed = []
    for row in rows.reshape(-1, rows.shape[-1]).tolist():
        row = [row[place // 8 * 8 + order[place % 8]] for place in range(len(row))]
        whole = sum(code << (bits * place) for place, code in enumerate(row))
        size = -(-len(row) * bits // 32)
        packed.append([whole >> (32 * place) & 0xFFFFFFFF for place in range(size)])
    found = np.array(packed, np.uint32).view(np.int32).reshape(*rows.shape[:-1], -1)
    return np.ascontiguousarray(np.moveaxis(found, -1, axis))


def columns(method, bits, *, size=32, shape=(64, 128), kind=np.float16, plus=0, order=None, config=None):
    """Return tensors of GPTQ or AWQ, their configuration, and the values: (N, K) of the scales' type."""
    rng = np.random.default_rng(bits)
    outputs, inputs = shape
    count = 1 if size == -1 else inputs // size
    groups = np.arange(inputs) // (inputs if size == -1 else size)
    if order == "act":
        groups = rng.permutation(groups)
    codes = rng.integers(0, 1 << bits, (inputs, outputs))
    zeros = rng.integers(1, 1 << bits, (count, outputs))
    scales = (rng.random((count, outputs)) * 0.01 + 0.001).astype(kind)
    values = (scales[groups] * (codes - zeros[groups]).astype(kind)).T
    tensors = {"m.q.scales": scales}
    if method == "awq":
        tensors |= {"m.q.qweight": words(codes, 4, 1, AWQ), "m.q.qzeros": words(zeros, 4, 1, AWQ)}
    else:
        tensors |= {"m.q.qweight": words(codes, bits, 0), "m.q.qzeros": words(zeros - plus, bits, 1)}
        tensors |= {"m.q.g_idx": groups.astype(np.int32)} if order else {}
    said = {"quant_method": method, "bits": bits, "group_size": size}
    if method == "gptq":
        said |= {"desc_act": order == "act", "sym": False, "checkpoint_format": "gptq" if plus else "gptq_v2"}
    return tensors, said | (config or {}), values


COLUMNS = {
    "gptq": dict(method="gptq", bits=4, plus=1, order="runs"),
    "gptq without g_idx": dict(method="gptq", bits=4, plus=1),
    "gptq act order": dict(method="gptq", bits=4, plus=1, order="act"),
    "gptq of 2 bits": dict(method="gptq", bits=2, plus=1, order="runs"),
    "gptq of 3 bits": dict(method="gptq", bits=3, plus=1, order="runs"),
    "gptq of 8 bits": dict(method="gptq", bits=8, plus=1, order="runs"),
    "gptq of one group": dict(method="gptq", bits=4, plus=1, size=-1, order="runs"),
    "gptq v2": dict(method="gptq", bits=4, order="act"),
    "gptq v2 in bfloat16": dict(method="gptq", bits=4, order="runs", kind=ml_dtypes.bfloat16),
    "gptq of auto-round": dict(
        method="gptq", bits=5, config={"quant_method": "auto-round", "packing_format": "auto_round"}
    ),
    "awq": dict(method="awq", bits=4),
    "awq of one group": dict(method="awq", bits=4, size=-1),
    "awq in groups of 128": dict(method="awq", bits=4, size=128, shape=(24, 256)),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_have_the_values_of_the_layout(tmp_path, case):
    tensors, config, values = columns(**COLUMNS[case])
    checkpoint = folder(tmp_path / "m", tensors, config)
    (weight,) = weights_of(checkpoint)
    assert weight.problem is None
    assert weight.name == "m.q.weight"
    assert weight.value_shape == values.shape
    found = values_of(weight)
    assert np.array_equal(found, values.astype(np.float32))
    exact = values_of(weight, dtype=np.float64)
    assert np.array_equal(exact.astype(np.float32).astype(values.dtype), values)
    assert lint(checkpoint) == ()
    alone = open_checkpoint(checkpoint.path / "model.safetensors")
    assert lint(alone) == ()


def rows(bits, size, *, shape=(48, 96), kind=ml_dtypes.bfloat16, signed=True, order=False, packed=True):
    """Return tensors of compressed-tensors, their configuration, and the values."""
    rng = np.random.default_rng(bits)
    half = 1 << (bits - 1)
    count = shape[-1] // size if size > 0 else 1
    grid = (1,) if size == 0 else (*shape[:-1], count)
    groups = np.arange(shape[-1]) // (size if size > 0 else shape[-1])
    groups = rng.permutation(groups) if order else groups
    codes = rng.integers(-half, half, shape)
    scales = (rng.random(grid) * 0.01 + 0.001).astype(kind)
    zeros = np.zeros(grid, int) if signed else rng.integers(-half, half, grid)
    spread = (lambda part: part) if size == 0 else (lambda part: part[..., groups])
    values = (codes - spread(zeros)).astype(kind) * spread(scales)
    tensors = {"m.q.weight_scale": scales}
    if packed:
        tensors["m.q.weight_packed"] = words(codes + half, bits, -1)
        tensors["m.q.weight_shape"] = np.array(shape, np.int64)
        tensors |= {} if signed else {"m.q.weight_zero_point": words(zeros + half, bits, -2)}
    else:
        tensors["m.q.weight"] = codes.astype(np.int8)
        tensors |= {} if signed else {"m.q.weight_zero_point": zeros.astype(np.int8)}
    tensors |= {"m.q.weight_g_idx": groups.astype(np.int32)} if order else {}
    strategy = {0: "tensor", -1: "channel"}.get(size, "group")
    said = {"num_bits": bits, "type": "int", "symmetric": signed, "strategy": strategy, "dynamic": False}
    said |= {"group_size": size} if size > 0 else {}
    group = {"targets": ["Linear"], "weights": said, "input_activations": None}
    config = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}
    return tensors, config | {"format": "pack-quantized" if packed else "int-quantized"}, values


ROWS = {
    "w8a8 of channels": dict(bits=8, size=-1, packed=False),
    "w8a8 of tensors": dict(bits=8, size=0, packed=False),
    "w8a8 of groups": dict(bits=8, size=32, packed=False),
    "w8a8 with zero points": dict(bits=8, size=-1, packed=False, signed=False),
    "w8a8 in float32": dict(bits=8, size=-1, packed=False, kind=np.float32),
    "w4a16": dict(bits=4, size=32),
    "w4a16 in float16": dict(bits=4, size=32, kind=np.float16),
    "w4a16 of channels": dict(bits=4, size=-1),
    "w4a16 of a tensor": dict(bits=4, size=0),
    "w4a16 with zero points": dict(bits=4, size=32, signed=False),
    "w4a16 of odd rows": dict(bits=4, size=-1, shape=(5, 37), signed=False),
    "w4a16 of experts": dict(bits=4, size=32, shape=(3, 16, 64), signed=False),
    "w4a16 with columns in order": dict(bits=4, size=32, order=True, signed=False),
    "w8a16": dict(bits=8, size=32, signed=False),
    "w3a16": dict(bits=3, size=32, signed=False),
    "w2a16": dict(bits=2, size=16),
}


@pytest.mark.parametrize("case", ROWS)
def test_rows_have_the_values_of_the_layout(tmp_path, case):
    tensors, config, values = rows(**ROWS[case])
    checkpoint = folder(tmp_path / "m", tensors, config)
    (weight,) = weights_of(checkpoint)
    assert weight.problem is None
    assert weight.value_shape == values.shape
    assert np.array_equal(values_of(weight), values.astype(np.float32))
    parts = [values_of(weight, *part) for part in ranges(weight, 7 * values.shape[-1])]
    assert np.array_equal(np.concatenate(parts), values.astype(np.float32))
    assert lint(checkpoint) == ()


@pytest.mark.parametrize("make", [lambda: columns("gptq", 4, plus=1, order="act"), lambda: rows(4, 32)])
def test_integers_become_values_and_other_schemes(tmp_path, make):
    tensors, config, values = make()
    checkpoint = folder(tmp_path / "m", tensors, config)
    assert dequantize_checkpoint(checkpoint, tmp_path / "v.safetensors") == ("m.q.weight",)
    plain = open_checkpoint(tmp_path / "v.safetensors")
    assert np.array_equal(plain.entries["m.q.weight"].read(), values.astype(np.float32))
    (verdict,) = verify_checkpoint(checkpoint, plain)
    assert verdict.codes_differ == 0
    reports, _ = convert_checkpoint(checkpoint, tmp_path / "c.safetensors", target("modelopt", "nvfp4"))
    assert reports["m.q.weight"]["sqnr"] > 10
    assert lint(open_checkpoint(tmp_path / "c.safetensors"), plain) == ()


def _rules(path, tensors, config):
    return {finding.rule for finding in lint(folder(path, tensors, config))}


def _without(end):
    return lambda tensors, config: tensors.pop(f"m.q.{end}")


def _set(end, change):
    def changed(tensors, config):
        tensors[f"m.q.{end}"] = change(tensors[f"m.q.{end}"])

    return changed


def _said(**keys):
    return lambda tensors, config: config.update(keys)


def _nan(array):
    array = array.copy()
    array.reshape(-1)[3] = np.nan
    return array


#: Defects of GPTQ with columns in order, and the rule that names each.
DEFECTS = {
    "scales are missing": (_without("scales"), "missing-scale"),
    "zero points are missing": (_without("qzeros"), "missing-zero-point"),
    "groups are missing": (_without("g_idx"), "parts"),
    "scales of the other axis": (_set("scales", lambda x: np.ascontiguousarray(x.T)), "parts"),
    "a group that there is not": (_set("g_idx", lambda x: x + 1), "parts"),
    "a group that is negative": (_set("g_idx", lambda x: np.where(x, x, -1)), "parts"),
    "groups of other columns": (_set("g_idx", lambda x: x[:-8]), "parts"),
    "a scale is NaN": (_set("scales", _nan), "scale-nan"),
    "scales are zero": (_set("scales", np.zeros_like), "scale-zero"),
    "scales are negative": (_set("scales", np.negative), "scale-negative"),
    "scales are inverted": (_set("scales", lambda x: 50 / x), "scale-inverted"),
    "another group size is said": (_said(group_size=64), ""),
    "desc_act is not said": (_said(desc_act=False), "group-index"),
    "other bits are said": (_said(bits=8), "format-disagrees"),
    "symmetric is said": (_said(sym=True), "zero-point"),
    "a zero point of 0 in version 1": (_set("qzeros", lambda x: x | 15), "zero-point"),
}


@pytest.mark.parametrize("case", DEFECTS)
def test_a_defect_of_gptq_is_named(tmp_path, case):
    change, rule = DEFECTS[case]
    tensors, config, _ = columns("gptq", 4, plus=1, order="act")
    assert _rules(tmp_path / "right", tensors, config) == set()
    change(tensors, config)
    assert _rules(tmp_path / "wrong", tensors, config) == ({rule} if rule else set())


def test_another_group_size_of_runs_is_named(tmp_path):
    tensors, config, _ = columns("awq", 4, config={"group_size": 64})
    assert _rules(tmp_path / "m", tensors, config) == {"scale-strategy"}


@pytest.mark.parametrize(
    ("change", "evidence", "remedy"),
    [
        (
            _set("weight_shape", lambda x: x[:1]),
            "m.q.weight_shape is I64 of shape [1], and m.q.weight_packed has shape [48, 12], whose rows and "
            "columns it must say as integers",
            "correct bits or group_size in the configuration; else a part is damaged, or of another weight",
        ),
        (
            lambda _, config: config["config_groups"]["group_0"]["weights"].update(strategy="row"),
            "the configuration says strategy 'row', which is none of tensor, channel, group, block, token, "
            "tensor_group, attn_head",
            "correct strategy in quantization_config",
        ),
        (
            _said(ignore="lm_head"),
            "the configuration has 'ignore', which is not understood: it is no list of names",
            "modules that may match it are not held against the configuration: name them",
        ),
        (
            _said(config_groups=[1]),
            "the configuration has 'config_groups', which is not understood: it is no table of groups",
            "modules that may match it are not held against the configuration: name them",
        ),
    ],
    ids=["shape", "strategy", "ignore", "groups"],
)
def test_what_is_wrong_with_packed_rows_is_said(tmp_path, change, evidence, remedy):
    tensors, config, _ = rows(4, 32, signed=False)
    change(tensors, config)
    (finding,) = lint(folder(tmp_path / "m", tensors, config))
    assert (finding.evidence, finding.remedy) == (evidence, remedy)


@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_a_weight_without_rows_has_any_group_size(tmp_path, method):
    tensors, config, _ = columns(method, 4)
    tensors = {name: part[:0] for name, part in tensors.items()}
    assert _rules(tmp_path / "m", tensors, config) == set()


def test_symmetric_weights_of_version_2_under_the_name_of_version_1(tmp_path):
    tensors, config, _ = columns("gptq", 4, plus=1, order="runs", config={"sym": True})
    tensors["m.q.qzeros"] = np.full_like(tensors["m.q.qzeros"], 0x77777777)
    assert _rules(tmp_path / "right", tensors, config) == set()
    tensors["m.q.qzeros"] = np.full_like(tensors["m.q.qzeros"], -0x77777778)
    (finding,) = lint(folder(tmp_path / "wrong", tensors, config))
    assert finding.rule == "zero-point"
    assert finding.evidence.endswith("as in a file of version 2")


#: Defects of packed rows with zero points.
ROW_DEFECTS = {
    "scales are missing": (_without("weight_scale"), "missing-scale"),
    "the shape is missing": (_without("weight_shape"), "parts"),
    "zero points are missing": (_without("weight_zero_point"), "missing-zero-point"),
    "another shape": (_set("weight_shape", lambda x: x + np.array([0, 64])), "parts"),
    "fewer scales": (_set("weight_scale", lambda x: np.ascontiguousarray(x[:8])), "parts"),
    "zero points as they are": (_set("weight_zero_point", lambda x: x[:2].copy()), "parts"),
    "a scale is NaN": (_set("weight_scale", _nan), "scale-nan"),
    "other bits are said": (
        lambda _, config: config["config_groups"]["group_0"]["weights"].update(num_bits=8), "parts"
    ),
    "another format is said": (_said(format="int-quantized"), "format-disagrees"),
    "a shape of one side": (_set("weight_shape", lambda x: x[:1]), "parts"),
    "an unknown strategy": (
        lambda _, config: config["config_groups"]["group_0"]["weights"].update(strategy="row"),
        "scale-strategy",
    ),
    "a name to ignore": (_said(ignore="lm_head"), "not-read"),
    "groups in a list": (_said(config_groups=[1]), "not-read"),
}  # fmt: skip


@pytest.mark.parametrize("case", ROW_DEFECTS)
def test_a_defect_of_packed_rows_is_named(tmp_path, case):
    change, rule = ROW_DEFECTS[case]
    tensors, config, _ = rows(4, 32, signed=False)
    assert _rules(tmp_path / "right", tensors, config) == set()
    change(tensors, config)
    assert _rules(tmp_path / "wrong", tensors, config) == {rule}


def test_a_weight_with_a_problem_is_refused_with_the_reason(tmp_path):
    tensors, config, _ = columns("gptq", 4, plus=1, order="act")
    del tensors["m.q.qzeros"]
    with refusal(r"m\.q\.qweight has no qzeros beside it"):
        dequantize_checkpoint(folder(tmp_path / "m", tensors, config), tmp_path / "v.safetensors")


def _strange():
    """Return a weight of a method that nobody knows: codes in bytes, and parts of other names."""
    codes = np.zeros((16, 32), np.uint8)
    return {"m.q.weight": codes, "m.q.weight_scale": np.ones((16, 1), np.float32), "m.q.meta": codes}


def test_an_unknown_method_is_named_as_unknown_and_not_as_broken(tmp_path):
    checkpoint = folder(tmp_path / "m", _strange(), {"quant_method": "xyz"})
    findings = lint(checkpoint)
    assert {(finding.rule, finding.severity) for finding in findings} == {("unknown-scheme", "note")}
    assert "quant_method 'xyz' is not one that lowprec knows" in findings[0].evidence
    with refusal("'xyz' is not one that lowprec knows"):
        dequantize_checkpoint(checkpoint, tmp_path / "v.safetensors")


@pytest.mark.parametrize(
    ("method", "key", "said"),
    [("modelopt", "quant_algo", "W4A16_AWQ"), ("compressed-tensors", "format", "marlin-24")],
)
def test_an_unknown_part_of_a_known_method_is_named(tmp_path, method, key, said):
    checkpoint = folder(tmp_path / "m", _strange(), {"quant_method": method, key: said})
    findings = lint(checkpoint)
    assert {(finding.rule, finding.severity) for finding in findings} == {("unknown-scheme", "note")}
    assert f"{key} {said!r} is not one that lowprec knows" in findings[0].evidence


def test_codes_beside_parts_that_no_scheme_has_are_unknown(tmp_path):
    """Of bitsandbytes' 8 bits; without such parts a scale is missing."""
    tensors = {"m.q.weight": np.zeros((16, 32), np.int8), "m.q.SCB": np.ones(16, np.float32)}
    checkpoint = folder(tmp_path / "m", tensors, {"quant_method": "bitsandbytes", "load_in_8bit": True})
    (finding,) = lint(checkpoint)
    assert (finding.rule, finding.severity) == ("unknown-scheme", "note")
    assert finding.evidence.endswith("by type and shape its scales may be m.q.SCB")
    del tensors["m.q.SCB"]
    assert _rules(tmp_path / "n", tensors, {}) == {"missing-scale"}


def test_scales_under_a_name_of_another_scheme_are_named_and_not_missed(tmp_path):
    """The remedy was to export again with the scales that lie beside the codes."""
    tensors = {"a.weight": np.zeros((300, 520), np.uint8), "a.scales": np.ones((3, 5), np.float16)}
    (finding,) = lint(folder(tmp_path / "m", tensors, {}))
    assert (finding.rule, finding.severity) == ("unknown-scheme", "note")
    assert finding.evidence == (
        "U8 of shape [300, 520], beside a.scales, which is no scheme that lowprec knows; by type and shape "
        "its scales may be a.scales"
    )
    with refusal("'a.weight' cannot be decoded: U8 of shape .* its scales may be a.scales"):
        dequantize_checkpoint(open_checkpoint(tmp_path / "m"), tmp_path / "v.safetensors")
    tensors |= {"a.meta": np.zeros(9, np.uint8), "a.scale_x": tensors.pop("a.scales")}
    (finding,) = lint(folder(tmp_path / "n", tensors, {}))
    assert "beside a.scale_x, a.meta, which" in finding.evidence
    assert finding.evidence.endswith("may be a.scale_x")
    tensors = {
        "a.weight": tensors["a.weight"],
        "a.weight_scale_2": np.ones((), np.float32),
    }  # half of NVFP4's
    assert _rules(tmp_path / "o", tensors, {}) == {"missing-scale"}


def test_scales_of_the_cache_are_judged(tmp_path):
    tensors, config, _ = rows(8, -1, packed=False)
    config["kv_cache_scheme"] = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False}
    (finding,) = lint(folder(tmp_path / "none", tensors, config))
    assert (finding.rule, finding.severity) == ("cache-scale-missing", "note")
    tensors |= {f"m.self_attn.{part}_scale": np.full(1, 0.5, ml_dtypes.bfloat16) for part in "kv"}
    assert _rules(tmp_path / "right", tensors, config) == set()
    tensors["m.self_attn.k_scale"] = np.zeros(1, ml_dtypes.bfloat16)
    assert _rules(tmp_path / "wrong", tensors, config) == {"cache-scale-invalid"}


@pytest.mark.parametrize(
    ("length", "bits"), [(24, "3 or 4"), (8, "2 or 3 or 4"), (1, "2 or 3 or 4 or 5 or 6")]
)
def test_words_of_several_widths_need_a_configuration(tmp_path, length, bits):
    """Short rows fill as many words with codes of another width; config.json says which."""
    save_file({"l.weight": np.ones((8, length), np.float32)}, tmp_path / "m.safetensors")
    made, how = (
        open_checkpoint(tmp_path / "m.safetensors"),
        target("compressed-tensors", "int4", channel=True),
    )
    with refusal(rf"for \[8, {length}\] may be codes of {bits}.* bits, and no config"):
        quantize_checkpoint(made, tmp_path / "out.safetensors", how)
    (tmp_path / "config.json").write_text("{}")
    quantize_checkpoint(open_checkpoint(tmp_path), tmp_path / "out", how)
    dequantize_checkpoint(open_checkpoint(tmp_path / "out"), tmp_path / "values.safetensors")
    values = open_checkpoint(tmp_path / "values.safetensors").entries["l.weight"].read()
    scales = open_checkpoint(tmp_path / "out").entries["l.weight_scale"].read().astype(np.float32)
    assert np.array_equal(values, np.broadcast_to(7 * scales, values.shape))


def test_words_of_gptq_of_several_widths_need_a_configuration(tmp_path):
    tensors, config, _ = columns("gptq", 4, shape=(1, 32))
    (weight,) = weights_of(folder(tmp_path / "alone", tensors, {}))
    assert "may be codes of 2 or 4 or 8 bits, and no configuration says which" in weight.problem[1]
    (weight,) = weights_of(folder(tmp_path / "m", tensors, config))
    assert weight.problem is None


@pytest.mark.parametrize("packing", [ColumnWords(), GgufPacking(type="q4_0"), LONG_ROW])
def test_a_packing_without_a_way_to_write_codes_writes_none(packing):
    """Refuse at once: codes as they are would be another packing's bytes."""
    codes, fmt = np.zeros((8, 32), np.uint8), catalog.format("int4")
    for call in (lambda: packing.packed(codes, fmt), lambda: packing.stored((8, 32), fmt)):
        with pytest.raises(NotImplementedError):
            call()
