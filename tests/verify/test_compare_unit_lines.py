"""Lines that `lowprec vectors dot` and `block` write are judged, and the cause is found."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.export.block_vectors import block_suite, decoder_suite
from lowprec.export.unit_vectors import dot_suite, matmul_suite
from lowprec.verify.compare.block_lines import compare_block_lines, compare_decoder_lines
from lowprec.verify.compare.lines import compare_dot_lines
from lowprec.verify.dumps.files import DumpError
from lowprec.verify.reference.dots import drawn_codes, roundings

pytestmark = pytest.mark.apart

UNIT = lp.accumulations["ada_mma_e4m3fn_binary32"]
HALF = (lp.format("binary16"),) * 2


def run(words, text=None):
    return CliRunner().invoke(main, words.split(), input=text)


def lines_of(made, *, packed=False):
    return made.render("text", packed=packed).decode().splitlines()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("length", [None, 1, 7])
def test_vectors_of_dots_agree_with_themselves(length, packed):
    """Lanes apart or as one number, however many; a sum in binary16 tells their order."""
    for how, formats in ((UNIT, None), (lp.accumulations["fp16_sequential"], HALF)):
        made = dot_suite(how, formats, length=length, samples=64)
        report = compare_dot_lines(lines_of(made, packed=packed), how, formats)
        assert (report.compared, report.mismatches) == (len(made.file.columns[0].codes), 0)


@pytest.mark.parametrize(
    ("pattern", "spelled"),
    [(r"\b0+(?=[0-9a-f])", ""), (r"\b(?=[0-9a-f])", "0X"), (r"\b0*(?=[0-9a-f])", "0x")],
)
@pytest.mark.parametrize("size", [None, (2, 1, 4)])
def test_packed_lanes_need_no_leading_zeros_where_their_number_is_known(pattern, spelled, size):
    """Sort lines, so that the first one begins with zeros."""
    made = dot_suite(UNIT, length=4, samples=16) if size is None else matmul_suite(UNIT, size, samples=16)
    full = sorted(line for line in lines_of(made, packed=True) if not line.startswith("#"))
    lines = [re.sub(pattern, spelled, line) for line in full]
    assert len(lines[0].split()[0]) != len(full[0].split()[0])
    how = {"length": 4} if size is None else {"size": size}
    assert compare_dot_lines(lines, UNIT, **how).agrees


def test_another_window_is_found_and_lines_are_numbered():
    """By their numbers in the file, comments and all."""
    other = dataclasses.replace(UNIT, accumulator=dataclasses.replace(UNIT.accumulator, fraction_bits=12))
    lines = lines_of(dot_suite(other))
    report = compare_dot_lines(lines, UNIT, limit=1)
    assert report.mismatches > 200
    assert report.cause.words == "F = 12 instead of 13: fraction bits that alignment keeps"
    number = report.details[0].data["line"]
    assert f"line {number}:" in report.as_text() or f"line {number} (" in report.as_text()
    assert lines[number - 1].split()[-1] == f"{int(report.details[0].data['got'], 16):08x}"


@pytest.mark.parametrize("packed", [False, True])
def test_vectors_of_blocks_are_judged(packed):
    """And another rule is found."""
    fmt = lp.block_formats["mxfp4"]
    made = block_suite(lp.format("bfloat16"), dataclasses.replace(fmt, rule="rceil"), samples=256)
    lines = lines_of(made, packed=packed)
    assert compare_block_lines(lines, lp.format("bfloat16"), dataclasses.replace(fmt, rule="rceil")).agrees
    report = compare_block_lines(lines, lp.format("bfloat16"), fmt, limit=1)
    assert "rceil" in report.cause.words
    apart = compare_block_lines(lines_of(made), lp.format("bfloat16"), fmt, limit=1)
    assert report.details[0].data["at"] == apart.details[0].data["at"]
    assert lines[report.details[0].data["line"] - 1][0] not in "#"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "there are no lines to compare"),
        (
            ["38 38 00000000"],
            "line 1 has 3 words, not x and y of as many lanes, the addend and the result: '38 38",
        ),
        (
            ["# a", "38 38 00000000 3f800000", "38 38 0"],
            "line 3 has 3 words, not 4; it ends before its result",
        ),
        (["38 38 0 3f800000", "38 38 0 3f800000 0"], "line 2 has 5 words, not 4: '38 38 0 3f800000 0'"),
        (["38 xx 0 3f800000"], "line 1 holds 'xx', which is no hexadecimal number"),
        (["38 38 0 3f8000000"], "line 1 holds '3f8000000', which is no 32-bit code of 'binary32'"),
        (["3838 133838 0 0"], "line 1 holds '133838', which is no 2 codes of 'e4m3fn'"),
    ],
)
def test_lines_that_are_no_cases_are_refused_by_their_number(lines, message):
    """Cut short, of another width, or with other words."""
    with pytest.raises(DumpError) as refused:
        compare_dot_lines(lines, UNIT)
    assert message in str(refused.value)


def test_units_that_lines_do_not_describe_are_refused():
    """Blocks of two dimensions, and no lines at all."""
    with pytest.raises(DumpError, match="there are no lines to compare"):
        compare_dot_lines([], lp.accumulations["blackwell_tcgen05_e4m3fn_binary32_e8m0fnu_1"])
    with pytest.raises(ValueError, match="lines of 'nvfp4_2d' are not read: its blocks have two dimensions"):
        compare_block_lines([], lp.format("binary32"), lp.block_formats["nvfp4_2d"])


def test_the_command_reads_them(tmp_path, monkeypatch):
    """What one command writes, the other judges."""
    monkeypatch.chdir(tmp_path)

    vectors = run("vectors dot fp32_fma binary16 bfloat16 --samples 64")
    judged = run("compare - dot fp32_fma binary16 bfloat16", vectors.output)
    assert judged.exit_code == 0, judged.output
    judged = run("compare - dot fp32_sequential binary16 bfloat16", vectors.output)
    assert judged.exit_code == 1
    vectors = run("vectors block binary32 mxfp4 --profile torchao_even --samples 64")
    assert run("compare - block binary32 mxfp4 --profile torchao_even", vectors.output).exit_code == 0
    assert run("compare - block binary32 mxfp4 --rule even", vectors.output).exit_code == 1
    assert "which says how sums are rounded" in run("compare - dot fp32_fma --rounding to_odd", "").output
    assert "lines of block take FORMAT BLOCK_FORMAT" in run("compare - block mxfp4", "").output


@pytest.mark.parametrize("packed", ["", " --packed"])
@pytest.mark.parametrize("rounding", ["stochastic(4)", "stochastic(16,B)"])
@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_stochastic_blocks_are_held_against_the_integers_of_their_lines(fmt, rounding, packed):
    """The integers that vectors have were refused: a line had too many words."""
    words = f"block binary32 {fmt} --rounding {rounding}"
    lines = run(f"vectors {words} --samples 16{packed}").output
    told = run(f"compare - {words}", lines)
    assert told.exit_code == 0, told.output
    assert told.output.endswith(" results agree\n")


def test_random_integers_of_blocks_that_are_not_read_are_found():
    """A converter that rounds to nearest, one that has a stuck bit, and blocks that lines do not describe."""
    words, size = "block binary32 mxfp4 --rounding stochastic(4)", 32
    lines = run(f"vectors {words} --samples 64").output
    nearest = run("vectors block binary32 mxfp4 --samples 64").output
    results = iter([line for line in nearest.splitlines() if line[0] != "#"])
    cases = [line.split() for line in lines.splitlines() if line[0] != "#"]
    rounded = "\n".join(" ".join([*case[: 2 * size], *next(results).split()[size:]]) for case in cases)
    told = run(f"compare - {words}", rounded)
    assert told.exit_code == 1
    assert "explained by elements: ties to even: " in told.output
    inverted = "\n".join(
        " ".join(
            [*case[:size], *(f"{int(word, 16) ^ 15:x}" for word in case[size : 2 * size]), *case[2 * size :]]
        )
        for case in cases
    )
    told = run(f"compare - {words}", inverted)
    assert told.exit_code == 1, told.output
    assert "random integers with all bits inverted" in told.output
    assert "left out, please report it" not in told.output
    shared = "block binary32 mxfp8_e4m3 --rounding stochastic(16,ptx_rs)"
    assert "rounds scales stochastically, or several elements by one word" in " ".join(
        run(f"compare - {shared}", lines).output.split()
    )


@pytest.mark.parametrize("packed", ["", " --packed"])
@pytest.mark.parametrize("unit", ["ada_mma_e4m3fn_binary32", "fp32_pairwise binary16 binary16"])
def test_units_without_an_addend_have_lines_without_one(unit, packed):
    """A line without an addend had no form; sums in pairs that are -0 have no +0 to be added to."""
    lines = run(f"vectors dot {unit} --addend none --samples 64{packed}").output
    assert f"dot {unit.split()[0]}" in lines.splitlines()[0]
    assert "--addend none" in lines.splitlines()[0]
    assert ", no addend, to binary32, " in lines.splitlines()[1]
    assert ": x0 to x" in lines.splitlines()[2]
    assert "addend" not in lines.splitlines()[2]
    told = run(f"compare - dot {unit} --addend none", lines)
    assert (told.exit_code, told.output.endswith(" results agree\n")) == (0, True), told.output
    refused = run(f"compare - dot {unit}", lines)
    assert refused.exit_code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "vectors dot fp32_fma e5m2 e5m2 --addend none --flags",
            "flags of dot products are of units with an",
        ),
        ("vectors dot fp32_fma e5m2 e5m2 --addend none --coverage", "plan is that of a unit with an addend"),
        ("vectors add e5m2 e5m2 e5m2 --addend none", "--addend says nothing about add"),
        (
            "vectors matmul fp32_fma e5m2 e5m2 --size 2,2,4 --addend none",
            "--addend says nothing about matmul",
        ),
        ("vectors block bfloat16 mxfp4 --addend none", "--addend says nothing about block"),
        ("compare - dot fp32_fma e5m2 e5m2 --addend x.npy", "--addend of lines is none, of a dot unit"),
        ("compare - add e5m2 e5m2 e5m2 --addend none", "of a dot unit without one, not 'none' of add"),
        ("compare - dot fp32_fma e5m2 e5m2 --addend none --flags", "flags of dot products are of units with"),
    ],
)
def test_no_addend_is_refused_where_it_says_nothing(words, message):
    """In a line, exit code 2."""
    told = run(words, "3c 3c 3f800000 00\n")
    assert told.exit_code == 2
    assert message in " ".join(told.output.split())


@pytest.mark.parametrize(
    ("unit", "case", "rows"),
    [
        (
            "fp32_fma e4m3fn e4m3fn",
            "38 00 b8 80 3f800000 40000000",
            ["lane 0 38 * b8 = 1.0 * -1.0", "lane 1 00 * 80 = 0.0 * -0.0", "addend 3f800000 = 1.0"],
        ),
        (
            "fp32_fma e4m3fn e4m3fn",
            " ".join(["38"] * 10 + ["00", "40"] + ["7f"] * 12 + ["00000000", "40000000"]),
            [f"lane {n} 38 * 7f = 1.0 * nan" for n in range(8)]
            + ["and 3 more lanes that are not zero", "addend 00000000 = 0.0"],
        ),
        (
            "rtx_blackwell_mma_e4m3fn_binary32_e8m0fnu_1",
            " ".join(["00"] * 31 + ["38", "7e"] + ["38"] * 32 + ["80", "00000000", "40000000"]),
            ["lane 31 38 * 38 = 1.0 * 1.0, scales 7e and 80", "addend 00000000 = 0.0"],
        ),
        ("fp32_fma e4m3fn e4m3fn --addend none", "38 38 40000000", ["lane 0 38 * 38 = 1.0 * 1.0"]),
    ],
)
def test_a_mismatch_of_a_dot_product_shows_its_operands(unit, case, rows):
    """Only the number of the line was told."""
    told = run(f"compare - dot {unit} --no-why", case + "\n").output.splitlines()
    first = told.index("line 1 (0,):") + 1
    last = next(place for place, line in enumerate(told) if line.lstrip().startswith("exact "))
    assert [" ".join(line.split()) for line in told[first:last]] == rows


DRAWN = lp.Accumulation(
    name="drawn", operands=("e4m3fn", "e4m3fn"), accumulator=("bfloat16", "stochastic(8)"),
    order="chunked(3)", total=("binary16", "stochastic(8)"), output="binary32",
)  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_stochastic_sums_are_held_against_the_integers_of_their_lines(packed):
    """In the order of the roundings; they decide, and a factor that is not read is found."""
    made = dot_suite(DRAWN, samples=64)
    random = next(column for column in made.file.columns if column.name == "random")
    assert (random.lanes, random.bits) == (len(roundings(DRAWN, 8)), 8)
    lines = lines_of(made, packed=packed)
    report = compare_dot_lines(lines, DRAWN)
    assert (report.compared, report.mismatches) == (len(random.codes), 0)
    if packed:
        return
    rows = [line.split() for line in lines if not line.startswith("#")]
    turned = [" ".join([*row[:17], *row[-2:16:-1], row[-1]]) for row in rows]
    assert compare_dot_lines(turned, DRAWN, why=False).mismatches > 50
    x, y, addend, words = (column.codes for column in made.file.columns[:4])
    x = x.copy()
    x[:, 5] = 0
    values = lp.decode(x, "e4m3fn"), lp.decode(y, "e4m3fn"), lp.decode(addend.astype("u2"), "binary16")
    results = drawn_codes(DRAWN, *(np.asarray(side, np.float64) for side in values), words)
    lost = [" ".join([*row[:-1], f"{int(code):08x}"]) for row, code in zip(rows, results, strict=True)]
    assert compare_dot_lines(lost, DRAWN).cause.words == "x of product 5 of 8 read as zero"


def test_the_integers_are_those_that_dot_draws():
    """Rounding s of output i takes `random_bits` of stream 2 + s at i."""
    rng = np.random.default_rng(0)
    x, y = (np.asarray(lp.quantize(rng.standard_normal((50, 7)), "e4m3fn"), np.float64) for _ in range(2))
    numbers = roundings(DRAWN, 7)
    words = np.stack([lp.random_bits(50, 9, 8, stream=2 + number) for number in numbers], axis=1)
    want = lp.dot(x, y, DRAWN, rng=9, dtype=np.uint32)
    assert (drawn_codes(DRAWN, x, y, None, words) == want).all()
    report = lp.compare((x, y), want, operation="dot", accumulation=DRAWN, random=words)
    assert report.agrees


def test_integers_of_sums_that_do_not_fit_are_refused():
    """Their shape, their width, and where there is nothing to draw."""
    x = np.ones((4, 2))
    options = {"operation": "dot", "accumulation": DRAWN}
    shape = (4, len(roundings(DRAWN, 2)))
    wrong = {
        "needs the random integers of each result: give random=": {},
        "is an array of integers of shape": {"random": np.zeros((4, 1), np.uint8)},
        "has integers of 8 bits, from 0 to 255": {"random": np.full(shape, 256)},
        "random= is of dot alone, without scales": {"random": np.zeros(shape, int), "scale": 2.0},
        "is not stochastic: leave out random=": {"random": np.zeros(shape, int), "accumulation": "fp32_fma"},
    }
    for message, more in wrong.items():
        with pytest.raises(ValueError, match=message):
            lp.compare((x, x), np.zeros(4, np.float32), **{**options, **more})
    mixed = dataclasses.replace(DRAWN, total=("binary16", "stochastic(4)"))
    with pytest.raises(ValueError, match=r"^drawn draws 4 and 8 bits in different places; vectors and lines"):
        dot_suite(mixed)
    message = (
        "line 1 has 7 words, not x and y of as many lanes, the addend, the random integers and the result"
    )
    with pytest.raises(ValueError, match=f"^{message}: "):
        compare_dot_lines(["38 38 38 38 0000 00 00"], DRAWN)


SCALED = ("blackwell_tcgen05_e4m3fn_binary32_e8m0fnu_1", "blackwell_tcgen05_e2m1fn_binary32_ue4m3_4")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", SCALED)
def test_lines_of_units_with_scales_have_these_behind_the_elements(name, packed):
    """NaN and the smallest among them."""
    how = lp.accumulations[name]
    lines = lines_of(dot_suite(how, samples=32), packed=packed)
    assert compare_dot_lines(lines, how).mismatches == 0
    if not packed:
        lanes, blocks = how.accumulator.step, how.accumulator.step // how.scale[1]
        rows = [line.split() for line in lines if not line.startswith("#")]
        for row in rows:
            row[lanes] = "01"
        assert compare_dot_lines([" ".join(row) for row in rows], how, why=False).mismatches > len(rows) // 4
        short = " ".join(rows[0][: 2 * (lanes + blocks)])
        with pytest.raises(
            DumpError, match=r"words, not x and y of as many lanes, their scales, the addend and"
        ):
            compare_dot_lines([short], how)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("how", [UNIT, lp.accumulations[SCALED[1]]], ids=str)
def test_lines_of_matrices_are_judged(how, packed):
    """Each result by itself; a row that was taken for another is seen, and lines have their numbers."""
    k = 64 if how.scale else 16
    lines = lines_of(matmul_suite(how, (3, 2, k), samples=32), packed=packed)
    report = compare_dot_lines(lines, how, size=(3, 2, k))
    assert (report.compared, report.mismatches) == (6 * sum(not line.startswith("#") for line in lines), 0)
    at = next(place for place, line in enumerate(lines) if not line.startswith("#"))
    words = lines[at + 4].split()
    words[-1] = f"{int(words[-1], 16) ^ 1:x}"
    lines[at + 4] = " ".join(words)
    wrong = compare_dot_lines(lines, how, size=(3, 2, k), why=False)
    assert [detail.data["line"] for detail in wrong.details] == [at + 5]
    with pytest.raises(
        DumpError, match=r"words, not x and y of as many lanes, .*result of M, N, K = \(3, 2, "
    ):
        compare_dot_lines(lines, how, size=(3, 2, 80 * k))


def test_the_command_reads_lines_of_matrices(tmp_path):
    """With their size, as `vectors` takes it."""

    def run(*words):
        return CliRunner().invoke(main, [*words])

    file = str(tmp_path / "m.txt")
    (tmp_path / "m.txt").write_text(
        run("vectors", "matmul", UNIT.name, "--size", "2,3,8", "--samples", "16").stdout
    )
    assert run("compare", file, "matmul", UNIT.name, "--size", "2,3,8").exit_code == 0
    assert "--size M,N,K is of lines of matmul" in run("compare", file, "matmul", UNIT.name).output
    assert (
        "matmul needs --size M,N,K, such as 16,8,32, not '2,0,8'"
        in run("compare", file, "matmul", UNIT.name, "--size", "2,0,8").output
    )
    assert (
        "--size M,N,K is of lines of matmul"
        in run("compare", file, "dot", UNIT.name, "--size", "2,3,8").output
    )
    assert (
        "--length 8 is of lines of dot, not of matmul; leave it out"
        in run("compare", file, "matmul", UNIT.name, "--size", "2,3,8", "--length", "8").output
    )
    assert "0 is not in the range x>=1" in run("compare", file, "dot", UNIT.name, "--length", "0").output


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "to"), [("mxfp4", "bfloat16"), ("nvfp4", "binary32"), ("mxfp8_e5m2", "binary16")]
)
def test_vectors_of_decoders_are_judged(name, to, packed):
    """With a scale of the tensor, and where values are rounded, and NaNs have signs."""
    fmt, target = lp.block_formats[name], lp.format(to)
    lines = lines_of(decoder_suite(fmt, target, samples=64), packed=packed)
    report = compare_decoder_lines(lines, fmt, target)
    assert (report.compared, report.mismatches) == (max(64, 2 << fmt.element.width) * fmt.size, 0)


def test_a_decoder_with_a_scale_off_by_one_is_named():
    fmt, target = lp.block_formats["mxfp4"], lp.format("bfloat16")
    lines = [
        " ".join([f"{int(words[0], 16) + 1:02x}", *words[1:]])
        for line in lines_of(decoder_suite(fmt, target, samples=64))
        if not line.startswith("#") and 2 < int((words := line.split())[0], 16) < 250
    ]
    report = compare_decoder_lines(lines, fmt, target)
    assert report.mismatches > 500
    assert report.cause.words == "a bias or scale off by 1: operands times 2**-1"
    with pytest.raises(DumpError, match="line 1 has 64 words, not 65; it ends before its result"):
        compare_decoder_lines([lines[0].rsplit(" ", 1)[0]], fmt, target)
    with pytest.raises(DumpError, match="there are no lines to compare"):
        compare_decoder_lines([], fmt, target)


def test_the_command_reads_blocks_and_values():
    run = CliRunner().invoke
    made = run(main, ["vectors", "block", "mxfp4", "bfloat16", "--samples", "8"]).output
    done = run(main, ["compare", "-", "block", "mxfp4", "bfloat16"], input=made)
    assert (done.exit_code, done.output) == (0, "1,024 results agree\n")
    refused = run(main, ["compare", "-", "block", "mxfp4", "bfloat16", "--rule", "rceil"], input=made)
    assert refused.exit_code == 2


def test_a_file_that_was_cut_between_lines_is_refused():
    """Its header says how many cases it had; a part without one is compared, and so are two files in one."""
    lines = lines_of(dot_suite(UNIT, samples=64))
    cases = sum(not line.startswith("#") for line in lines)
    message = (
        f"the file ends after line 20 with 17 cases, and its header says {cases:,}: it was cut short; "
        f"leave out the header to compare a part"
    )
    with pytest.raises(DumpError) as refused:
        compare_dot_lines(lines[:20], UNIT)
    assert str(refused.value) == message
    assert compare_dot_lines(lines[3:20], UNIT).compared == 17
    assert compare_dot_lines([*lines, *lines], UNIT).compared == 2 * cases
    with pytest.raises(DumpError, match=f"its header says {2 * cases:,}"):
        compare_dot_lines([*lines, *lines[:-1]], UNIT)
