"""The action for GitHub: what it declares is whole, and its steps, run as they are written, do it."""

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
import yaml
from junitparser import JUnitXml

import lowprec as lp

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
PAGE = (ROOT / "docs" / "github-action.md").read_text()
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}

#: What GitHub's reference of metadata has, for composite actions.
TOP = {"name", "description", "author", "branding", "inputs", "outputs", "runs"}
STEP = {"name", "id", "if", "shell", "env", "run", "uses", "with", "working-directory", "continue-on-error"}


def test_the_action_has_what_actions_have():
    """Names of GitHub's metadata alone, and a shell for each step that runs."""
    assert set(ACTION) <= TOP
    assert ACTION["runs"]["using"] == "composite"
    assert set(ACTION["runs"]) == {"using", "steps"}
    assert re.fullmatch(r"[a-z-]+", ACTION["branding"]["icon"])
    for step in STEPS.values():
        assert set(step) <= STEP
        assert ("run" in step) == ("shell" in step)
        assert all(isinstance(value, str) for value in step.get("env", {}).values())
    for field in (*ACTION["inputs"].values(), *ACTION["outputs"].values()):
        assert field["description"]
    assert all(isinstance(field["default"], str) for field in ACTION["inputs"].values())


def test_every_expression_is_of_something_declared():
    """And every input is used."""
    text = (ROOT / "action.yml").read_text()
    expressions = re.findall(r"\$\{\{ (.*?) \}\}", text)
    ids = {step["id"] for step in STEPS.values() if "id" in step}
    for expression in expressions:
        kind, _, name = expression.partition(".")
        if kind == "inputs":
            assert name in ACTION["inputs"]
        elif kind == "steps":
            step, outputs, output = name.split(".")
            assert (step in ids, outputs) == (True, "outputs")
            (run,) = [each["run"] for each in STEPS.values() if each.get("id") == step]
            assert f"{output}=" in run
        else:
            assert expression == "github.action_path"
    assert {each.removeprefix("inputs.") for each in expressions if each.startswith("inputs.")} == set(
        ACTION["inputs"]
    )


def test_no_input_is_pasted_into_a_script():
    """It would be run as code: inputs come by the environment."""
    assert all("${{" not in step["run"] for step in STEPS.values())


def _environment(step, tmp_path, given):
    """The variables of a step, with its expressions filled in, as GitHub's runner does."""
    inputs = {name: field["default"] for name, field in ACTION["inputs"].items()} | given
    assert set(inputs) == set(ACTION["inputs"])

    def value(match):
        kind, _, name = match[1].partition(".")
        return inputs[name] if kind == "inputs" else str(ROOT)

    filled = {key: re.sub(r"\$\{\{ (.*?) \}\}", value, text) for key, text in step.get("env", {}).items()}
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    return {**os.environ, **filled, **files}


