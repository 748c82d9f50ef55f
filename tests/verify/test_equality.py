"""Two quantisers held against each other: every difference is seen, and none where there is none."""

import functools
import json
import re
import sys

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.verify.compare.equality import Equality
from lowprec.verify.inputs.matrices import matrices

X = np.random.default_rng(5).standard_normal((128, 512)).astype(np.float32)


def parts(report: Equality) -> dict[str, tuple[int, int]]:
    return {part.name: (part.compared, part.differ) for part in report.parts}


def of_rows(x: np.ndarray, factor: bool = False) -> tuple[np.ndarray, np.ndarray]:
    scale = (np.abs(x).max(axis=1, keepdims=True) / np.float32(448)).astype(np.float32)
    scaled = x * (np.float32(1) / scale) if factor else x / scale
    return lp.encode(scaled.astype(np.float32), "e4m3fn", saturation="finite"), scale


@pytest.mark.parametrize("name", ["mxfp4", "fp8_block_128x128"])
def test_elements_of_short_blocks_belong_to_their_own_scale(name):
    x = X[:, :144]
    one = lp.encode(x, name)
    scales, codes = one.scales.copy(), one.codes.copy()
    scales[..., -1] += 1
    codes[:, 120:] ^= 1
    report = lp.equal_quantizers(one, (codes, scales), name, x, why=False)
    assert report.parts[-1].alone == 128 * 8  # in columns 120 to 127


def test_a_scale_of_the_tensor_that_one_side_lacks_is_told():
    blocks = lp.encode(X, "nvfp4")
    given = blocks.codes, blocks.scales
    report = lp.equal_quantizers(given, (*given, blocks.tensor_scale), "nvfp4", X)
    assert report.read == ["the first gave no scale of the tensor, so none was compared"]


@pytest.mark.apart
def test_a_quantiser_equals_itself_in_each_kind_of_result():
    blocks = lp.encode(X, "nvfp4")
    for given in (
        lambda x: lp.encode(x, "nvfp4"),
        blocks,
        (blocks.codes, blocks.scales, blocks.tensor_scale),
        (blocks.codes.view(ml_dtypes.float4_e2m1fn), blocks.scales.reshape(-1), blocks.tensor_scale),
        (blocks.packed(), blocks.swizzled(), blocks.tensor_scale),
        (blocks.codes, blocks.scales.T, blocks.tensor_scale),
    ):
        report = lp.equal_quantizers(given, "ocp", "nvfp4", X)
        assert report, report
        assert parts(report) == {"tensor scales": (1, 0), "scales": (4096, 0), "elements": (X.size, 0)}


@pytest.mark.apart
@pytest.mark.parametrize("source", ["float32", "bfloat16"])
def test_profiles_that_differ_are_told_apart_with_their_rules(source):
    report = lp.equal_quantizers("torchao_rceil", "ocp", "mxfp4", source=source, samples=0)
    assert not report
    assert report.differ
    assert [side.agrees for side in report.sides] == [False, True]
    assert report.sides[0].cause.words == "what profile 'torchao_rceil' does"


def test_one_changed_code_is_found_where_it_is():
    blocks = lp.encode(X, "mxfp4")
    codes = blocks.codes.copy()
    codes[17, 300] ^= 1
    report = lp.equal_quantizers(blocks, (codes, blocks.scales), "mxfp4", X, why=False)
    assert parts(report) == {"scales": (2048, 0), "elements": (X.size, 1)}
    elements = report.parts[1]
    assert elements.alone == 1
    was, now = (f"0x{int(each[17, 300]):x}" for each in (blocks.codes, codes))
    assert elements.first == f"{float(X[17, 300])!r} at (17, 300): the first {was}, the second {now}"


def test_elements_of_a_block_with_another_scale_are_counted_apart():
    blocks = lp.encode(X, "mxfp4")
    scales, codes = blocks.scales.copy(), blocks.codes.copy()
    scales[3, 2] += 1
    codes[3, 64:96] ^= 1
    codes[4, 0] ^= 1
    report = lp.equal_quantizers((codes, scales), blocks, "mxfp4", X, why=False)
    assert parts(report) == {"scales": (2048, 1), "elements": (X.size, 33)}
    assert report.parts[1].alone == 1
    assert report.parts[0].first.startswith("of block (3, 2): the first 0x")


