"""Operands of operations: all there are, or those at which implementations go wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from lowprec.oracle.arith import exact
from lowprec.oracle.convert import decode, position
from lowprec.oracle.exact import Special
from lowprec.oracle.flags import is_signaling
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.functions import FUNCTIONS
from lowprec.verify.inputs.operands import operands, special_codes
from lowprec.verify.inputs.recipes import RECIPES, Aim, recipes_of
from lowprec.verify.reference.operations import operand_format

pytestmark = pytest.mark.apart

DOCS = Path(__file__).parents[2] / "docs"


def formats_of(operation, name):
    """One format for all, but an integer for the power of two of `scaleb`."""
    return tuple(
        operand_format("int32" if operation == "scaleb" and place == 1 else name)
        for place in range(OPERANDS[operation] + 1)
    )


def kinds(operation, formats, **options):
    """How often the exact results lie where; of finite ones that are not zero."""
    target, found = formats[-1], Counter()
    for codes in zip(*(column.tolist() for column in operands(operation, formats, **options)), strict=True):
        values = [decode(code, fmt) for code, fmt in zip(codes, formats, strict=False)]
        result = exact(operation, values).value
        if isinstance(result, Special) or result == 0:
            found["cancels"] += not isinstance(result, Special) and all(values)
            continue
        tail, last = position(abs(result), target)
        numbers = [abs(value) for value in values if not isinstance(value, Special)]
        found["cancels"] += abs(result) < max(numbers) / (1 << target.trailing_bits)
        found["tiny"] += abs(result) < Fraction(target.min_normal)
        found["tiny and inexact"] += bool(abs(result) < Fraction(target.min_normal) and tail)
        found["past the largest"] += bool(last and tail)
        found["beyond"] += tail is None
        if tail is not None:
            distance = abs(tail - Fraction(1, 2))
            found["tie"] += distance == 0
            found["next to a tie"] += 0 < distance <= Fraction(1, 1 << min(target.precision, 12) - 3)
    return found


def test_recipes_are_of_operations():
    """Of what there is no operation there is no recipe."""
    assert set(RECIPES) <= {*OPERANDS, *FUNCTIONS}


def test_without_a_recipe_each_operand_in_turn_is_the_point():
    """So that a new operation is tried at ties of the result's format too."""
    sources = [catalog.BINARY16, catalog.BFLOAT16, catalog.BINARY32]
    aim = Aim(np.random.default_rng(0), 8, sources, catalog.E5M2)
    for count in (1, 2, 3):
        aim.sources = sources[:count]
        made = [recipe(aim) for recipe in recipes_of("a new one", count)]
        assert [len(columns) for columns in made] == [count] * count
        for i, columns in enumerate(made):
            assert [column is aim.point for column in columns] == [i == j for j in range(count)]
    assert recipes_of("add", 2) == RECIPES["add"]


@pytest.mark.parametrize("operation", ["add", "sqrt", "fma", "scaleb"])
def test_few_combinations_are_all_tried(operation):
    """Each of them once, however many samples."""
    formats = tuple(catalog.INT4 if fmt.width == 32 else fmt for fmt in formats_of(operation, "e2m1fn"))
    cases = set(zip(*(column.tolist() for column in operands(operation, formats, 99, 1)), strict=True))
    assert len(cases) == 16 ** OPERANDS[operation]
    assert operands(operation, formats, 99, 1)[0].size == len(cases)


def test_sixteen_bits_are_few():
    """Two operands of eight, or one of sixteen."""
    assert operands("add", formats_of("add", "e4m3fn"), 0, 0)[0].size == 1 << 16
    assert operands("sqrt", formats_of("sqrt", "bfloat16"), 0, 0)[0].size == 1 << 16
    assert operands("fma", formats_of("fma", "e4m3fn"), 0, 0)[0].size < 1 << 12


def test_special_codes_are_of_every_kind():
    """Both signs; the most negative of two's complement; more NaNs than one where there are."""
    have = set(special_codes(catalog.BINARY16).tolist())
    assert {0, 1, 0x3FF, 0x400, 0x3BFF, 0x3C00, 0x3C01, 0x7BFE, 0x7BFF, 0x7C00, 0x7E00} <= have
    assert have == {code ^ 0x8000 for code in have}
    assert any(is_signaling(code, catalog.BINARY16) for code in have)
    assert {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF} <= set(special_codes(operand_format("int32")).tolist())
    assert {0, 0xFE, 0xFF} <= set(special_codes(catalog.E8M0FNU).tolist())
    assert 0x80 in special_codes(catalog.E4M3FNUZ)


@pytest.mark.parametrize("operation", OPERANDS)
def test_special_codes_are_combined_and_then_come_the_samples(operation):
    """So that infinity and zero meet whatever the seed."""
    formats = formats_of(operation, "binary32")
    few, more = (operands(operation, formats, samples, 3) for samples in (0, 100))
    assert more[0].size == few[0].size + 100
    assert all((one[: other.size] == other).all() for one, other in zip(more, few, strict=True))
    met = set(zip(*(column.tolist() for column in few), strict=True))
    assert len(met) == few[0].size
    specials = {0, 0x80000000, 0x7F800000, 0x7FC00000, 0x7F800001}
    columns = [[0, 1] if fmt.name == "int32" else specials for fmt in formats[:-1]]
    assert {tuple(column.reshape(-1)) for column in np.array(np.meshgrid(*map(list, columns))).reshape(
        len(columns), -1
    ).T} <= met  # fmt: skip


