"""Every option that takes a name takes a file that defines the thing; lists are filtered by words."""

import json
import pathlib

import numpy as np
import pytest

import lowprec as lp
from tests.command import lowprec as run

FILE = """
[unit]
base = "ada_mma_e4m3fn_binary32"
accumulator = { fraction_bits = 12 }
[pairs]
element = "e2m1fn"
scale = "e8m0fnu"
size = 2
[stack.formats]
e4m3fn = { saturation = "finite", rounding = "toward_zero" }
[tiny]
exponent_bits = 2
trailing_bits = 1
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("mine.toml").write_text(FILE)


@pytest.mark.parametrize("name", ["unit", "pairs", "stack", "tiny"])
def test_show_shows_each_and_writes_it_back(name):
    """What is printed with --toml is the same thing."""
    assert run("show", f"mine.toml:{name}").exit_code == 0
    written = run("show", f"mine.toml:{name}", "--toml")
    assert written.exit_code == 0
    pathlib.Path("again.toml").write_text(written.output)
    assert lp.load_toml("again.toml")[name] == lp.load_toml("mine.toml")[name]


@pytest.mark.apart
def test_compare_takes_an_accumulation_a_block_format_and_a_profile():
    """Each from the same file: its kind says which is meant."""
    held = lp.load_toml("mine.toml")
    random = np.random.default_rng(0)
    x, y = (lp.quantize(random.standard_normal((64, 16)), "e4m3fn") for _ in range(2))
    np.save("x.npy", x)
    np.save("y.npy", y)
    np.save("z.npy", lp.dot(x, y, held["unit"]))
    same = ("compare", "x.npy", "y.npy", "z.npy", "--operation", "dot", "--accumulation")
    assert run(*same, "mine.toml").output == "64 results agree\n"
    assert run(*same, "ada_mma_e4m3fn_binary32").exit_code == 1
    blocks = lp.encode(x, held["pairs"])
    np.save("codes.npy", blocks.codes)
    np.save("scales.npy", blocks.scales)
    found = run("compare", "x.npy", "codes.npy", "--to", "mine.toml:pairs", "--scales", "scales.npy")
    assert found.exit_code == 0
    np.save("codes.npy", lp.encode(x * np.float32(1.06), "e4m3fn", profile=held["stack"]))
    np.save("x.npy", x * np.float32(1.06))
    assert run("compare", "x.npy", "codes.npy", "--to", "e4m3fn", "--profile", "mine.toml").exit_code == 0
    assert run("compare", "x.npy", "codes.npy", "--to", "e4m3fn").exit_code == 1


@pytest.mark.apart
def test_a_format_of_a_file_is_one_everywhere():
    """An operand, a result, and what laws are held against."""
    one, named = (run("table", name).output.splitlines() for name in ("mine.toml", "mine.toml:tiny"))
    assert one[1:] == named[1:] != []
    assert run("vectors", "add", *["mine.toml:tiny"] * 3).exit_code == 0
    assert run("check-format", "mine.toml:tiny", "--samples", "1").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("show", "mine.toml"),
            "'mine.toml' has several; name one as mine.toml:NAME: 'unit' (accumulation), ",
        ),
        (
            ("show", "mine.toml:units"),
            "has no format or block format or accumulation or profile or codebook 'units'; it has",
        ),
        (("table", "mine.toml:unit"), "'mine.toml' has no format 'unit'; it has 'unit' (accumulation), "),
        (("show", "tiny.toml"), "cannot read 'tiny.toml' as TOML"),
        (("show", "mine.toml:unit", "--toml", "--json"), "--toml and --json are two ways to print; give one"),
        (
            ("show", "e4m3fn", "--profile", "mine.toml", "--toml"),
            "--toml shows block formats as a --profile has",
        ),
    ],
)
def test_what_a_file_has_not_is_refused_with_what_it_has(words, message):
    """And ends with code 2."""
    result = run(*words)
    assert (result.exit_code, message in result.output) == (2, True), result.output


def test_lists_are_filtered_by_words():
    """Of names, formats and what is said of one; each word must be there."""
    listed = json.loads(run("list", "accumulations", "hopper", "E5M2", "binary16", "--json").output)
    names = [item["name"] for item in listed]
    assert names == [
        name for name in lp.accumulations if "hopper" in name and "e5m2" in name and "binary16" in name
    ]
    assert len(names) == 6
    listed = json.loads(run("list", "blocks", "divide", "ue4m3", "--json").output)
    assert [item["name"] for item in listed] == ["nvfp4", "nvfp4_2d"]
    assert "mxfp4" not in run("list", "formats", "p3109").output
    assert "riscv" in run("profiles", "binary16").output
    assert "torchao_floor" not in run("profiles", "binary16").output
    assert run("list", "profiles").output == run("profiles").output
    assert (
        "nothing here has 'hopper' and 'cdna'; leave some of it out"
        in run("accumulations", "hopper", "cdna").output
    )


@pytest.mark.apart
def test_a_codebook_of_a_file_goes_wherever_a_format_does():
    """Alone in a file, or beside the blocks whose scales are in it."""
    pathlib.Path("book.toml").write_text('kind = "codebook"\nvalues = [0.0, 0.5, 1.0, 2.0]\n')
    pathlib.Path("blocks.toml").write_text(
        '[book]\nkind = "codebook"\nvalues = [0.0, 0.5, 1.0, 2.0]\n'
        '[mine]\nelement = "e2m1fn"\nscale = "book"\nsize = 16\n'
    )
    assert "lowprec_book_encode" in run("table", "book.toml", "--as", "c").output
    assert "package lowprec_book" in run("table", "book.toml", "--as", "sv").output
    assert "# convert binary32 to book" in run("vectors", "convert", "binary32", "book.toml").output
    for name in ("book.toml", "blocks.toml", "blocks.toml:book"):
        assert run("check-format", name).exit_code == 0
    assert "a scale in book" in run("show", "blocks.toml").output