@pytest.mark.apart
def test_a_quotient_by_the_reciprocal_is_told_from_a_division():
    report = lp.equal_quantizers(of_rows, lambda x: of_rows(x, True), "e4m3fn", saturation="finite")
    assert not report
    counts = parts(report)
    assert counts["scales"][1] == 0
    assert 0 < counts["elements"][1] < 1000
    assert "reciprocal of the scale" in report.sides[1].cause.words


@pytest.mark.apart
def test_a_scale_of_the_tensor_that_differs_is_told_though_both_are_right_under_their_own():
    report = lp.equal_quantizers("transformer_engine", "ocp", "nvfp4", samples=0)
    assert parts(report)["tensor scales"][1] > 0
    assert "amax" in report.parts[0].first


def test_numbers_of_two_types_are_equal_where_they_are_the_same_number():
    codes, scale = of_rows(X)
    scale32, scale64 = scale.astype(np.float32), scale.astype(np.float64)
    assert lp.equal_quantizers((codes, scale32), (codes.astype(np.int64), scale64), "e4m3fn", X)
    scale64[5] = np.nextafter(scale64[5], 1)
    report = lp.equal_quantizers((codes, scale32), (codes, scale64), "e4m3fn", X, why=False)
    assert parts(report) == {"scales": (128, 1), "elements": (X.size, 0)}
    blocks = lp.encode(X, "nvfp4")
    one = (blocks.codes, blocks.scales, np.full(1, blocks.tensor_scale))
    assert lp.equal_quantizers(one, blocks, "nvfp4", X)


@pytest.mark.parametrize(
    ("to", "kind"),
    [("binary16", np.float16), ("binary32", np.float32), ("e5m2", ml_dtypes.float8_e5m2),
     ("e4m3fn", ml_dtypes.float8_e4m3fn), ("binary16", ">f2"), ("binary16", ">i2"), ("binary16", ">u2"),
     ("int8", np.int8), ("int4", ml_dtypes.int4)],
)  # fmt: skip
def test_codes_are_integers_in_any_order_of_bytes_or_of_the_own_type(to, kind):
    """Types that NumPy calls floats were refused, and signed integers swapped read as they lay."""
    values = np.float32([[1.0, -3.0, 0.5, 0.0]])
    codes = lp.encode(values, to)
    own = codes.astype(kind) if np.dtype(kind).kind in "iu" and to == "binary16" else values.astype(kind)
    assert lp.equal_quantizers(own, codes, to, values if to[:3] != "int" else np.trunc(values))


def test_scales_are_read_in_any_order_of_bytes_and_of_any_float_type():
    blocks = lp.encode(X, "nvfp4")
    swapped = (blocks.codes, blocks.scales.astype(">i2"), blocks.tensor_scale)
    assert lp.equal_quantizers(swapped, blocks, "nvfp4", X)
    codes, scale = np.zeros(X.shape, np.uint8), np.float32(0.5)
    assert lp.equal_quantizers((codes, ml_dtypes.bfloat16(0.5)), (codes, scale), "e4m3fn", X)


def test_of_tensors_without_elements_nothing_is_compared():
    for empty in (np.zeros((0, 64), np.float32), np.zeros((2, 0), np.float32)):
        report = lp.equal_quantizers("ocp", "torchao_floor", "mxfp4", empty)
        assert not report.equal
        assert not report.differ
        assert str(report).splitlines()[0] == "nothing of ocp and torchao_floor was compared in mxfp4"


def test_matrices_reach_every_scale_and_element():
    fmt = lp.block_formats["mxfp4"]
    made = [lp.encode(x, fmt) for x in matrices(fmt, "float32", 0, 0, True)]
    assert len(np.unique(np.concatenate([each.scales.reshape(-1) for each in made]))) == 254
    assert len(np.unique(np.concatenate([each.codes.reshape(-1) for each in made]))) == 16


