"""Codes without gaps in files: read row by row, and refused where bytes would be left over."""

import re

import numpy as np
import pytest

import lowprec as lp
from lowprec.verify.dumps.files import DumpError, open_dump
from tests.command import lowprec

#: Of 6 bits, 1, 1, 1, 1.
GROUP = [0x41, 0x10, 0x04]


@pytest.mark.parametrize(
    ("rows", "shape"), [([*GROUP, 0xFF], None), ([[*GROUP, 0]] * 2, None), ([[*GROUP, 0]] * 3, (2, 8))]
)
def test_rows_with_bytes_left_over_are_refused(tmp_path, rows, shape):
    path = tmp_path / "c.npy"
    np.save(path, np.array(rows, np.uint8))
    said = (
        f"'{path}' has 4 bytes along its last axis, no multiple of the 3 that 4 codes of 'e2m3fn' take; "
        "save rows without the bytes behind them"
    )
    with pytest.raises(DumpError, match=f"^{re.escape(said)}$"):
        open_dump(f"{path}:packed", lp.formats["e2m3fn"], shape)


def test_raw_bytes_left_over_are_refused(tmp_path):
    path, other = tmp_path / "c.bin", tmp_path / "four.npy"
    path.write_bytes(bytes([*GROUP, 0xFF]))
    np.save(other, np.full(4, 1, np.uint8))
    result = lowprec("compare", f"{path}:packed", other, "--to", "e2m3fn", "--from", "e2m3fn")
    assert result.exit_code == 2
    assert "has 4 bytes along its last axis, no multiple of the 3 that 4 codes of 'e2m3fn' take" in " ".join(
        result.output.split()
    )


def test_whole_groups_are_read_in_any_shape(tmp_path):
    np.save(tmp_path / "c.npy", np.array([GROUP * 2] * 2, np.uint8))
    for shape, wanted in ((None, (2, 8)), ((4, 4), (4, 4)), ((16,), (16,))):
        dump = open_dump(f"{tmp_path / 'c.npy'}:packed", lp.formats["e2m3fn"], shape)
        assert dump.shape == wanted
        assert dump.read(0, dump.size).tolist() == [1] * 16


@pytest.mark.parametrize("shape", [(64, 64), (64, 7, 3)])
def test_codes_are_packed_along_the_axis_of_the_blocks(tmp_path, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    blocks = lp.encode(x, "mxfp4", axis=0)
    paths = {name: tmp_path / f"{name}.npy" for name in "xps"}
    for name, array in (("x", x), ("p", blocks.packed()), ("s", blocks.scales)):
        np.save(paths[name], array)
    blocks.packed().tofile(tmp_path / "p.bin")
    spelled = ",".join(map(str, shape))
    words = "--to", "mxfp4", "--scales", paths["s"], "--axis"
    for codes in (f"{paths['p']}:packed", f"{tmp_path / 'p.bin'}:packed:{spelled}"):
        result = lowprec("compare", paths["x"], codes, *words, 0)
        assert (result.exit_code, result.stdout) == (0, f"{x.size:,} results agree\n")
    result = lowprec("compare", paths["x"], f"{paths['p']}:packed", *words, 1)
    assert result.exit_code == 2
    assert f"codes of shape {shape} packed along axis 0, and axis 1 is read" in " ".join(
        result.output.split()
    ) or (shape[2:] and "packed along axis 0" in " ".join(result.output.split()))


def test_bytes_that_are_not_as_many_as_the_axis_takes_are_refused(tmp_path):
    np.zeros(12, np.uint8).tofile(tmp_path / "p.bin")
    said = "has 12 bytes, but an array of shape 4x7 of 'e2m1fn' packed along axis 0 takes 14"
    with pytest.raises(DumpError, match=re.escape(said)):
        open_dump(f"{tmp_path}/p.bin:packed", lp.formats["e2m1fn"], (4, 7), 0)


@pytest.mark.parametrize("shape", [None, (2,), ()])
def test_packed_codes_without_an_axis_are_refused(tmp_path, shape):
    path = tmp_path / "zero.npy"
    np.save(path, np.uint8(3))
    with pytest.raises(
        DumpError, match=f"^'{re.escape(str(path))}': packed codes have an axis, and this array has none$"
    ):
        open_dump(f"{path}:packed", lp.formats["e2m1fn"], shape)
