"""Published: dot products that tensor cores gave when they were measured, code for code."""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest

import lowprec as lp
from lowprec.oracle import convert
from lowprec.oracle.dot import dot
from lowprec.oracle.exact import Exact
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.accumulations import accumulation
from lowprec.spec.catalog import BFLOAT16, BINARY16, BINARY32, E4M3FN, E5M2, TF32
from lowprec.spec.format import Format

TABLE = pathlib.Path(__file__).parents[2] / "tables" / "published" / "khattak_dot_products.npz"

with np.load(TABLE) as _table:
    PUBLISHED = {name: _table[name] for name in _table.files}

SETS = sorted(name for name in PUBLISHED if ".d_" in name)

ARCHITECTURES = {
    "V100": "volta",
    "A100": "ampere",
    "A2": "ampere",
    "Ada": "ada",
    "L40S": "ada",
    "H100": "hopper",
    "H200": "hopper",
    "B200": "blackwell",
}
FORMATS: dict[str, Format] = {"fp16": BINARY16, "bf16": BFLOAT16, "tf32": TF32, "E4M3": E4M3FN, "E5M2": E5M2}
OUTPUTS = {"d_fp32": "binary32", "d_fp16": "binary16"}

decode = functools.cache(convert.decode)


def measured(name: str) -> Accumulation:
    """What the set accumulates: FP8 with binary32 results is wgmma's on Hopper, all else is mma's."""
    machine, operands, output = name.split(".")
    wide = machine in ("H100", "H200") and operands in ("E4M3", "E5M2") and output == "d_fp32"
    instruction = "wgmma" if wide else "mma"
    return accumulation(f"{ARCHITECTURES[machine]}_{instruction}_{FORMATS[operands]}_{OUTPUTS[output]}")


def rows(name: str) -> Iterator[tuple[list[Exact], list[Exact], Exact | None]]:
    """Operands and addend; on Hopper wgmma's were measured without one."""
    machine, operands, _ = name.split(".")
    # tf32 operands are binary32 numbers; the accumulation cuts them.
    fmt = BINARY32 if operands == "tf32" else FORMATS[operands]
    x, y, c = (PUBLISHED[f"{machine}.{operands}.{part}"].tolist() for part in "abc")
    no_addend = "wgmma" in measured(name).name
    for ours, theirs, addend in zip(x, y, c, strict=True):
        yield (
            [decode(code, fmt) for code in ours],
            [decode(code, fmt) for code in theirs],
            None if no_addend else decode(addend, BINARY32),
        )


def agrees(name: str, how: Accumulation) -> bool:
    """Whether every row has its published code; stops at the first that has another."""
    published = PUBLISHED[name].tolist()
    return all(dot(x, y, how, c) == code for (x, y, c), code in zip(rows(name), published, strict=True))


def with_window(how: Accumulation, **changes: object) -> Accumulation:
    return dataclasses.replace(how, accumulator=dataclasses.replace(how.accumulator, **changes))


def test_there_are_48_sets_of_eight_machines():
    """Each has 49 to 119 rows."""
    assert len(SETS) == 48
    assert {name.split(".")[0] for name in SETS} == set(ARCHITECTURES)
    assert sum(PUBLISHED[name].size for name in SETS) == 3958


@pytest.mark.parametrize("name", SETS)
def test_the_oracle_gives_what_was_measured(name):
    """Every row."""
    how = measured(name)
    got = [dot(x, y, how, c) for x, y, c in rows(name)]
    assert got == PUBLISHED[name].tolist()


@pytest.mark.parametrize("name", SETS)
def test_the_kernels_give_what_was_measured(name):
    """Every row, by the general kernel; and as an element of a product of matrices, which vectors make."""
    machine, operands, output = name.split(".")
    x, y, c = (PUBLISHED[f"{machine}.{operands}.{part}"] for part in "abc")
    x, y = (
        codes.view("f4") if operands == "tf32" else lp.decode(codes, FORMATS[operands]) for codes in (x, y)
    )
    addend = np.zeros(len(c), "f4") if "wgmma" in measured(name).name else c.view("f4")
    kind = "u4" if output == "d_fp32" else "u2"
    got = lp.dot(x, y, measured(name), addend=addend, dtype=kind)
    assert got.tolist() == PUBLISHED[name].tolist()
    whole = lp.matmul(
        x[:40], y[:40].T, measured(name), addend=np.broadcast_to(addend[:40], (40, 40)).T, dtype=kind
    )
    assert np.diagonal(whole).tolist() == PUBLISHED[name][:40].tolist()


#: Sums of FP8 products that B200 makes in steps are exact in these rows.
EXACT_IN_STEPS = ("B200.E4M3.d_fp32", "B200.E5M2.d_fp32")


def tells_bits(name: str) -> bool:
    """Whether rows tell one bit of alignment more, or less: binary16 results of 25 bits hardly ever do."""
    bits = measured(name).accumulator.fraction_bits
    return name not in EXACT_IN_STEPS and (name.endswith("d_fp32") or bits == 13)


def tells_steps(name: str) -> bool:
    """Whether rows tell a shorter step: there must be as many products."""
    step, length = measured(name).accumulator.step, next(rows(name))[0]
    return name not in EXACT_IN_STEPS and len(length) >= step


def others(name: str) -> dict[str, Accumulation]:
    """Return accumulations that rows tell from what was measured, by what is changed."""
    how = measured(name)
    window, (fmt, projection) = how.accumulator, how.accumulator.result
    pairs, cut = window.groups == "alternate_pairs", str(projection.rounding) == "toward_zero"
    found = {}
    if tells_bits(name):
        found |= {
            f"{more} bits": with_window(how, fraction_bits=window.fraction_bits + more) for more in (-1, 1)
        }
    if tells_steps(name):
        found["a shorter step"] = with_window(how, step=window.step // 2 if pairs else window.step - 1)
    if name not in EXACT_IN_STEPS:
        rounding = dataclasses.replace(projection, rounding="nearest_even" if cut else "toward_zero")
        found["another rounding of steps"] = with_window(how, result=(fmt, rounding))
    if how.total is not None:  # where FP8 is emulated the addend comes after the products
        found["an addend in the first step"] = dataclasses.replace(how, order="sequential", total=None)
    if pairs:
        found["consecutive products"] = with_window(how, groups="consecutive")
    return found


@pytest.mark.parametrize("name", SETS)
def test_other_accumulations_are_seen(name):
    """See that agreement means something."""
    assert [what for what, how in others(name).items() if agrees(name, how)] == []