@pytest.mark.parametrize(
    ("first", "options", "words"),
    [
        ("ocpp", {}, "unknown profile 'ocpp'; did you mean 'ocp'?"),
        (5, {}, "a quantiser is a function, a profile, or results; int is none of them"),
        (X, {}, "the first holds recorded results; give the operands that they are of"),
        ("ocp", {"source": "float8"}, "unknown source 'float8'"),
        (
            (X.astype(np.uint8)[:4], X[:4]),
            {"operands": X},
            "the first gave codes of shape (4, 512) for a tensor of shape (128, 512); give one for each",
        ),
        ((X,), {"operands": X}, "the first gave elements of float32; codes of 'e2m1fn' are integers or"),
        (
            (np.zeros(X.shape, np.uint8), np.zeros((128, 15), np.uint8)),
            {"operands": X},
            "the first gave scales of shape (128, 15) for a tensor of shape (128, 512), whose blocks are "
            "(128, 16); give one for each block, or tiles of 128 rows and 4 columns",
        ),
        ((X.astype(np.uint8), X, 1.0), {"operands": X}, "tensor_scale=1.0 is for formats that have one"),
        (
            functools.partial(lp.encode, X, "mxfp8_e4m3"),
            {"operands": X},
            "the first gave blocks of 'mxfp8_e4m3' along (1,), not of 'mxfp4' along (1,)",
        ),
        (
            functools.partial(lp.encode, X, "mxfp4", axis=0),
            {"operands": X},
            "the first gave blocks of 'mxfp4' along (0,), not of 'mxfp4' along (1,)",
        ),
        (
            (X.astype(ml_dtypes.float8_e4m3fn),),
            {"operands": X},
            "the first gave elements of float8_e4m3fn; codes of 'e2m1fn' are integers or of its own type",
        ),
        ((1, 2, 3, 4), {"operands": X}, "the first gave 4 results; it must give codes, or codes and scales"),
    ],
)
def test_what_cannot_be_compared_is_refused(first, options, words):
    first = first() if isinstance(first, functools.partial) else first
    with pytest.raises((ValueError, TypeError), match=re.escape(words)):
        lp.equal_quantizers(first, "ocp", "mxfp4", **options)


def test_doubles_are_no_codes_of_formats_whose_codes_have_no_type():
    """Refuse float64, to which NumPy calls no type at all equal: its lowest bytes were compared."""
    with pytest.raises(ValueError, match="gave elements of float64; codes of 'nf4' are"):
        lp.equal_quantizers(lambda x: lp.quantize(x, "nf4").astype(np.float64), np.negative, "nf4")
    blocks = lp.encode(X, "nvfp4")
    scales = np.asarray(lp.decode(blocks.scales, "ue4m3")).astype(np.float64)
    with pytest.raises(ValueError, match="the first gave scales of float64; codes of 'ue4m3' are integers"):
        lp.equal_quantizers((blocks.codes, scales, blocks.tensor_scale), "ocp", "nvfp4", X)


def test_blocks_of_other_sizes_are_refused_before_values_are_compared():
    one = lambda x: (of_rows(x)[0], np.float32(1))  # noqa: E731
    with pytest.raises(ValueError, match=re.escape("have shape (128, 1) and those of the second (1, 1)")):
        lp.equal_quantizers(of_rows, one, "e4m3fn")
    three = lambda x: (*of_rows(x), np.float32(1))  # noqa: E731
    with pytest.raises(
        ValueError, match="gave a scale of the tensor beside scales, and 'e4m3fn' has no blocks"
    ):
        lp.equal_quantizers(three, three, "e4m3fn")
    with pytest.raises(ValueError, match=r"axis= is for block formats, and 'e4m3fn' is none"):
        lp.equal_quantizers(of_rows, of_rows, "e4m3fn", axis=0)
    with pytest.raises(ValueError, match=r"rule= is for block formats, and 'e4m3fn' is none"):
        lp.equal_quantizers(of_rows, of_rows, "e4m3fn", rule="ceil")