@pytest.mark.parametrize("operation", OPERANDS)
def test_operands_are_codes_of_their_formats(operation):
    """For formats and carriers of all sizes, in the narrowest type; equal for a seed, not for another."""
    for name in ("binary64", "tf32", "int64", "uint8", "e8m0fnu", "e4m3fnuz", "binary16"):
        sources = [operand_format("int32" if operation == "scaleb" and place else name) for place in range(3)]
        formats = (*sources[: OPERANDS[operation]], catalog.TF32)
        once, again, other = (operands(operation, formats, 64, seed) for seed in (1, 1, 2))
        for column, same, fmt in zip(once, again, formats, strict=False):
            assert (column.dtype.itemsize * 8, int(column.max()) >> fmt.width) == (fmt.code_bits, 0)
            assert column.tobytes() == same.tobytes()
        if sum(fmt.width for fmt in formats[:-1]) > 16:
            assert any((column != changed).any() for column, changed in zip(once, other, strict=True))


@pytest.mark.parametrize("name", ["binary16", "bfloat16", "binary32"])
@pytest.mark.parametrize("operation", ["add", "subtract", "multiply", "divide", "fma"])
def test_results_are_where_implementations_go_wrong(operation, name):
    """Counted by the oracle, of 1024 samples and the special codes."""
    found = kinds(operation, formats_of(operation, name), samples=1024, seed=0)
    assert found["tie"] >= (15 if operation == "divide" else 50)  # which only tiny quotients can be
    assert found["next to a tie"] >= 15
    assert found["tiny"] >= 90
    assert found["past the largest"] >= 15 if operation != "divide" else found["beyond"] >= 50
    assert found["beyond"] >= 5
    if operation in ("add", "subtract", "fma"):
        assert found["cancels"] >= 100
    if operation in ("multiply", "divide", "fma"):
        assert found["tiny and inexact"] >= 50


@pytest.mark.parametrize(
    ("operation", "names", "least"),
    [
        ("sqrt", ("binary32", "binary32"), {"next to a tie": 150}),
        ("sqrt", ("binary32", "binary16"), {"tie": 100, "next to a tie": 100, "past the largest": 20}),
        ("scaleb", ("binary16", "int32", "binary16"), {"tie": 30, "tiny and inexact": 100, "beyond": 50}),
        ("round_to_integral", ("binary32", "binary16"), {"past the largest": 10}),
        ("negative", ("binary32", "bfloat16"), {"tie": 100, "next to a tie": 100, "past the largest": 20}),
        (
            "add",
            ("binary32", "binary32", "e4m3fn"),
            {"tie": 100, "next to a tie": 100, "past the largest": 20},
        ),
        ("multiply", ("bfloat16", "bfloat16", "e4m3fn"), {"tie": 50, "tiny and inexact": 100}),
        ("divide", ("binary64", "int32", "e5m2"), {"tie": 50, "next to a tie": 50}),
        ("remainder", ("binary32", "binary32", "binary16"), {"tie": 10, "tiny and inexact": 20}),
        ("maximum", ("binary32", "binary32", "binary16"), {"tie": 50, "next to a tie": 50}),
    ],
)
def test_formats_need_not_be_alike(operation, names, least):
    """Ties of the result's format, out of wider operands."""
    found = kinds(operation, tuple(map(operand_format, names)), samples=1024, seed=0)
    assert {kind for kind, count in least.items() if found[kind] < count} == set(), found


def test_quotients_of_remainders_and_integers_are_at_ties_too():
    """These are what the operations round themselves."""
    formats = formats_of("remainder", "binary32")
    cases = zip(*(column.tolist() for column in operands("remainder", formats, 1024, 0)), strict=True)
    values = [[decode(code, catalog.BINARY32) for code in codes] for codes in cases]
    finite = [(x, y) for x, y in values if isinstance(x, Fraction) and isinstance(y, Fraction) and y]
    assert sum((x / y).denominator == 2 for x, y in finite) >= 50
    codes = operands("round_to_integral", formats_of("round_to_integral", "binary32"), 1024, 0)[0]
    values = [decode(code, catalog.BINARY32) for code in codes.tolist()]
    assert sum(isinstance(value, Fraction) and value.denominator == 2 for value in values) >= 50


@pytest.mark.parametrize("page", ["vectors.md", "functions.md"])
def test_the_pages_show_what_the_commands_print(tmp_path, page):
    """A page's program is written to a file, and its commands are run beside it."""
    text = (DOCS / page).read_text()
    (tmp_path / "fma.py").write_text(re.search(r"^```python\n(.*?)^```", text, re.M | re.S)[1])
    blocks = "".join(re.findall(r"^```console\n(.*?)^```", text, re.M | re.S))
    environment = {**os.environ, "PYTHONPATH": str(DOCS.parent)}
    for part in re.split(r"^\$ ", blocks, flags=re.M)[1:]:
        command, shown = part.split("\n", 1)
        if command.startswith("cat "):
            (tmp_path / command.split()[1]).write_text(shown)
        run = command.replace("python ", f"{sys.executable} ").replace(
            "lowprec ", f"{sys.executable} -m lowprec "
        )
        done = subprocess.run(
            ["bash", "-c", run], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.stderr == ""
        first, *last = shown.split("...\n")
        assert done.stdout.startswith(first)
        assert done.stdout.endswith(last[-1] if last else first)
        place = len(first)
        for piece in last:  # "..." stands for lines that are left out
            assert piece in done.stdout[place:]
            place = done.stdout.index(piece, place) + len(piece)
