"""Fields of specifications: equal specifications hash equal, and are the same after a copy or a pickle."""

import copy
import dataclasses
import enum
import pickle

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.block import RULES, BlockFormat, ScaleRule
from lowprec.spec.format import Format
from lowprec.spec.order import Order, chunked
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES, Rounding, stochastic
from tests.support import refusal_test

SINGLE = (lp.format("binary32"), Projection())


class Word(enum.StrEnum):
    """Members equal their strings, and hash otherwise."""

    DROP = "drop"
    REASON = "mine"
    UP = "up"
    FLOOR = "floor"
    LAST = "last"
    SEQUENTIAL = "sequential"
    ONE = "one"


WINDOW = Window(step=4, fraction_bits=24, result=SINGLE)
EXAMPLES = {
    "formats": [*lp.formats.values()],
    "roundings": [*MODES, stochastic(8, "B")],
    "projections": [
        Projection(),
        Projection(via=(lp.format("binary32"),), nan_code=3),
        Projection(saturation="finite"),
    ],
    "rules": [*RULES],
    "block formats": [*lp.block_formats.values()],
    "orders": [Order("exact"), chunked(4, "pairwise")],
    "windows": [WINDOW],
    "accumulations": [*lp.accumulations.values()],
    "profiles": [*lp.profiles.values()],
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_copies_and_pickles_are_equal_and_hash_equal(kind):
    """Of everything in the catalogs."""
    for spec in EXAMPLES[kind]:
        for same in (
            copy.copy(spec),
            copy.deepcopy(spec),
            pickle.loads(pickle.dumps(spec)),
            dataclasses.replace(spec),
        ):
            assert same == spec
            assert hash(same) == hash(spec)
            assert repr(same) == repr(spec)


SPELLINGS = [
    (Projection(nan_sign="drop"), Projection(nan_sign=Word.DROP)),
    (Projection(nan_sign="drop"), Projection(nan_sign=np.str_("drop"))),
    (Projection(via=(lp.format("binary32"),)), Projection(via=[lp.format("binary32")])),
    (ScaleRule("mine", "one", "up"), ScaleRule(Word.REASON, Word.ONE, Word.UP)),
    (Rounding("mine", *[MODES[0].positive_odd] * 4), Rounding(Word.REASON, *[MODES[0].positive_odd] * 4)),
    (
        dataclasses.replace(lp.block_formats["mxfp4"], size=16),
        dataclasses.replace(lp.block_formats["mxfp4"], size=np.int8(16)),
    ),
    (
        dataclasses.replace(lp.block_formats["nvfp4_2d"], size=(8, 8)),
        dataclasses.replace(lp.block_formats["nvfp4_2d"], size=[np.uint8(8), np.int64(8)]),
    ),
    (
        dataclasses.replace(lp.block_formats["mxfp4"], zero="one"),
        dataclasses.replace(lp.block_formats["mxfp4"], zero=Word.ONE),
    ),
    (Order("chunked", 4), Order("chunked", np.uint16(4))),
    (Order("sequential"), Order(Word.SEQUENTIAL)),
    (dataclasses.replace(WINDOW, step=8), dataclasses.replace(WINDOW, step=np.int32(8))),
    (dataclasses.replace(WINDOW, fraction_bits=8), dataclasses.replace(WINDOW, fraction_bits=np.int32(8))),
    (
        dataclasses.replace(WINDOW, lowest_exponent=-8),
        dataclasses.replace(WINDOW, lowest_exponent=np.int32(-8)),
    ),
    (dataclasses.replace(WINDOW, cut="floor"), dataclasses.replace(WINDOW, cut=Word.FLOOR)),
    (
        Accumulation(accumulator=SINGLE, output=SINGLE, addend="last"),
        Accumulation(accumulator=SINGLE, output=SINGLE, addend=Word.LAST),
    ),
]


@pytest.mark.parametrize(("one", "other"), SPELLINGS, ids=lambda spec: type(spec).__name__)
def test_other_types_of_the_same_values_make_the_same_key(one, other):
    """Fields are of one type each, whatever they are given as."""
    assert one == other
    assert hash(one) == hash(other)
    for field in dataclasses.fields(one):
        assert type(getattr(one, field.name)) is type(getattr(other, field.name)), field.name


test_what_cannot_be_is_refused = refusal_test(
    {**globals(), "BlockFormat": BlockFormat, "Format": Format},
    """
Rounding(["mine"], *[MODES[0].positive_odd] * 4)
    TypeError: name of a rounding mode must be a string, not ['mine']
ScaleRule(None, "one", "up")
    TypeError: name of a scale rule must be a string, not None
BlockFormat(name=3, element=lp.format("e2m1fn"), scale=lp.format("e8m0fnu"), size=32)
    TypeError: name of a block format must be a string, not 3
dataclasses.replace(lp.block_formats["mxfp4"], source=None)
    TypeError: source of a block format must be a string, not None
Accumulation(accumulator=SINGLE, output=SINGLE, machine=["cdna3"])
    TypeError: machine of an accumulation must be a string, not ['cdna3']
lp.Profile("mine", 2, {})
    TypeError: versions of a profile must be a string, not 2
Format(name="mine", exponent_bits=np.int64(4), trailing_bits=3, bias=7)
    TypeError: exponent_bits of a format must be of type int, not np.int64(4)
""",
)