@pytest.mark.apart
def test_the_command_reads_codes_in_the_format_that_it_is_asked_for(tmp_path, monkeypatch):
    """Read files in hexadecimal and without gaps; refuse values whose type NumPy did not save."""
    monkeypatch.chdir(tmp_path)
    blocks = lp.encode(X, "mxfp4", axis=0)
    np.save("x.npy", X)
    np.save("w.npy", X.astype(ml_dtypes.bfloat16))
    np.save("p.npy", blocks.packed())
    np.save("s.npy", blocks.scales)
    (tmp_path / "c.hex").write_text(lp.encode(X, "e4m3fn").tobytes().hex(" "))
    for words in (
        ("c.hex", "--to", "e4m3fn"),
        ("p.npy,s.npy", "--to", "mxfp4", "--axis", "0"),
        ("p.npy:packed,s.npy", "--to", "mxfp4", "--axis", "0"),
    ):
        profile = "ocp_sat" if "e4m3fn" in words else "ocp"
        run = CliRunner().invoke(main, ["equal", words[0], profile, *words[1:], "--input", "x.npy"])
        assert (run.exit_code, "give the same bits" in run.output) == (0, True), run.output
    run = CliRunner().invoke(main, ["equal", "p.npy,s.npy", "ocp", "--to", "mxfp4", "--input", "w.npy"])
    assert (run.exit_code, "w.npy holds elements of 2 bytes, whose type" in run.output) == (2, True)


@pytest.mark.apart
def test_the_command_reads_functions_and_files(tmp_path, monkeypatch):
    blocks = lp.encode(X, "nvfp4")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, array in (("x", X), ("codes", blocks.codes), ("scales", blocks.scales)):
        np.save(f"{name}.npy", array)
    (tmp_path / "own_quantiser.py").write_text(
        "import lowprec as lp\n\ndef up(x):\n    return lp.encode(x, 'mxfp4', rule='ceil')\n"
    )
    files = f"codes.npy,scales.npy,{float(blocks.tensor_scale)!r}"
    run = CliRunner().invoke(main, ["equal", files, "ocp", "--to", "nvfp4", "--input", "x.npy"])
    assert (run.exit_code, run.output.splitlines()[0]) == (0, "the first and ocp give the same bits in nvfp4")
    words = ["equal", "own_quantiser:up", "ocp", "--to", "mxfp4", "--samples", "0", "--json"]
    run = CliRunner().invoke(main, words)
    made = json.loads(run.output)
    assert run.exit_code == 1
    assert made["names"] == ["up", "ocp"]
    assert made["against_the_definition"][0]["cause"] == "scale rule 'ceil' instead of 'floor'"
    assert made["against_the_definition"][1]["mismatches"] == 0
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_quantiser.py").rename(tmp_path / "own_package" / "own.py")
    run = CliRunner().invoke(main, ["equal", "own_package.own:up", "ocp", "--to", "mxfp4", "--samples", "0"])
    assert (run.exit_code, "scale rule 'ceil' instead of 'floor'" in run.output) == (1, True)
    run = CliRunner().invoke(main, ["equal", "torch>=2.13", "ocp_sat", "--to", "e4m3fn", "--samples", "0"])
    assert (run.exit_code, run.output.splitlines()[0]) == (
        0,
        "torch>=2.13 and ocp_sat give the same bits in e4m3fn",
    )
    run = CliRunner().invoke(main, ["equal", "own_quantiser:down", "ocp", "--to", "mxfp4"])
    assert (run.exit_code, "'own_quantiser' has no 'down'" in run.output) == (2, True)


@pytest.mark.parametrize("code", ["", "0", "1"])
def test_code_that_ends_the_run_compares_nothing(code, tmp_path, monkeypatch):
    """The module may end it, as scripts do, or the function, with any exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    ending = f"import sys\n\ndef up(x):\n    sys.exit({code})\n"
    for name, more in ((f"of_function{code}", ""), (f"of_module{code}", "\nup(0)\n")):
        (tmp_path / f"{name}.py").write_text(ending + more)
        run = CliRunner().invoke(main, ["equal", f"{name}:up", "ocp", "--to", "mxfp4", "--samples", "0"])
        assert run.exit_code == 2
        assert (
            f"Error: '{name}:up' or 'ocp' called sys.exit({code or None}), so nothing was compared; put what "
            "only a script does under `if __name__ == '__main__':`\n"
        ) in run.output
