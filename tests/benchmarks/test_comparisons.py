"""Comparisons are timed only if right, and beside ml_dtypes."""

import pytest

from benchmarks import peers, run
from benchmarks.comparisons import comparison_contest
from benchmarks.contest import WrongResult
from benchmarks.data import KINDS, has_data
from benchmarks.topics import TOPICS, Job
from lowprec.arrays.orders import comparisons
from lowprec.spec import catalog
from tests.benchmarks.conftest import checked

pytestmark = pytest.mark.apart


@pytest.mark.parametrize("variant", TOPICS["compare"].variants)
@pytest.mark.parametrize("name", ["e4m3fn", "e5m2", "bfloat16", "binary16"])
def test_what_is_timed_is_right(name, variant):
    """On all data; and comparisons of the peers are the same."""
    fmt = catalog.format(name)
    for kind in KINDS:
        if has_data(fmt, kind):
            kept, differ = checked(
                comparison_contest(Job("compare", variant, fmt, 3000, kind, 1)), peers.PEERS[:2]
            )
            assert kept[0].name == "lowprec"
            assert {kept[-1].role, kept[-2].role} == {"peer"}
            assert variant == "minimum" or not any(differ[-2:])


@pytest.mark.parametrize(("place", "by"), [(0, "the oracle"), (1001, "ml_dtypes or NumPy")])
def test_a_wrong_result_is_not_timed(monkeypatch, place, by):
    """One of 256 places that the oracle looks at, or any other."""
    right = comparisons.less

    def less(*operands):
        found = right(*operands)
        found[place] ^= True
        return found

    monkeypatch.setattr(comparisons, "less", less)
    with pytest.raises(WrongResult, match=f"not those of {by}, the first at index {place}: "):
        checked(comparison_contest(Job("compare", "less", catalog.E4M3FN, 4096, "normal", 1)))


def test_only_codes_with_a_type_have_rows():
    """Neither integers, nor formats that NumPy and ml_dtypes lack."""
    formats = [catalog.E4M3FN, catalog.INT8, catalog.UE4M3]
    rows = run.plan(["compare"], formats=formats, sizes=[8])
    assert [str(row) for row in rows] == [
        f"compare {variant} e4m3fn normal n=8" for variant in TOPICS["compare"].variants
    ]
