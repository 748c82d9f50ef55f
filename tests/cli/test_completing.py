"""What a shell completes: commands, options, names of formats and the like, and files."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

import lowprec as lp
from lowprec.cli.main import main
from lowprec.verify.frameworks import FRAMEWORKS
from tests.support import python

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text()


def complete(*words):
    """The completions of the last word."""
    *before, last = words
    found = ShellComplete(main, {}, "lowprec", "_LOWPREC_COMPLETE").get_completions(before, last)
    return [item.value if item.type == "plain" else item.type for item in found]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["conf"], ["conform"]),
        (["do"], ["doctor"]),
        (["conform", "--ba"], ["--baseline"]),
        (["compare", "x.npy", "y.npy", "--ju"], ["--junit"]),
        (["show", "e4m3f"], ["e4m3fn", "e4m3fnuz"]),
        (["show", "nf"], ["nf4"]),
        (["show", "hopper_wgmma_e4m3fn_binary3"], ["hopper_wgmma_e4m3fn_binary32"]),
        (["show", "ocp_"], ["ocp_sat", "ocp_ovf"]),
        (["show", "e4m3fn", "--profile", "torch<"], ["torch<2.13"]),
        (["table", "e5m2"], ["e5m2", "e5m2fnuz"]),
        (["explain", "464", "e4m3b"], ["e4m3b11fnuz"]),
        (["explain", "464", "e4m3fn", "--from", "bf"], ["bfloat16"]),
        (["warm", "mxfp4"], ["mxfp4"]),
        (["check-format", "mxfp4"], ["mxfp4"]),
        (["conform", "gfloat_sc"], ["gfloat_scalar", "gfloat_scalar_ties_away"]),
        (["conform", "torch", "jax", "onnxruntime_"], ["onnxruntime_nosat"]),
        (["conform", "--target", "mxfp8_e5"], ["mxfp8_e5m2"]),
        (["conform", "--source", "bf"], ["bfloat16"]),
        (["conform", "--operation", "sq"], ["sqrt"]),
        (["compare", "x.npy", "c.npy", "--to", "nvfp4_"], ["nvfp4_2d"]),
        (["compare", "x.npy", "c.npy", "--accumulation", "fp32_f"], ["fp32_fma"]),
        (["compare", "x.npy", "c.npy", "--rule", "rc"], ["rceil"]),
        (["compare", "x.npy", "c.npy", "--rounding", "to"], None),
        (["compare", "x.npy", "c.npy", "--saturation", "fi"], ["finite"]),
        (["compare", "x"], ["file"]),
        (["vectors", "fm"], ["fma"]),
        (["vectors", "dot", "ampere_mma_tf"], ["ampere_mma_tf32_binary32"]),
        (["show", "mine.t"], ["file"]),
        (["conform", "none_such"], []),
    ],
)
def test_a_word_is_completed(words, wanted):
    """By what the command takes there."""
    if wanted is None:
        wanted = ["to_odd", "toward_zero", "toward_positive", "toward_negative"]
        assert sorted(complete(*words)) == sorted(wanted)
    else:
        assert complete(*words) == wanted


def test_all_names_are_offered():
    """Where nothing is typed yet."""
    assert {*lp.formats, *lp.block_formats, *lp.accumulations, *lp.profiles} <= {*complete("show", "")}
    assert complete("conform", "") == [*FRAMEWORKS]
    assert {*complete("")} == {*main.commands}


@pytest.mark.apart
@pytest.mark.parametrize(("shell", "line"), re.findall(r"^\| (bash|zsh|fish) \| `(.*?)`", PAGE, re.M))
def test_the_lines_of_the_page_print_a_script(shell, line):
    """The page has one for each shell; it is sourced by the shell itself where that is installed."""
    assert f"_LOWPREC_COMPLETE={shell}_source lowprec" in line
    program = (
        "import sys; sys.argv[0] = 'lowprec'; from lowprec.cli.main import main; main(prog_name='lowprec')"
    )
    script = python("-c", program, _LOWPREC_COMPLETE=f"{shell}_source")
    assert f"_LOWPREC_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        subprocess.run(
            [shell, "-n"] if shell != "bash" else ["bash", "-n"], input=script, text=True, check=True
        )


@pytest.mark.apart
@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_completes(tmp_path):
    """By the line of the page, with the program on the path."""
    program = tmp_path / "lowprec"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{_MAIN}" "$@"\n')
    program.chmod(0o755)
    (line,) = re.findall(r"^\| bash \| `(.*?)`", PAGE, re.M)
    script = f"""{line}
COMP_WORDS=(lowprec explain 464 e4m3f) COMP_CWORD=3
_lowprec_completion lowprec
echo "${{COMPREPLY[@]}}"
"""
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert run.stdout.split() == ["e4m3fn", "e4m3fnuz"], run.stderr


_MAIN = "from lowprec.cli.main import main; main(prog_name='lowprec')"
