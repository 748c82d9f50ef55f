"""The console lines of docs/checkpoints.md, run on small models that are what the page says they are."""

import importlib.util
import pathlib
import re
import shlex
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from lowprec.checkpoints import structure
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.cli.main import main
from tests import scheme_table
from tests.checkpoints.files import changed, source
from tests.command import lowprec
from tests.programs import need_package

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "checkpoints.md").read_text()
LINES = re.findall(r"^\$ lowprec (checkpoint .*)$", PAGE, re.M)


@pytest.fixture
def models(tmp_path, monkeypatch):
    """original/ and model/ of floats, model.safetensors too, quantised model.pt and model.onnx.

    gpt-oss/ in MXFP4; inputs of layers.
    """
    monkeypatch.chdir(tmp_path)
    for name, shape in (("original", (256, 192)), ("model", (256, 192)), ("experts", (2, 64, 96))):
        pathlib.Path(name).mkdir()
        source(pathlib.Path(name, "model.safetensors"), shape)
    inputs = np.random.default_rng(0).standard_normal((512, 192)).astype(np.float32)
    save_file({"m.q.weight": inputs}, "inputs.safetensors")
    shutil.copy("model/model.safetensors", "model.safetensors")
    quantize_checkpoint(open_checkpoint("experts"), pathlib.Path("gpt-oss"), target("gpt-oss", "mxfp4"))
    quantize_checkpoint(open_checkpoint("model"), pathlib.Path("model-nvfp4"), target("modelopt", "nvfp4"))
    made = open_checkpoint("model.safetensors")
    quantize_checkpoint(made, pathlib.Path("model.pt"), target("transformer-engine", "mxfp8_e4m3"))
    if importlib.util.find_spec("onnx"):
        quantize_checkpoint(made, pathlib.Path("model.onnx"), target("onnx", "nvfp4"))


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_page_runs(models, line):
    if ".onnx" in line:
        need_package("onnx")
    out = re.search(r"-o (\S+)", line)
    if out is not None and (place := pathlib.Path(out[1])).is_dir():
        shutil.rmtree(place)
    result = lowprec(*shlex.split(line))
    assert result.exit_code == 0, result.output
    assert out is None or pathlib.Path(out[1]).exists()


def test_the_finding_of_the_page_is_that_of_its_defect(models):
    """ModelOpt's multiplier, written by the other convention."""

    def invert(tensors):
        tag, number = tensors["m.q.weight_scale_2"]
        tensors["m.q.weight_scale_2"] = tag, np.float32(1) / number

    changed(open_checkpoint("model-nvfp4"), pathlib.Path("broken.safetensors"), invert)
    shown = re.search(r"\$ lowprec checkpoint lint model/\n(.*?1 finding\n)", PAGE, re.S)[1]
    result = lowprec("checkpoint", "lint", "broken.safetensors")
    assert result.exit_code == 1
    digits = r"[\d.]+(e[+-]\d+)?"
    assert re.sub(digits, "#", result.stdout) == re.sub(digits, "#", shown)


def test_the_page_has_every_rule_of_reading():
    rules = {*structure._PROBLEMS, *structure._FILES}
    assert {rule for rule in rules if f"`{rule}`" not in PAGE} == set()


def test_the_page_has_every_command():
    assert {line.split()[1] for line in LINES} == set(main.commands["checkpoint"].commands)


@pytest.mark.apart
@pytest.mark.filterwarnings("ignore")
def test_the_table_of_schemes_is_what_its_command_makes():
    """Of the writers that are installed, in the versions of the page."""
    shown = re.search(r"<!-- schemes -->\n(.*?)<!-- end -->", PAGE, re.S)[1].splitlines()
    known = {line.split("|")[2] for line in shown}
    made = [line for line in scheme_table.table().splitlines() if line.split("|")[2] in known]
    assert len(made) > 30
    assert set(made) <= set(shown)
