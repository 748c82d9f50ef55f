"""GPTQ against its definition, column by column, and what becomes of outputs."""

import functools
import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import lowprec as lp
from lowprec.checkpoints.correcting import statistics_in
from lowprec.checkpoints.decoding import ranges, values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.checkpoints.weights import weights_of
from tests.checkpoints.files import refusal, source
from tests.command import lowprec

TARGETS = [
    ("modelopt", "nvfp4"),
    ("quark", "mxfp4"),
    ("compressed-tensors", "e4m3fn"),
    ("deepseek", "e4m3fn"),
    ("plain", "e5m2"),
    ("gguf", "iq4_nl"),
]


def _inputs(tmp_path, name="m.q.weight", columns=128, samples=512):
    """Inputs that depend on each other, of which one is always 0."""
    rng = np.random.default_rng(1)
    inputs = rng.standard_normal((samples, 24)) @ rng.standard_normal((24, columns))
    inputs = (inputs + 0.3 * rng.standard_normal((samples, columns))).astype(np.float32)
    inputs[:, 5] = 0
    save_file({name: inputs}, tmp_path / "inputs.safetensors")
    return inputs.astype(np.float64)


def _values(path):
    return values_of(
        next(weight for weight in weights_of(open_checkpoint(path)) if weight.name == "m.q.weight")
    )


