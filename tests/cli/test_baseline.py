"""`lowprec compare --baseline`: what an earlier report has is accepted, and nothing worse."""

import functools
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from junitparser import JUnitXml

import lowprec as lp
from lowprec.verify.conform.baseline import read_baseline
from tests.command import lowprec

X = np.random.default_rng(0).standard_normal(4096).astype(np.float32)


@functools.cache
def right():
    return np.asarray(lp.encode(X, "e4m3fn"))


@functools.cache
def cut():
    return np.asarray(lp.encode(X, "e4m3fn", rounding="toward_zero"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Values, codes that are cut, and a baseline of them."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    np.save("cut.npy", cut())
    written = compare("cut.npy", "--json")
    assert written.exit_code == 1
    Path("baseline.json").write_text(written.stdout)
    return tmp_path


def compare(name, *options):
    return lowprec("compare", "x.npy", name, "--to", "e4m3fn", *options)


def against(codes, *options):
    np.save("now.npy", codes)
    return compare("now.npy", "--baseline", "baseline.json", *options)


def test_the_same_differences_pass(folder):
    """And are still told, with their cause."""
    result = against(cut())
    assert result.exit_code == 0
    assert "explained by truncation" in result.stdout
    assert result.stdout.endswith("no worse than the baseline baseline.json\n")


def test_fewer_differences_pass(folder):
    """None, too."""
    half = np.where(np.arange(cut().size) % 2, cut(), right())
    assert against(half).exit_code == 0
    result = against(right())
    assert (result.exit_code, result.stdout) == (0, "4,096 results agree\n")


def _one_more():
    codes = cut().copy()
    codes[np.flatnonzero(cut() == right())[0]] ^= 1
    return codes


def _other_sign():
    codes = cut().copy()
    codes[np.flatnonzero(cut() != right())[0]] ^= 0x80
    return codes


def _up():
    """As many as before, in the other direction."""
    return np.where(cut() == right(), right(), right() + 1)


@pytest.mark.parametrize("codes", [_one_more, _other_sign, _up], ids=["more", "sign", "direction"])
def test_what_is_worse_fails_and_is_told(folder, codes):
    """In text and in the test report."""
    result = against(codes(), "--junit", "report.xml")
    assert result.exit_code == 1
    told = re.findall(r"^worse than the baseline: (.*: [\d,]+, [\d,]+ in the baseline)$", result.stdout, re.M)
    assert told
    ((case,),) = JUnitXml.fromfile("report.xml")
    (failure,) = case.result
    assert all(f"worse than the baseline: {line}" in failure.text for line in told)


def test_a_test_report_of_what_is_accepted_passes(folder):
    """With all that differs in its output."""
    assert against(cut(), "--junit", "report.xml").exit_code == 0
    ((case,),) = JUnitXml.fromfile("report.xml")
    assert not case.result
    assert "explained by truncation" in case.system_out


def test_fewer_results_are_worse(folder):
    """A baseline is no way to compare less."""
    np.save("x.npy", X[:100])
    result = against(cut()[:100])
    assert result.exit_code == 1
    assert "worse than the baseline: 100 results were compared, 4,096 in the baseline" in result.stdout


def test_flags_are_held_against_the_baseline(folder):
    """Their counts are counts like others."""
    flags = np.zeros(X.size, np.uint8)
    lp.encode(X, "e4m3fn", flags=flags)
    lost = flags.copy()
    lost[np.flatnonzero(flags)[:5]] = 0
    np.save("flags.npy", lost)
    Path("baseline.json").write_text(compare("cut.npy", "--flags", "flags.npy", "--json").stdout)
    assert against(cut(), "--flags", "flags.npy").exit_code == 0
    lost[np.flatnonzero(lost)[0]] = 0
    np.save("flags.npy", lost)
    result = against(cut(), "--flags", "flags.npy")
    assert result.exit_code == 1
    assert "worse than the baseline: flags: mismatches: 6, 5 in the baseline" in result.stdout
    result = against(cut())
    assert result.exit_code == 1
    assert "worse than the baseline: no flags were compared, 4,096 in" in result.stdout


def test_a_budget_must_be_that_of_the_baseline(folder):
    """Refuse a baseline that allows other distances, which says nothing about this run."""
    result = against(cut(), "--ulps", "1")
    assert result.exit_code == 2
    assert "was made with 'ulps': None, this comparison with 1; make one with the same" in result.stderr


def test_a_baseline_of_another_question_is_refused(folder):
    """Its counts would mean something else."""
    result = against(cut(), "--rounding", "toward_zero")
    assert result.exit_code == 2
    assert "the baseline 'baseline.json' is about" in result.output
    assert "make one with the same options and --json" in result.output


def _question(to, *options):
    return ("x.npy", "y.npy", "--to", to, *options)


BLOCKS = _question("nvfp4", "--no-why")
PRODUCT = ("m.npy", "m.npy", "m.npy", "--operation", "matmul", "--accumulation", "fp32_fma", "--no-why")
PRIVATE = _question("private", "--no-why", "--define")


@pytest.mark.parametrize(
    ("then", "now", "name"),
    [
        (_question("e4m3fn"), _question("e4m3fn", "--nan", "any"), "any_nan"),
        (
            _question("e4m3fn", "--scale", "s.npy", "--axis", "0"),
            _question("e4m3fn", "--scale", "s.npy", "--axis", "1"),
            "sizes",
        ),
        ((*BLOCKS, "--tensor-scale", "2"), (*BLOCKS, "--tensor-scale", "4"), "tensor_scale"),
        ((*BLOCKS, "--tensor-scale", "1"), BLOCKS, "tensor_scale"),
        ((*BLOCKS, "--scales", "b.npy"), BLOCKS, "scales"),
        (_question("mine.toml"), _question("other.toml"), "blocks"),
        (PRODUCT, (*PRODUCT, "--addend", "m.npy"), "addend"),
        ((*PRODUCT, "--scale", "1,r.npy"), (*PRODUCT, "--scale", "r.npy,1"), "scales"),
        (
            (*PRODUCT, "--scale", "f.npy,2", "--block", "16"),
            (*PRODUCT, "--scale", "g.npy,2", "--block", "8"),
            "block",
        ),
        (
            (*PRIVATE, "exponent_bits=4,trailing_bits=3,bias=7"),
            (*PRIVATE, "exponent_bits=4,trailing_bits=3,bias=8"),
            "definitions",
        ),
    ],
)  # fmt: skip
def test_a_baseline_of_other_options_is_refused(tmp_path, monkeypatch, then, now, name):
    """Hold what the words of the question leave out, and the parameters of formats of one name."""
    monkeypatch.chdir(tmp_path)
    x = X.reshape(64, 64)[:32, :32]
    arrays = {"x": x, "m": x, "y": np.zeros((32, 32), np.uint8), "b": np.zeros((32, 2), np.uint8)}
    arrays |= {"s": np.full(32, 2.0), "r": np.ones(32), "f": np.ones((32, 2)), "g": np.ones((32, 4))}
    for file, array in arrays.items():
        np.save(f"{file}.npy", array)
    for file, size in (("mine", 16), ("other", 8)):
        base = f'kind = "block format"\nname = "mine"\nelement = "e2m1fn"\nscale = "e8m0fnu"\nsize = {size}\n'
        Path(f"{file}.toml").write_text(base)
    written = lowprec("compare", *then, "--json")
    assert written.exit_code == 1, written.output
    Path("b.json").write_text(written.stdout)
    result = lowprec("compare", *then, "--baseline", "b.json")
    assert (result.exit_code, result.stdout.endswith("no worse than the baseline b.json\n")) == (0, True)
    result = lowprec("compare", *now, "--baseline", "b.json")
    assert result.exit_code == 2, result.output
    assert f"was made with '{name}': " in result.output


def test_a_report_that_does_not_tell_what_was_asked_is_no_baseline(folder):
    data = json.loads(Path("baseline.json").read_text())
    del data["asked"]
    Path("baseline.json").write_text(json.dumps(data))
    result = against(cut())
    assert result.exit_code == 2
    said = "it does not tell all that was asked, as reports of 0.2.0 and before do not"
    assert said in " ".join(result.output.split())


@pytest.mark.apart
def test_the_commands_of_the_page_work(folder):
    """The two lines of the page, in a shell."""
    page = (Path(__file__).parents[2] / "docs" / "compare.md").read_text().partition("## Baselines")[2]
    lines = re.search(r"^```console\n(.*?)^```", page, re.M | re.S)[1].splitlines()
    Path("cut.npy").rename("output.npy")
    Path("x.npy").rename("input.npy")
    Path("baseline.json").unlink()
    program = f"{shlex.quote(sys.executable)} -m lowprec "
    codes = [
        subprocess.run(line.replace("$ lowprec ", program), shell=True, check=False).returncode
        for line in lines
    ]
    assert codes == [1, 0]
    assert Path("report.xml").exists()


def test_what_is_not_whole_is_refused(folder):
    """Before anything is compared."""
    data = json.loads(Path("baseline.json").read_text())
    for key in ("mismatches", "situations", "classes", "flags", "question"):
        Path("baseline.json").write_text(json.dumps({name: data[name] for name in data if name != key}))
        result = against(cut())
        assert result.exit_code == 2
        assert f"is no whole report of compare ({key})" in result.output
    Path("baseline.json").write_text(json.dumps(data | {"mismatches": "many"}))
    assert "counts are integers" in against(cut()).output


@pytest.mark.parametrize("place", ["framework", "operation", "source", "target", "kind"])
def test_what_differs_is_named_by_texts(tmp_path, place):
    """Lists in the place of names ended in a traceback."""
    row = {"framework": "numpy", "operation": "cast", "source": "float32", "target": "binary16"}
    finding = {"kind": "other", "count": 1, "smallest": {}}
    path = tmp_path / "baseline.json"
    for wrong in ("numpy", ["numpy"]):
        row, finding = ({**each, place: wrong} if place in each else each for each in (row, finding))
        path.write_text(json.dumps({"schema": "lowprec.conform/2", "rows": [{**row, "findings": [finding]}]}))
        if wrong == "numpy":
            assert read_baseline(path, "conform").excuse([]) == ([], [])
    with pytest.raises(ValueError, match="is no whole report of conform"):
        read_baseline(path, "conform")
