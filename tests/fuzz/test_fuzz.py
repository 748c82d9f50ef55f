"""Some cases of each fuzzer; and that they find mistakes, and print programs that show them."""

import math
import sys

import numpy as np
import pytest

import lowprec as lp
from lowprec.kernels.lower import scalar as params
from lowprec.oracle import convert
from lowprec.spec.arith import OPERANDS
from lowprec.spec.rounding import Threshold
from lowprec.verify.compare import diagnosis
from tests.fuzz import frames, labels, runner
from tests.fuzz.__main__ import main
from tests.fuzz.runner import forget, fuzz
from tests.fuzz.topics import KNOWN, TOPICS

#: Cases of each topic, the same on every machine: some seconds, which for much goes to compiling kernels.
CASES = {"conversions": 180, "arithmetic": 160, "order": 40, "dots": 800, "blocks": 300, "refusals": 80}
CASES |= {"comparisons": 40, "files": 150, "frames": 500, "labels": 200, "epilogues": 400}

#: What topics need besides the package.
NEEDS = {"frames": ("pandas",), "labels": ("dask", "xarray")}


def test_nothing_is_passed_over():
    """Known mistakes are mended, not listed."""
    assert KNOWN == ()


@pytest.mark.apart
@pytest.mark.parametrize("name", TOPICS)
def test_kernels_agree_with_the_oracle_on_what_is_drawn(name):
    """The first cases; `python -m tests.fuzz` goes on."""
    for needed in NEEDS.get(name, ()):
        pytest.importorskip(needed)
    told = []
    count = fuzz(name, TOPICS[name], 1, math.inf, most=CASES[name], told=told.append)
    assert count.failures == (), "\n".join(told)
    assert count.elements > 0


# -- planted mistakes -------------------------------------------------------------------------------


def forget_all():
    """Forget what was lowered, and calls that are known by what they were lowered to."""
    forget()
    for name, module in list(sys.modules.items()):
        if name.startswith("lowprec."):
            for each in vars(module).values():
                if hasattr(each, "cache_clear"):
                    each.cache_clear()


@pytest.fixture
def planted(monkeypatch):
    """Plants mistakes; what was lowered before, and with them, is forgotten."""
    forget_all()
    monkeypatch.setattr(runner, "LONGEST_SHRINK", 2.0)
    yield monkeypatch
    monkeypatch.undo()
    forget_all()


def test_what_was_lowered_with_a_mistake_is_forgotten(monkeypatch):
    """Or tests that follow in the same process would have it."""
    tie = np.float32([1.0625])
    forget_all()
    monkeypatch.setitem(params.LIMITS, Threshold.HALF_OR_ABOVE, 1 << 63)
    monkeypatch.setitem(params.LIMITS, Threshold.ABOVE_HALF, (1 << 63) - 1)
    assert [int(lp.encode(tie, "e4m3fn")[0]) for _ in range(3)] == [0x39] * 3
    monkeypatch.undo()
    forget_all()
    assert [int(lp.encode(tie, "e4m3fn")[0]) for _ in range(3)] == [0x38] * 3


def found(name, seconds=300):
    """The first failure of a topic, its program, and what that prints."""
    told = []
    count = fuzz(name, TOPICS[name], 0, seconds, told=told.append)
    assert len(count.failures) == 1, f"not found in {count.cases} cases"
    assert f"--topic {name} --seed 0 --case {count.failures[0][0]}" in told[1]
    return count.failures[0][1], told[0]


def printed(failure, capsys):
    """What the program of a failure prints."""
    capsys.readouterr()
    exec(failure.program(), {})
    return capsys.readouterr().out


@pytest.mark.apart
def test_a_tie_that_the_oracle_decides_otherwise_is_found(planted, capsys):
    """In one element, whose program gives what the kernel gives."""
    right = convert.is_farther

    def wrong(tail, rounding, *, negative, odd, random=None):
        return right(tail, rounding, negative=negative, odd=odd ^ (2 * tail == 1), random=random)

    planted.setattr(convert, "is_farther", wrong)
    failure, text = found("conversions")
    assert all(x.size == 1 for x in failure.call.operands)
    assert f"# got  {failure.got:#x}" in text
    assert printed(failure, capsys)


@pytest.mark.apart
def test_a_tie_that_is_lowered_wrongly_is_found(planted):
    """One word of a target, one unit in 2**64."""
    planted.setitem(params.LIMITS, Threshold.HALF_OR_ABOVE, 1 << 63)
    failure, _ = found("conversions")
    assert all(x.size == 1 for x in failure.call.operands)


