"""Published: functions of The RLIBM Project, whose results round rightly in five modes."""

import pathlib

import numpy as np
import pytest

from tests.silicon import RLIBM, rounded_alike

TABLE = pathlib.Path(__file__).parents[2] / "tables" / "published" / "rlibm_functions.npz"


@pytest.mark.parametrize("name", RLIBM)
def test_functions_round_as_rlibm_does(name):
    """To binary32, tf32 and bfloat16; operands whose results are nearest to where a mode rounds elsewhere."""
    pytest.importorskip("flint")
    with np.load(TABLE) as table:
        x, y = table[f"{name}.x"].view(np.float32), table[f"{name}.y"].view(np.float64)
    assert rounded_alike(name, x, y) == (15 * x.size, 0)


def test_an_error_of_a_bit_is_seen():
    """A result that is a bit of binary32 off differs in every mode that rounds to it."""
    pytest.importorskip("flint")
    with np.load(TABLE) as table:
        x, y = table["exp.x"].view(np.float32), table["exp.y"].view(np.float64).copy()
    place = np.flatnonzero(np.isfinite(y) & (y > 1))[0]
    y[place] *= 1 + 2.0**-23
    assert rounded_alike("exp", x, y)[1] >= 5
