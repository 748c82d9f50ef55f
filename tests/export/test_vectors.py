"""Test vectors are right, complete, and the same bytes every time."""

import csv
import io
import json

import numpy as np
import pytest

import lowprec as lp
from lowprec.export.vectors import suite
from lowprec.oracle import convert as oracle
from lowprec.oracle.arith import operate
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.format import Format
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import Projection
from lowprec.verify.inputs import conversions
from lowprec.verify.reference.operations import OPERATIONS, operand_format

PAIRS = [
    ("binary32", "e4m3fn"),
    ("binary64", "e5m2"),
    ("int64", "bfloat16"),
    ("tf32", "e2m1fn"),
    ("e4m3fn", "e5m2"),
]


def made(source, target, **options):
    return suite("convert", (operand_format(source), catalog.format(target)), **options)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_results_are_the_oracles(source, target):
    """Recomputed from the operands' codes alone."""
    vectors = made(source, target, projection=Projection(rounding="to_odd", nan="max"), samples=200)
    want = [oracle.cast(code, *vectors.formats, vectors.projection) for code in vectors.operands[0].tolist()]
    assert vectors.results.tolist() == want


def test_operands_are_the_cases_and_then_random_ones():
    """So that ties are there whatever the seed; negative ones fall."""
    positive, negative = conversions.inputs(catalog.E4M3FN, np.float32).view(np.uint32).reshape(2, -1)
    chosen = np.concatenate([positive, negative[::-1]])
    operands = made("binary32", "e4m3fn", samples=10, seed=5).operands[0]
    assert (operands[: chosen.size] == chosen).all()
    assert operands.size == chosen.size + 10
    assert (made("binary32", "e4m3fn", samples=10, seed=6).operands[0] != operands).any()


def test_operands_of_sixteen_bits_are_all_of_them():
    """Few enough."""
    assert (made("bfloat16", "e4m3fn").operands[0] == np.arange(1 << 16)).all()
    assert (made("e3m2fn", "e2m3fn").operands[0] == np.arange(64)).all()


def test_a_private_wide_source_is_taken_on_both_sides_of_every_tie():
    """No NumPy type stands behind it."""
    source = Format(
        name="wide", exponent_bits=8, trailing_bits=15, bias=127, nans=(1 << 15) - 1, infinity=True
    )
    vectors = suite("convert", (source, catalog.E2M1FN), Projection(nan="max"))
    values = lp.decode(vectors.operands[0], source)
    for tie in (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0):
        for value in (tie, tie * (1 + 2**-15), tie * (1 - 2**-15) if tie != 0.25 else tie):
            assert {value, -value} <= set(values.tolist()) or lp.quantize(value, source) != value


def test_nan_operands_are_left_out_where_nothing_is_right_for_them():
    """And the header says how many."""
    vectors = made("e4m3fn", "e2m1fn")
    assert vectors.left_out == 2
    assert not {0x7F, 0xFF} & set(vectors.operands[0].tolist())
    assert "2 NaN operands are left out: e2m1fn has no NaN" in vectors.render("text").decode()


def test_every_kind_of_file_holds_the_same_cases():
    """Read back by what each is for."""
    vectors = made("binary32", "e5m2", samples=50, command="lowprec vectors convert binary32 e5m2")
    want = list(zip(vectors.operands[0].tolist(), vectors.results.tolist(), strict=True))

    lines = [line.split() for line in vectors.render("text").decode().splitlines() if line[0] != "#"]
    assert [(int(x, 16), int(y, 16)) for x, y in lines] == want
    assert {(len(x), len(y)) for x, y in lines} == {(8, 2)}

    rows = csv.DictReader(line for line in vectors.render("csv").decode().splitlines() if line[0] != "#")
    assert [(int(row["operand"], 16), int(row["result"], 16)) for row in rows] == want

    header, *entries = map(json.loads, vectors.render("jsonl").decode().splitlines())
    assert (header["schema"], header["formats"]) == ("lowprec.vectors/1", ["binary32", "e5m2"])
    assert header["cases"] == len(entries)
    assert [(int(entry["operand"], 16), int(entry["result"], 16)) for entry in entries] == want

    words = [line for line in vectors.render("mem").decode().splitlines() if line[:2] != "//"]
    assert [(int(word[:8], 16), int(word[8:], 16)) for word in words] == want

    table = np.load(io.BytesIO(vectors.render("npy")))
    assert list(zip(table["operand"].tolist(), table["result"].tolist(), strict=True)) == want

    assert vectors.operand_lines().split() == [f"{operand:08x}" for operand, _ in want]


def test_the_same_command_gives_the_same_bytes():
    """Files can be compared byte for byte."""
    once, again = (made("binary32", "e4m3fn", seed=3).render("text") for _ in range(2))
    assert once == again


def test_a_result_must_be_a_format():
    """Binary64 is where values come from."""
    with pytest.raises(
        ValueError, match="'binary64' is a type that values come in, not a format to encode to"
    ):
        made("binary32", "e4m3fn") and suite("convert", (catalog.BINARY32, catalog.BINARY64))


# -- operations ----------------------------------------------------------------------------------------


def made_of(operation, *names, **options):
    return suite(operation, tuple(map(operand_format, names)), **options)


def names_of(operation, name, power="int32"):
    """One format for all, but an integer for the power of two of `scaleb`."""
    return [
        power if operation == "scaleb" and place == 1 else name for place in range(OPERANDS[operation] + 1)
    ]


