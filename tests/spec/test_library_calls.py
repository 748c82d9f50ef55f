"""Splits of K, epilogues and named library calls: what they are made of, and what they refuse."""

import dataclasses

import pytest

import lowprec as lp
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.evidence.evidence import evidence_for
from lowprec.spec.library_calls import LIBRARY_CALLS, library_call
from lowprec.spec.order import Split
from lowprec.spec.toml_reading import from_toml
from tests.support import refusal_test

ADA = ACCUMULATIONS["ada_mma_e4m3fn_binary32"]


def dealt(split, length):
    """The products of each split, as text."""
    return ["".join(str(i) for run in runs for i in run) for runs in split.runs(length)]


@pytest.mark.parametrize(
    ("split", "wanted"),
    [
        (Split(3), ["0123", "4567", "89"]),
        (Split(3, deal="balanced"), ["0123", "456", "789"]),
        (Split(3, deal="interleaved"), ["0369", "147", "258"]),
        (Split(3, tile=2), ["0123", "4567", "89"]),
        (Split(3, tile=2, deal="balanced"), ["0123", "4567", "89"]),
        (Split(2, tile=3, deal="balanced"), ["012345", "6789"]),
        (Split(3, tile=2, deal="interleaved"), ["0167", "2389", "45"]),
        (Split(2, tile=4, deal="interleaved"), ["012389", "4567"]),
        (Split(4, tile=4), ["0123", "4567", "89", ""]),
        (Split(4, tile=4, deal="balanced"), ["0123", "4567", "89", ""]),
    ],
    ids=str,
)
def test_ten_products_are_dealt_so(split, wanted):
    assert dealt(split, 10) == wanted
    assert dealt(split, 0) == [""] * split.count


def test_sums_of_splits_are_added_in_binary32_with_the_output_s_nan():
    """As a device's own additions: to nearest, and its one code of NaN."""
    for how in (dataclasses.replace(ADA, split=Split(2)), dataclasses.replace(ADA, order="chunked(128)")):
        fmt, rule = how.total or how.split.total
        assert (fmt.name, str(rule.rounding), rule.nan_code) == ("binary32", "nearest_even", 0x7FFFFFFF)


def test_splits_are_written_and_read():
    for split in (Split(3, tile=64, deal="interleaved", combine="halves"), Split(2, stored="binary16")):
        how = dataclasses.replace(ADA, name="mine", split=split)
        assert from_toml(lp.to_toml(how))["mine"] == how
    text = 'base = "ada_mma_e4m3fn_binary32"\nsplit = { count = 3, deal = "turns" }'
    with pytest.raises(ValueError, match="deal='turns' of a split is unknown; use one of contiguous"):
        from_toml(text)
    with pytest.raises(ValueError, match="unknown field 'slots' of a split; the fields are count"):
        from_toml('base = "ada_mma_e4m3fn_binary32"\nsplit = { count = 3, slots = 2 }')


@pytest.mark.parametrize("name", LIBRARY_CALLS)
def test_every_call_says_where_it_comes_from(name):
    call = LIBRARY_CALLS[name](fast=False, split=(3, "halves"), output="e5m2", formats=("e5m2", "e4m3fn"))
    assert str(call) == name
    assert "split-K: given by the caller" in call.evidence
    assert "Not measured by this project" in call.evidence
    assert ("[PANTHEON]" in call.evidence) == any(each.by == "PANTHEON" for each in evidence_for(name))
    assert call.accumulation.split == Split(
        3, tile=64, deal="interleaved", combine="halves", total=call.accumulation.split.total
    )
    assert [fmt.name for fmt in call.accumulation.operands] == ["e5m2", "e4m3fn"]
    # Blackwell's instructions keep binary32: nothing is promoted.
    assert (call.accumulation.order.name == "chunked") == ("blackwell" not in name)


def test_calls_are_spelled():
    spelled = "ada_cublaslt_fp8(formats=e5m2:e4m3fn, output=e5m2, fast=false, split=3:halves)"
    call = LIBRARY_CALLS["ada_cublaslt_fp8"](
        fast=False, split=(3, "halves"), output="e5m2", formats=("e5m2", "e4m3fn")
    )
    assert library_call(spelled) == call
    assert library_call("ada_cublaslt_fp8(split=2)").accumulation.split.combine == "sequential"
    assert library_call("fp32_fma") is None


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
Split(count=1)
    ValueError: count=1 of a split is out of range; use 2 to 65,536