def _reference(weight, inputs, fmt):
    """The algorithm as it is defined: the inverse for the columns that are left, anew for each."""
    hessian = inputs.T @ inputs
    hessian[np.diag_indices_from(hessian)] += np.diag(hessian) == 0
    hessian += 0.01 * np.diag(hessian).mean() * np.eye(len(hessian))
    left, codes, scales = weight.astype(np.float64), np.zeros(weight.shape, np.uint8), []
    for column in range(weight.shape[1]):
        block = slice(column // 32 * 32, column // 32 * 32 + 32)
        if column % 32 == 0:
            scales.append(lp.encode(left[:, block], fmt).scales)
        found = lp.encode(left[:, block], fmt, scales=scales[-1])
        codes[:, column] = found.codes[:, column % 32]
        inverse = np.linalg.inv(hessian[column:, column:])
        error = (left[:, column] - np.asarray(found, np.float64)[:, column % 32]) / inverse[0, 0]
        left[:, column + 1 :] -= np.outer(error, inverse[0, 1:])
    return codes, np.concatenate(scales, axis=1)


@pytest.mark.apart
def test_codes_and_scales_are_those_of_the_definition(tmp_path):
    made, inputs = source(tmp_path / "s.safetensors", (8, 128)), _inputs(tmp_path)
    statistics = statistics_in(tmp_path / "inputs.safetensors", "gptq")
    quantize_checkpoint(made, tmp_path / "q.safetensors", target("quark", "mxfp4"), statistics=statistics)
    codes, scales = _reference(made.entries["m.q.weight"].read(), inputs, "mxfp4")
    found = open_checkpoint(tmp_path / "q.safetensors").entries
    assert np.array_equal(found["m.q.weight_scale"].read(), scales)
    assert np.array_equal(found["m.q.weight"].read(), lp.BlockArray(codes, scales, "mxfp4").packed())


@pytest.mark.parametrize(("family", "to"), TARGETS)
def test_outputs_lose_less_than_by_rounding_alone(tmp_path, family, to):
    """Held against the outputs themselves; the report has the same numbers."""
    made, inputs = source(tmp_path / "s.safetensors", (48, 128)), _inputs(tmp_path, "m.q")
    ending = "gguf" if family == "gguf" else "safetensors"
    weight, how = made.entries["m.q.weight"].read().astype(np.float64), target(family, to)
    errors = {}
    for correct in (None, "gptq"):
        out = tmp_path / f"{correct}.{ending}"
        statistics = statistics_in(tmp_path / "inputs.safetensors", correct)
        reports, _ = quantize_checkpoint(made, out, how, statistics=statistics)
        outputs = inputs @ (_values(out) - weight).T
        errors[correct] = 10 * np.log10(((inputs @ weight.T) ** 2).sum() / (outputs**2).sum())
        report = reports["m.q.weight"]
        assert report["output_sqnr"] == pytest.approx(errors[correct], abs=1e-3)  # float32 values are read
        assert report["output_sqnr_of_rounding"] == pytest.approx(errors[None], abs=1e-3)
        assert report["samples"] == 512
        assert [finding for finding in lint(open_checkpoint(out)) if finding.severity == "error"] == []
    assert errors["gptq"] > errors[None] + 1


def test_without_a_correction_the_bytes_are_those_of_rounding(tmp_path):
    made, _ = source(tmp_path / "s.safetensors", (48, 128)), _inputs(tmp_path)
    how = target("modelopt", "nvfp4")
    quantize_checkpoint(made, tmp_path / "a.safetensors", how)
    statistics = statistics_in(tmp_path / "inputs.safetensors")
    quantize_checkpoint(made, tmp_path / "b.safetensors", how, statistics=statistics)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


@pytest.mark.apart
def test_rows_do_not_depend_on_each_other(tmp_path, monkeypatch):
    """Worked on a few at a time, the bytes are the same: also of tiles, whose rows share scales."""
    from lowprec.checkpoints import quantizing

    made, _ = source(tmp_path / "s.safetensors", (300, 128)), _inputs(tmp_path)
    statistics = statistics_in(tmp_path / "inputs.safetensors", "gptq")
    for family, to in (("deepseek", "e4m3fn"), ("modelopt", "nvfp4")):
        quantize_checkpoint(made, tmp_path / "whole.safetensors", target(family, to), statistics=statistics)
        with monkeypatch.context() as patched:
            patched.setattr(quantizing, "ranges", functools.partial(ranges, part=128 * 7))
            quantize_checkpoint(
                made, tmp_path / "parts.safetensors", target(family, to), statistics=statistics
            )
        whole, parts = (open_checkpoint(tmp_path / f"{name}.safetensors") for name in ("whole", "parts"))
        for name, entry in whole.entries.items():
            assert entry.read().tobytes() == parts.entries[name].read().tobytes()


def test_what_statistics_cannot_serve_is_refused(tmp_path):
    made, _ = source(tmp_path / "s.safetensors", (48, 128)), _inputs(tmp_path, columns=64)
    statistics, out = statistics_in(tmp_path / "inputs.safetensors"), tmp_path / "out.safetensors"
    with refusal(r"inputs 'm\.q\.weight' have shape \[512, 64\], and weight"):
        quantize_checkpoint(made, out, target("quark", "mxfp4"), statistics=statistics)
    with refusal("statistics of inputs are not used for bitsandbytes nf4"):
        quantize_checkpoint(made, out, target("bitsandbytes", "nf4"), statistics=statistics)
    save_file({"m.q.weight": np.full((3, 128), np.nan, np.float32)}, tmp_path / "nan.safetensors")
    with refusal("hold NaN or infinite values"):
        quantize_checkpoint(
            made, out, target("quark", "mxfp4"), statistics=statistics_in(tmp_path / "nan.safetensors")
        )
    with refusal("correct='awq' is no correction"):
        statistics_in(tmp_path / "nan.safetensors", "awq")
    assert not out.exists()
    out.symlink_to("inputs.safetensors")
    with refusal(r"out\.safetensors' has the statistics of inputs, and would"):
        quantize_checkpoint(made, out, target("quark", "mxfp4"), statistics=statistics)


def test_the_command_corrects(tmp_path):
    made, _ = source(tmp_path / "s.safetensors", (48, 128)), _inputs(tmp_path)
    words = ["checkpoint", "quantize", str(made.path), "-o", str(tmp_path / "o.safetensors"), "--to", "nvfp4"]
    result = lowprec(*words, "--correct", "gptq")
    assert (result.exit_code, "give --statistics" in result.output) == (2, True)
    inputs = ["--statistics", str(tmp_path / "inputs.safetensors")]
    result = lowprec(*words, *inputs, "--correct", "gptq")
    assert result.exit_code == 0, result.output
    assert "outputs' SQNR" in result.output
    said = json.loads(open_checkpoint(tmp_path / "o.safetensors").metadata["lowprec"])
    assert said["correct"] == "gptq"
