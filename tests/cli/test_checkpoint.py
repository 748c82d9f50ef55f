"""`lowprec checkpoint`: what it prints, its exit codes, and that looking at headers waits for no compiler."""

import json
import re

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.checkpoints.files import changed, quantized
from tests.command import lowprec as command
from tests.support import python


def lowprec(*arguments):
    return command("checkpoint", *arguments)


def test_from_a_source_to_quantised_and_back(tmp_path):
    """quantize, inspect, lint, verify, convert and dequantize, one after the other."""
    quantized(tmp_path, "quark", "mxfp4")  # for its source
    source, made, moved = (
        tmp_path / "source.safetensors",
        tmp_path / "q.safetensors",
        tmp_path / "n.safetensors",
    )
    result = lowprec("quantize", source, "-o", made, "--to", "mxfp4", "--scheme", "quark", "--rule", "rceil")
    assert result.exit_code == 0
    assert "1 weights are now quark mxfp4" in result.stdout
    result = lowprec("inspect", made, "--all")
    assert result.exit_code == 0
    assert "m.q.weight  256x192  quark mxfp4  e2m1fn, e8m0fnu per 32  4.25 bits" in result.stdout
    assert json.loads(lowprec("inspect", made, "--json").stdout)["parameters"] == 256 * 192 + 8
    result = lowprec("lint", made, "--against", source)
    assert (result.exit_code, result.stdout) == (0, "no findings\n")
    result = lowprec("verify", made, source)
    assert result.exit_code == 0
    assert "rceil" in result.stdout
    result = lowprec("convert", made, "-o", moved, "--to", "nvfp4", "--scheme", "modelopt")
    assert result.exit_code == 0
    assert "3,072 of 3,072" in result.stdout
    result = lowprec("dequantize", moved, "-o", tmp_path / "d.safetensors", "--dtype", "BF16")
    assert (result.exit_code, result.stdout) == (
        0,
        f"1 weights decoded to BF16 in {tmp_path / 'd.safetensors'}\n",
    )


def test_a_finding_is_exit_code_1(tmp_path):
    found, made = quantized(tmp_path, "modelopt", "nvfp4")
    tensors = {"m.q.weight_scale_2": ("F32", np.float32(0))}
    changed(found, tmp_path / "bad.safetensors", lambda known: known.update(tensors))
    result = lowprec("lint", tmp_path / "bad.safetensors")
    assert result.exit_code == 1
    assert "error: m.q.weight_scale_2: tensor-scale-invalid\n    the tensor's scale is 0\n" in result.stdout
    assert json.loads(lowprec("lint", tmp_path / "bad.safetensors", "--json").stdout)["findings"][0]["remedy"]
    changed(found, tmp_path / "other.safetensors", lambda known: known.update({
        "m.q.weight": ("U8", known["m.q.weight"][1][::-1].copy())
    }))  # fmt: skip
    assert lowprec("verify", tmp_path / "other.safetensors", made.path).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inspect", "none.safetensors"), "there is no file or folder 'none.safetensors'"),
        (("quantize", "{source}", "-o", "{out}", "--to", "nvfp5"), "has no 'nvfp5'; it has nvfp4, mxfp4"),
        (
            ("quantize", "{source}", "-o", "{out}", "--to", "nvfp4", "--include", "x"),
            "no weight of .* would be",
        ),
        (("convert", "{source}", "-o", "{out}", "--to", "nvfp4"), "has no quantised weights; use quantize"),
        (("quantize", "{source}", "-o", "{out}", "--to", "mxfp4", "--rule", "up"), "unknown scale rule 'up'"),
    ],
)
def test_bad_input_is_exit_code_2(tmp_path, arguments, message):
    _, source = quantized(tmp_path, "quark", "mxfp4")
    result = lowprec(*(word.format(source=source.path, out=tmp_path / "x.safetensors") for word in arguments))
    assert result.exit_code == 2
    assert re.search(message, " ".join(result.stderr.split()))
    assert not (tmp_path / "x.safetensors").exists()


def test_nothing_to_verify_is_exit_code_3(tmp_path):
    _, source = quantized(tmp_path, "quark", "mxfp4")
    assert lowprec("verify", source.path, source.path).exit_code == 3


def test_help_and_inspect_do_not_import_numba(tmp_path):
    quantized(tmp_path, "quark", "mxfp4")
    for arguments in (["lint", "--help"], ["inspect", str(tmp_path / "quark-mxfp4.safetensors")]):
        program = (
            "import sys; from lowprec.cli.main import main\n"
            f"main({['checkpoint', *arguments]!r}, standalone_mode=False); sys.exit('numba' in sys.modules)"
        )
        python("-c", program)


def test_a_scale_that_was_raised_is_noted(tmp_path):
    save_file({"m.q.weight": np.full((16, 32), 1e-40, np.float32)}, tmp_path / "x.safetensors")
    arguments = ["checkpoint", "quantize", str(tmp_path / "x.safetensors"), "--to", "nvfp4", "-o"]
    result = command(*arguments, tmp_path / "out.safetensors")
    assert result.exit_code == 0
    assert "note: m.q.weight: a scale would be below 2**-126" in result.output


def test_a_line_end_in_a_name_begins_no_line_of_a_note(tmp_path):
    save_file({"m.q\nnote: b.weight": np.full((16, 32), 1e-40, np.float32)}, tmp_path / "x.safetensors")
    result = lowprec(
        "quantize", tmp_path / "x.safetensors", "--to", "nvfp4", "-o", tmp_path / "y.safetensors"
    )
    assert (result.exit_code, result.output.count("\nnote: ")) == (0, 1)
    assert "note: m.q\\nnote: b.weight: a scale would be below" in result.output


def test_dequantize_names_what_lacks_a_part_and_exits_with_2(tmp_path):
    save_file({"m.q.weight": np.ones((16, 32), np.uint8)}, tmp_path / "x.safetensors")
    arguments = ["checkpoint", "dequantize", str(tmp_path / "x.safetensors"), "-o"]
    result = command(*arguments, tmp_path / "out.safetensors")
    assert result.exit_code == 2
    assert "weight 'm.q.weight' cannot be decoded: U8 of shape [16, 32], without scales" in result.output
    assert not (tmp_path / "out.safetensors").exists()
