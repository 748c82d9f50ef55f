"""Published: the value tables of the P3109 draft, number for number.

The tables are of a draft (interim report 4.0); agreeing with them is no claim of conformance.
"""

import hashlib
import pathlib
import tomllib

import numpy as np
import pytest

import lowprec as lp
from tests.support import assert_same_bits

TABLES = pathlib.Path(__file__).parents[2] / "tables" / "published" / "p3109_value_tables.npz"

with np.load(TABLES) as _tables:
    NAMES = sorted(name for name in _tables.files if not name.endswith(".sub"))


def test_there_are_242_tables_and_each_has_a_format():
    """None is refused: the repository has tables only of formats whose values float64 holds."""
    assert len(NAMES) == 242
    assert [lp.format(name).name for name in NAMES] == [name.lower() for name in NAMES]


@pytest.mark.parametrize("prefix", sorted({name.split("p")[0] for name in NAMES}))
def test_decode_equals_the_published_values_on_every_code(prefix):
    """All codes of all tables of a width, bits compared; NaNs compare by their place."""
    with np.load(TABLES) as tables:
        for name in NAMES:
            if name.split("p")[0] == prefix:
                published = tables[name]
                codes = np.arange(published.size)
                got = lp.decode(codes, name, dtype="float64")
                assert_same_bits(_one_nan(got), _one_nan(published), codes, name)


@pytest.mark.parametrize("prefix", sorted({name.split("p")[0] for name in NAMES}))
def test_subnormals_are_the_codes_marked_as_such(prefix):
    """The marks name codes without a leading one: magnitudes below min_normal, except zero and NaN."""
    with np.load(TABLES) as tables:
        for name in NAMES:
            if name.split("p")[0] == prefix:
                fmt = lp.format(name)
                marked = np.unpackbits(tables[f"{name}.sub"], count=1 << fmt.width).astype(bool)
                values = np.abs(lp.decode(np.arange(1 << fmt.width), fmt, dtype="float64"))
                smallest_normal = np.inf if fmt.min_normal is None else fmt.min_normal
                assert np.array_equal(marked, (values > 0) & (values < smallest_normal)), name


def test_the_nan_is_the_code_in_the_place_of_negative_zero_or_the_last():
    """As the draft says: 2**(K-1) if signed, else 2**K - 1."""
    with np.load(TABLES) as tables:
        for name in NAMES:
            fmt = lp.format(name)
            place = 1 << (fmt.width - 1) if fmt.name.rstrip("ef").endswith("s") else (1 << fmt.width) - 1
            assert np.flatnonzero(np.isnan(tables[name])).tolist() == [place] == [fmt.nan_code], name


def _one_nan(values):
    return np.where(np.isnan(values), np.nan, values)


def test_the_wide_tables_have_the_published_digests():
    """All 220 tables of K 12 to 16 whose values float64 holds: values, and which are subnormal."""
    published = tomllib.loads((TABLES.parent / "p3109_digests.toml").read_text())["tables"]
    assert len(published) == 220
    made = {}
    for name in published:
        fmt = lp.format(name)
        values = _one_nan(lp.decode(np.arange(1 << fmt.width), fmt, dtype="float64"))
        smallest_normal = np.inf if fmt.min_normal is None else fmt.min_normal
        marked = np.packbits((np.abs(values) > 0) & (np.abs(values) < smallest_normal))
        made[name] = hashlib.sha256(values.astype("<f8").tobytes() + marked.tobytes()).hexdigest()[:16]
    assert made == published


@pytest.mark.parametrize(
    "name", ["binary12p1ue", "binary13p2uf", "binary14p3ue", "binary15p4uf", "binary16p5ue"]
)
def test_formats_of_the_wide_tables_that_float64_does_not_hold_are_refused(name):
    """There are 50 tables of such; the message says which of float64's limits."""
    with pytest.raises(ValueError, match="float64"):
        lp.format(name)
