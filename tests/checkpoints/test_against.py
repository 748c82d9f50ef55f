"""Scales beside other blocks than their own, found by the source; and silence on right files."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from lowprec.checkpoints.correcting import statistics_in
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from tests.checkpoints.files import ENDINGS, changed
from tests.checkpoints.test_schemes import ALL
from tests.programs import need_package

RNG = np.random.default_rng(5)
SHAPE = (256, 256)
#: Weights whose rows are alike, unlike, or hold few large values.
WEIGHTS = {
    "normal": RNG.standard_normal(SHAPE),
    "uniform": RNG.uniform(-1, 1, SHAPE),
    "heavy": RNG.standard_t(2, SHAPE),
    "outliers": RNG.standard_normal(SHAPE) * np.where(RNG.random(SHAPE) < 0.01, 100, 1),
    "rows": RNG.standard_normal(SHAPE) * 2.0 ** RNG.integers(-9, 0, (256, 1)),
    "columns": RNG.standard_normal(SHAPE) * 2.0 ** RNG.integers(-9, 0, 256),
    "tiny": RNG.standard_normal(SHAPE) * 2.0 ** np.linspace(-140, -110, 256)[:, None],
    "repeated": np.tile(RNG.standard_normal((64, 64)), (4, 4)),
    "sparse": RNG.standard_normal(SHAPE) * (RNG.random(SHAPE) < 0.05),
    "low rank": RNG.standard_normal((256, 2)) @ RNG.standard_normal((2, 256)),
}
#: Schemes whose scales are in a tensor of their own, in the order of blocks.
ROLLED = [
    *(("compressed-tensors", to) for to in ("nvfp4", "mxfp4", "mxfp6_e2m3", "mxfp8_e4m3", "int4")),
    *(("modelopt", "nvfp4"), ("quark", "mxfp4"), ("torchao", "nvfp4"), ("deepseek-v4", "mxfp4")),
]


def _written(path, family, to, kind, **options):
    if family in ("gguf", "onnx"):
        need_package(family)
    weight = WEIGHTS[kind].astype(np.float32)
    weight = weight.reshape(2, 128, 256) if family == "gpt-oss" else weight
    save_file({"m.q.weight": weight}, path / "s.safetensors")
    made, out = open_checkpoint(path / "s.safetensors"), path / f"q{ENDINGS.get(family, '.safetensors')}"
    quantize_checkpoint(made, out, target(family, to, **options))
    return open_checkpoint(out), made


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize(("family", "to", "options"), ALL)
def test_no_scale_of_a_right_file_lies_elsewhere(tmp_path, family, to, options, kind):
    found, made = _written(tmp_path, family, to, kind, **options)
    assert "scale-misplaced" not in [finding.rule for finding in lint(found, made)]


def _rolled(found, path, by, axis):
    def change(tensors):
        (name,) = [
            name for name in tensors if name.rsplit(".", 1)[-1] in ("weight_scale", "_weight_scale", "scale")
        ]
        tag, scales = tensors[name]
        tensors[name] = tag, np.roll(scales, by, axis)

    return changed(found, path, change, found.metadata)


@pytest.mark.parametrize("kind", ["normal", "heavy", "rows"])
@pytest.mark.parametrize("rule", ["floor", "rceil", "ceil"])
def test_no_scale_by_another_rule_lies_elsewhere(tmp_path, rule, kind):
    found, made = _written(tmp_path, "quark", "mxfp4", kind, rule=rule)
    assert "scale-misplaced" not in [finding.rule for finding in lint(found, made)]


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("to", ["nvfp4", "mxfp4", "int4"])
def test_no_scale_of_a_corrected_weight_lies_elsewhere(tmp_path, to, kind):
    """Its values are farther from the source than the nearest are."""
    inputs = RNG.standard_normal((64, 8)) @ RNG.standard_normal((8, 256)) + RNG.standard_normal((64, 256)) / 8
    save_file({"m.q.weight": inputs.astype(np.float32)}, tmp_path / "inputs.safetensors")
    save_file({"m.q.weight": WEIGHTS[kind].astype(np.float32)}, tmp_path / "s.safetensors")
    made, out = open_checkpoint(tmp_path / "s.safetensors"), tmp_path / "q.safetensors"
    statistics = statistics_in(tmp_path / "inputs.safetensors", "gptq")
    quantize_checkpoint(made, out, target("compressed-tensors", to), statistics=statistics)
    assert "scale-misplaced" not in [finding.rule for finding in lint(open_checkpoint(out), made)]


@pytest.mark.parametrize("kind", ["normal", "heavy", "outliers", "rows"])
@pytest.mark.parametrize(("family", "to"), ROLLED)
@pytest.mark.parametrize(("by", "axis"), [(1, 0), (-1, 0), (17, 0), (1, 1)])
def test_scales_that_were_moved_are_found(tmp_path, family, to, kind, by, axis):
    """By a row, by some, and by a column; most were no finding, as the whole error stayed small."""
    found, made = _written(tmp_path, family, to, kind)
    rules = {
        finding.rule: finding for finding in lint(_rolled(found, tmp_path / "r.safetensors", by, axis), made)
    }
    finding = rules["scale-misplaced"]
    by = -by if (to, axis) == ("int4", 1) else by  # of two columns
    assert f"moved by {-by:+} {'column' if axis else 'row'}" in finding.evidence


@pytest.mark.parametrize(("family", "to"), [("modelopt", "nvfp4"), ("compressed-tensors", "e4m3fn")])
def test_small_losses_by_scales_of_other_rows_are_found(tmp_path, family, to):
    """Of a new layer of torch, whose rows are alike, and of scales for channels."""
    options = {"channel": True} if to == "e4m3fn" else {}
    found, made = _written(tmp_path, family, to, "uniform" if to == "nvfp4" else "normal", **options)
    (finding,) = lint(_rolled(found, tmp_path / "r.safetensors", 1, 0), made)
    assert finding.rule == "scale-misplaced"
    assert lint(_rolled(found, tmp_path / "r.safetensors", 1, 0)) == ()
