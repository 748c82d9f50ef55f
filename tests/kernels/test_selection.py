"""The table of ARCHITECTURE.md that says which program a request gets."""

from __future__ import annotations

import pathlib
import re

import pytest

import lowprec as lp
from lowprec.kernels import engine
from lowprec.kernels.lower.dot import begins_in, kept_as
from lowprec.kernels.request import BlockDecoding, BlockEncoding, Dot, Elementwise
from lowprec.spec import catalog, formats
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import rounding, stochastic

PAGE = (pathlib.Path(__file__).parents[2] / "ARCHITECTURE.md").read_text()
ROWS = re.findall(r"^\| `(\w+\(.*)` \| `kernels/(\w+)/(\w+)\.py` (\w+) \|$", PAGE, re.M)


def format_of(name):
    return formats.carrier(name) or catalog.format(name)


def requested(text):
    """The request that a row spells: operation(operands) to a target, a mode, flags."""
    operation, operands, target, rest = re.fullmatch(r"(\w+)\((.*?)\) to (\w+)(.*)", text).groups()
    modes = [word for word in rest.split(", ") if word not in ("", "flags")]
    if operation == "decode":
        return BlockDecoding(catalog.block_format(operands), None, format_of(target))
    sources = [format_of(name) for name in operands.split(", ")]
    if operation == "dot":
        how = lp.accumulations[target]
        return Dot(how, *sources, kept_as(begins_in(how)[0]))
    if operation == "encode":
        block = catalog.block_format(target)
        return BlockEncoding(sources[0], block, block.tensor_scale != "none")
    drawn = re.match(r"stochastic\((\d+)\)", modes[0]) if modes else None
    mode = stochastic(int(drawn[1])) if drawn else rounding(modes[0]) if modes else rounding("nearest_even")
    rule = Projection(rounding=mode)
    return Elementwise(operation, tuple(sources), format_of(target), rule, flags="flags" in rest)


def test_the_table_is_found():
    assert len(ROWS) > 20


@pytest.mark.parametrize(("text", "room", "file", "name"), ROWS)
def test_a_request_gets_the_program_that_the_table_names(text, room, file, name):
    program = type(engine.lower(requested(text)))
    assert (program.__module__, program.__qualname__) == (f"lowprec.kernels.{room}.{file}", name)