@pytest.mark.parametrize(
    ("topic", "verbs"), [("arithmetic", OPERANDS), ("order", ["less"]), ("blocks", ["encode"])]
)
@pytest.mark.apart
def test_a_wrong_last_bit_is_found(planted, topic, verbs):
    """Of the first result of every call."""

    def spoiled(verb):
        right = getattr(lp, verb)

        def wrong(*arguments, **keywords):
            given = right(*arguments, **keywords)
            parts = given.codes if isinstance(given, lp.BlockArray) else given
            if parts.shape and parts.size:
                parts.reshape(-1)[:1].view("u1")[0] ^= 1
            return given

        return wrong

    for verb in verbs:
        planted.setattr(lp, verb, spoiled(verb))
    failure, _ = found(topic)
    assert failure.call.verb.removeprefix("lp.") in verbs


@pytest.mark.apart
def test_a_hypothesis_that_fails_is_found(planted):
    """Whichever it is."""

    def wrong(*_):
        raise OverflowError("planted")

    planted.setattr(diagnosis, "differ", wrong)
    failure, _ = found("comparisons")
    assert failure.got == ("OverflowError", "planted")


@pytest.mark.apart
def test_a_file_that_is_read_wrongly_is_found(planted):
    """In the last bit of an array."""
    right = lp.load

    def wrong(path):
        arrays = right(path)
        for each in arrays.values():
            codes = each.codes if isinstance(each, lp.BlockArray) else each
            if codes.size:
                codes.reshape(-1).view("u1")[-1:] ^= 1
        return arrays

    planted.setattr(lp, "load", wrong)
    failure, _ = found("files")
    assert failure.call.verb == "subjects.saved"


@pytest.mark.apart
def test_columns_that_are_made_of_one_type_are_found(planted):
    """Integers of 64 bits are rounded twice so."""
    pandas = pytest.importorskip("pandas")

    def of_one_type(verb):
        right = getattr(lp, verb)

        def wrong(*given):
            return right(
                *(each.astype(np.float32) if isinstance(each, pandas.DataFrame) else each for each in given)
            )

        return wrong

    for verb in frames.OF_VALUES:
        planted.setattr(lp, verb, of_one_type(verb))
    failure, _ = found("frames")
    assert failure.call.verb == "subjects.framed"


@pytest.mark.apart
def test_names_that_are_taken_by_place_are_found(planted):
    """In any verb of two arrays."""
    xarray = pytest.importorskip("xarray")

    def by_place(verb):
        right = getattr(lp, verb)

        def wrong(*given, **keywords):
            named = [each for each in given if isinstance(each, xarray.DataArray)]
            if not named:
                return right(*given, **keywords)
            plain = [np.asarray(each) if isinstance(each, xarray.DataArray) else each for each in given]
            return xarray.DataArray(right(*plain, **keywords), dims=max((x.dims for x in named), key=len))

        return wrong

    for verb in labels.OF_CODES | labels.OF_VALUES:
        planted.setattr(lp, verb, by_place(verb))
    failure, _ = found("labels")
    assert failure.call.verb == "subjects.labelled"


@pytest.mark.apart
def test_an_answer_that_depends_on_the_call_before_is_found(planted):
    """A memory of calls that looks at the format alone."""
    right, before = lp.encode, {}

    def wrong(values, fmt, **keywords):
        keywords = before.setdefault(
            str(fmt), {key: keywords[key] for key in keywords if key == "projection"}
        ) | {key: value for key, value in keywords.items() if key != "projection"}
        return right(values, fmt, **keywords)

    planted.setattr(lp, "encode", wrong)
    failure, _ = found("conversions")
    assert failure.call.verb == "lp.encode"


@pytest.mark.apart
def test_an_error_of_the_wrong_kind_is_found(planted):
    """Instead of a refusal."""
    right = lp.quantize

    def wrong(values, fmt, **keywords):
        return {"no such rule": 1}[keywords["rule"]] if "rule" in keywords else right(values, fmt, **keywords)

    planted.setattr(lp, "quantize", wrong)
    failure, _ = found("refusals")
    assert failure.call.verb == "lp.quantize "


def test_a_case_can_be_asked_again(capsys):
    """By its topic, seed and number."""
    assert main(["--topic", "order", "--seed", "3", "--case", "2"]) == 0
    assert capsys.readouterr().out.startswith("order: 1 cases, ")