def _step(name, tmp_path, python=sys.executable, **given):
    """Run a step as GitHub does: its text in a file, given to its shell."""
    step = STEPS[name]
    assert step["shell"] == "python"
    script = tmp_path / "step.py"
    script.write_text(step["run"])
    for file in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        (tmp_path / file).write_text("")
    return subprocess.run(
        [python, script],
        env=_environment(step, tmp_path, given),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


def _run(tmp_path, **given):
    """The exit code of the main step, its outputs and its summary."""
    ran = _step("Run lowprec", tmp_path, **given)
    outputs = dict(line.split("=", 1) for line in (tmp_path / "GITHUB_OUTPUT").read_text().splitlines())
    return ran, outputs, (tmp_path / "GITHUB_STEP_SUMMARY").read_text()


@pytest.fixture
def folder(tmp_path):
    """Values, right codes and wrong ones, in a folder whose name has a space."""
    made = tmp_path / "a folder"
    made.mkdir()
    x = np.random.default_rng(0).standard_normal(1000, np.float32)
    np.save(made / "x.npy", x)
    np.save(made / "right.npy", lp.encode(x, "e4m3fn"))
    np.save(made / "cut.npy", lp.encode(x, "e4m3fn", rounding="toward_zero"))
    return made


@pytest.mark.apart
def test_compare_fails_passes_and_takes_a_baseline(folder):
    """With a report, outputs and a summary each time."""
    arguments = "x.npy cut.npy --to e4m3fn"
    ran, outputs, summary = _run(folder, command="compare", arguments=arguments)
    assert ran.returncode == 1, ran.stderr
    assert outputs == {"exit-code": "1", "junit": "lowprec-junit.xml"}
    assert "explained by truncation" in ran.stdout
    assert summary.startswith("### lowprec compare\n\n````````text\n")
    assert "explained by truncation" in summary
    ((case,),) = JUnitXml.fromfile(str(folder / "lowprec-junit.xml"))
    assert case.result

    ran, outputs, _ = _run(
        folder, command="compare", arguments="x.npy right.npy --to e4m3fn", junit="a b.xml"
    )
    assert (ran.returncode, outputs["junit"]) == (0, "a b.xml")
    assert not next(iter(next(iter(JUnitXml.fromfile(str(folder / "a b.xml")))))).result

    capture = ROOT / "docs" / "examples" / "capture.npz"
    ran, _, _ = _run(folder, command="compare", arguments=f"'{capture}' --no-why")
    assert ran.returncode == 0, ran.stderr
    assert len(next(iter(JUnitXml.fromfile(str(folder / "lowprec-junit.xml"))))) == 8

    report = subprocess.run(
        [sys.executable, "-m", "lowprec", "compare", *arguments.split(), "--json"],
        cwd=folder, capture_output=True, check=False,
    )  # fmt: skip
    (folder / "base line.json").write_bytes(report.stdout)
    ran, outputs, _ = _run(folder, command="compare", arguments=arguments, baseline="base line.json")
    assert (ran.returncode, outputs["exit-code"]) == (0, "0")
    assert "no worse than the baseline" in ran.stdout


@pytest.mark.apart
def test_conform_runs_with_a_baseline(folder):
    """Of one cast, as quoted arguments say."""
    arguments = "ml_dtypes --source float64 --target 'e4m3fn' --samples 1000"
    ran, outputs, summary = _run(folder, arguments=arguments)
    assert (ran.returncode, outputs["exit-code"]) == (0, "0")
    assert "beyond the known divergences" in summary
    report = subprocess.run(
        [sys.executable, "-m", "lowprec", "conform", *arguments.replace("'", "").split(), "--json"],
        cwd=folder, capture_output=True, check=True,
    )  # fmt: skip
    data = json.loads(report.stdout)
    data["rows"][0]["findings"].append(data["rows"][0]["findings"][0] | {"kind": "tie"})
    (folder / "then.json").write_text(json.dumps(data))
    ran, _, _ = _run(folder, arguments=arguments, baseline="then.json")
    assert ran.returncode == 0
    assert "gone, so write the baseline again: ml_dtypes cast float64 e4m3fn tie" in ran.stdout


@pytest.mark.apart
def test_the_baseline_of_the_page_can_be_written(folder):
    """By its command; here of what is installed."""
    (command,) = re.findall(r"^\$ lowprec (conform .*)$", PAGE, re.M)
    words = command.replace("torch jax", "numpy --operation sqrt").split()
    (folder / ".github").mkdir()
    subprocess.run([sys.executable, "-m", "lowprec", *words], cwd=folder, check=True)
    ran, _, _ = _run(folder, arguments="numpy --operation sqrt", baseline=words[-1])
    assert ran.returncode == 0, ran.stdout


@pytest.mark.apart
@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ({"command": "golden"}, 1, "::error::command is 'golden'; use conform or compare"),
        ({"arguments": "numpy --target e4m3fn"}, 3, "nothing was compared"),
        ({"arguments": "$(touch made) ; touch made"}, 2, "unknown framework"),
        ({"command": "compare", "arguments": "a.npy b.npy", "baseline": "none.json"}, 2, "does not exist"),
    ],
)
def test_what_cannot_be_run_fails(given, code, words, folder):
    """Without anything that the arguments say being run by a shell."""
    ran, _, _ = _run(folder, **given)
    assert ran.returncode == code
    assert words in ran.stdout + ran.stderr
    assert not (folder / "made").exists()


@pytest.mark.apart
def test_the_installing_step_installs_this_checkout(tmp_path):
    """Into an environment of its own, which sees what this one has, so that little is downloaded."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(str(Path(np.__file__).parents[1]) + "\n")
    ran = _step("Install lowprec", tmp_path, python, packages='"click>=8" rich')
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = subprocess.run(
        [python, "-c", "import lowprec; print(lowprec.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(site / "lowprec" / "__init__.py")
    assert _step("Install lowprec", tmp_path, python, packages="no-such-package==0").returncode != 0


def test_the_page_uses_inputs_that_there_are():
    """Every workflow on it is YAML, and each use of the action names its inputs."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
    used = []
    for block in blocks:
        for job in yaml.safe_load(block)["jobs"].values():
            used += [step for step in job["steps"] if step.get("uses", "").startswith("OWNER/lowprec@")]
    assert len(used) >= 2
    assert all(set(step.get("with", {})) <= set(ACTION["inputs"]) for step in used)
    for name in ACTION["inputs"]:
        assert f"`{name}`" in PAGE
    for name in ACTION["outputs"]:
        assert f"`{name}`" in PAGE