def assert_results_are_the_oracles(vectors, rows):
    """Of these cases, recomputed from the operands' codes alone."""
    *sources, target = vectors.formats
    cases = np.array([*vectors.operands, vectors.results], dtype=object).T[rows]
    wrong = [
        (*codes, got, want)
        for *codes, got in cases.tolist()
        if got != (want := operate(vectors.operation.name, codes, sources, target, vectors.projection)[0])
    ]
    assert wrong == []


def test_there_are_vectors_of_every_operation():
    """And of conversions."""
    assert set(OPERATIONS) == {"convert", *OPERANDS, *FUNCTIONS}


@pytest.mark.parametrize("name", ["e2m1fn", "e3m2fn"])
@pytest.mark.parametrize("operation", OPERANDS)
def test_results_of_small_formats_are_the_oracles(operation, name):
    """All of them, and what is left out is NaN."""
    vectors = made_of(operation, *names_of(operation, name, "int4"), projection=Projection(rounding="to_odd"))
    assert_results_are_the_oracles(vectors, slice(None))
    if sum(fmt.width for fmt in vectors.formats[:-1]) <= 16:
        assert vectors.results.size + vectors.left_out == 1 << sum(fmt.width for fmt in vectors.formats[:-1])


@pytest.mark.parametrize("name", ["binary16", "bfloat16", "binary32"])
@pytest.mark.parametrize("operation", OPERANDS)
def test_results_of_wide_formats_are_the_oracles(operation, name):
    """A sample."""
    vectors = made_of(operation, *names_of(operation, name), samples=256)
    assert_results_are_the_oracles(vectors, np.random.default_rng(0).integers(0, vectors.results.size, 300))


@pytest.mark.parametrize(
    "words",
    [
        "fma bfloat16 bfloat16 binary32 binary32",
        "fma tf32 tf32 binary32 tf32",
        "fma int64 uint64 binary64 ue4m3",
        "add int64 e8m0fnu e8m0fnu",
        "multiply uint1 binary64 e4m3fnuz",
        "divide int32 int32 int8",
        "remainder binary64 binary64 binary16",
        "scaleb binary16 sm2f0 binary16",
        "copysign binary64 e8m0fnu e3m2fn",
        "logb binary32 e2m3fn",
    ],
)
@pytest.mark.parametrize(
    "projection", [Projection(), Projection(rounding="toward_negative", saturation="finite")], ids=str
)
def test_formats_of_operands_and_result_need_not_be_alike(words, projection):
    """Carriers among them, and results without a NaN."""
    vectors = made_of(*words.split(), samples=256, projection=projection)
    assert_results_are_the_oracles(vectors, np.random.default_rng(0).integers(0, vectors.results.size, 300))


@pytest.mark.parametrize("operation", ["divide", "remainder", "sqrt", "fma", "minimum_number", "multiply"])
def test_cases_are_left_out_exactly_where_the_oracle_refuses(operation):
    """By a projection that says nothing about NaN; with one that does, none is."""
    names = [*names_of(operation, "e4m3fn")[:-1], "e2m1fn"]
    options = {"samples": 200, "seed": 1}
    strict = made_of(operation, *names, **options)
    whole = made_of(operation, *names, **options, projection=Projection(nan="max"))
    assert (whole.left_out, whole.results.size) == (0, strict.results.size + strict.left_out)
    every, kept = (
        set(zip(*(column.tolist() for column in made.operands), strict=True)) for made in (whole, strict)
    )
    assert every > kept
    for codes in sorted(every - kept)[::10]:
        with pytest.raises(ValueError, match="NaN has no code in 'e2m1fn'"):
            operate(operation, codes, strict.formats[:-1], strict.formats[-1])
    header = strict.render("text").decode().splitlines()[3]
    assert header == f"# {strict.left_out} cases with a NaN result are left out: e2m1fn has no NaN"


def test_files_of_operations_have_a_column_for_each_operand():
    """In every kind of file, and the same bytes for the same seed."""
    vectors, again = (made_of("fma", *["binary16"] * 4, samples=20, seed=7) for _ in range(2))
    assert [vectors.render(kind) for kind in ("text", "npy")] == [
        again.render(kind) for kind in ("text", "npy")
    ]
    want = list(zip(*(column.tolist() for column in (*vectors.operands, vectors.results)), strict=True))
    names = ["operand1", "operand2", "operand3", "result"]

    lines = [line for line in vectors.render("text").decode().splitlines() if line[0] != "#"]
    assert [tuple(int(word, 16) for word in line.split()) for line in lines] == want
    rows = list(
        csv.DictReader(line for line in vectors.render("csv").decode().splitlines() if line[0] != "#")
    )
    assert [tuple(int(row[name], 16) for name in names) for row in rows] == want
    entry = json.loads(vectors.render("jsonl").decode().splitlines()[1])
    assert [int(entry[name], 16) for name in names] == list(want[0])
    assert [line for line in vectors.render("mem").decode().splitlines() if line[:2] != "//"] == [
        line.replace(" ", "") for line in lines
    ]
    assert np.load(io.BytesIO(vectors.render("npy"))).dtype.names == tuple(names)
    assert vectors.operand_lines().splitlines() == [line[:14] for line in lines]


def test_scaleb_takes_an_integer_as_its_second_operand():
    """And says which formats are."""
    for power in ("binary16", "e8m0fnu", "int8f6"):
        with pytest.raises(ValueError, match=f"not '{power}'; use a format such as 'int8' or 'int32'"):
            made_of("scaleb", "binary16", power, "binary16")