Split(count=2, tile=0)
    ValueError: tile=0 of a split is out of range; use 1 to 4,294,967,296
Split(count=2, deal="in turn")
    ValueError: deal='in turn' of a split is unknown; use one of contiguous, balanced, interleaved
Split(count=2, combine="slots(0)")
    ValueError: combine='slots(0)' of a split is unknown; use sequential...
Split(count=2, combine="slots(02)")
    ValueError: combine='slots(02)' of a split is unknown...
Split(count=2, stored=("bfloat16", "stochastic(8)"))
    ValueError: stored of a split is not rounded stochastically
Split(count=2, combine="slots")
    ValueError: ...pairwise, halves or slots(n), with n of 1 or more
Split(count=2, total="binary99")
    ValueError: total of an accumulation: unknown format 'binary99'...
Split(count=2, total="e8m0fnu")
    ValueError: total='e8m0fnu' of an accumulation has no zero, which a sum begins with; use another
dataclasses.replace(ACCUMULATIONS["fp64_sequential"], split=Split(2))
    ValueError: the sums of a split have at most 32 bits: accumulate in binary32 or less
dataclasses.replace(ACCUMULATIONS["fp32_sequential"], split=Split(2), output=("bfloat16", "stochastic(8)"))
    ValueError: a split has no stochastic rounding: leave out split, or round otherwise
dataclasses.replace(ADA, split=3)
    TypeError: split of an accumulation must be a Split, not 3
lp.Epilogue(scales="both")
    ValueError: scales='both' of an epilogue is unknown; use one of product, x_first, y_first
lp.Epilogue(compute="e8m0fnu")
    ValueError: compute='e8m0fnu' of an epilogue has no zero; use 'binary32'
lp.Epilogue(output=("bfloat16", "stochastic(8)"))
    ValueError: output of an epilogue is not rounded stochastically
lp.Epilogue(compute=None)
    TypeError: compute of an accumulation must be (Format, Projection), not None
lp.Epilogue(fused_bias=1)
    TypeError: fused_bias of an epilogue must be True or False, not 1
library_call("ada_cublaslt_fp8(fast=maybe)")
    ValueError: 'fast=maybe' of 'ada_cublaslt_fp8(fast=maybe)' is unknown; use...
library_call("ada_cublaslt_fp8(split=a)")
    ValueError: 'split=a' of...
library_call("ada_cublaslt_fp8(slow)")
    ValueError: 'slow' of...
library_call("ada_cublaslt_fp8(output=int8)")
    ValueError: output='int8' of ada_cublaslt_fp8 is unknown; use bfloat16, binary16, binary32, e4m3fn
    or e5m2
library_call("ada_cublaslt_fp8(formats=e4m3fn:int8)")
    ValueError: formats=('e4m3fn', 'int8') of ada_cublaslt_fp8: it multiplies 'e4m3fn' and 'e5m2'
library_call("ada_cublaslt_fp8(split=1)")
    ValueError: count=1 of a split is out of range; use 2 to 65,536
LIBRARY_CALLS["ada_cublaslt_fp8"](fast="false")
    TypeError: fast of ada_cublaslt_fp8 must be True or False, not 'false'
LIBRARY_CALLS["ada_cublaslt_fp8"](formats=("e4m3fn",))
    ValueError: formats=('e4m3fn',) of ada_cublaslt_fp8 must be two: of x and of y
LIBRARY_CALLS["ada_cublaslt_fp8"](split=(3,))
    TypeError: split of ada_cublaslt_fp8 must be a Split or a pair such as (3, 'halves'), not (3,)
LIBRARY_CALLS["ada_cublaslt_fp8"](slow=True)
    TypeError: ada_cublaslt_fp8 has no 'slow'; it has formats, output, fast and split
lp.to_toml(LIBRARY_CALLS["ada_cublaslt_fp8"](formats="e5m2"))
    TypeError: to_toml takes one of format, block format, accumulation, profile, codebook, not a
    LibraryCall
library_call("ada_cublaslt_fp8(fast=true, fast=false)")
    ValueError: 'fast' of 'ada_cublaslt_fp8(fast=true, fast=false)' is given twice
""",
)
