"""The golden files are right, their schemas hold, and one wrong byte is found."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.spec import catalog
from lowprec.tools import golden
from lowprec.tools.cli import main

TABLES = Path(__file__).parents[2] / "tables"


@pytest.mark.parametrize("fmt", golden.TABULATED, ids=str)
def test_every_published_table_loads_back_as_decode_of_all_codes(fmt):
    """NaNs and zeros with their signs."""
    lines = (TABLES / "values" / f"{fmt.name}.csv").read_text().splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert [int(row["code"], 16) for row in rows] == list(range(1 << fmt.width))
    values = [np.copysign(np.nan, -1) if row["value"] == "-nan" else float.fromhex(row["value"]) for row in rows]
    want = lp.decode(np.arange(1 << fmt.width), fmt, dtype=np.float64)
    assert (np.array(values).view(np.uint64) == want.view(np.uint64)).all()


def test_tables_are_those_of_the_catalog_and_of_p3109():
    """All of at most 8 bits."""
    names = {path.stem for path in (TABLES / "values").iterdir()}
    assert names == {f.name for f in catalog.FORMATS.values() if f.width <= 8} | {f.name for f in catalog.P3109_UP_TO_8}


@pytest.mark.parametrize("name", ["formats", "digests"])
def test_json_files_obey_their_schemas(name):
    """And the schema is one itself."""
    schema = json.loads((TABLES / "schema" / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads((TABLES / f"{name}.json").read_text()), schema)


def test_digests_are_what_the_readme_says_they_are():
    """Someone else could recompute them so."""
    digests = json.loads((TABLES / "digests.json").read_text())
    for name in ("binary16", "bfloat16", "tf32"):
        fmt = catalog.FORMATS[name]
        values = lp.decode(np.arange(1 << fmt.width), fmt, dtype="float64")
        assert digests["decode"][name] == {
            "codes": 1 << fmt.width,
            "sha256": hashlib.sha256(values.astype("<f8").tobytes()).hexdigest(),
        }
    assert set(digests["encode"]) == set(catalog.FORMATS)
    operands = golden.sweep_operands(catalog.E4M3FN)
    codes = lp.encode(operands, "e4m3fn", rounding="to_odd", saturation="finite")
    sweep = digests["encode"]["e4m3fn"]
    assert sweep["codes_sha256"]["to_odd/finite"] == hashlib.sha256(codes.tobytes()).hexdigest()
    assert sweep["operands_sha256"] == hashlib.sha256(operands.astype("<f4").tobytes()).hexdigest()


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Golden data cut down to a few files, so that writing and checking take a moment."""
    monkeypatch.setattr(golden, "TABULATED", (catalog.E2M1FN, catalog.E8M0FNU))
    monkeypatch.setattr(golden, "VECTORS", (("e2m1fn", "to_odd", "finite"),))
    monkeypatch.setattr(golden, "_digests", lambda watch: b"{}\n")
    assert golden.write(tmp_path) == 8
    return tmp_path


def run(action, folder):
    result = CliRunner().invoke(main, ["golden", action, "--tables", str(folder)])
    return result.exit_code, result.output


def test_what_was_written_checks(small):
    """And is the same as what is committed."""
    assert run("--check", small) == (0, "the golden files are right\n")
    for name in (
        "values/e2m1fn.csv",
        "values/e8m0fnu.csv",
        "formats.json",
        "formats.md",
        "blocks.md",
        "accumulations.md",
    ):
        assert (small / name).read_bytes() == (TABLES / name).read_bytes()


def test_one_edited_byte_is_found(small):
    """With the line and both versions of it."""
    path = small / "values" / "e2m1fn.csv"
    path.write_text(path.read_text().replace("0x7,normal,0x1.8p+2,6.0", "0x7,normal,0x1.8p+2,7.0"))
    code, output = run("--check", small)
    assert code == 1
    assert "values/e2m1fn.csv differs at line 10: has '0x7,normal,0x1.8p+2,7.0', must have '0x7,normal" in output


def test_missing_and_stray_files_are_found(small):
    """A table that nobody generates is no golden data."""
    (small / "values" / "e2m1fn.csv").rename(small / "values" / "mine.csv")
    (small / "formats.md").write_bytes((small / "formats.md").read_bytes().replace(b"\n", b"\r\n"))
    code, output = run("--check", small)
    assert code == 1
    assert "values/e2m1fn.csv is missing" in output
    assert "values/mine.csv is not a golden file of this version" in output
    assert "formats.md has 34 lines, must have 34; or other line ends" in output
    assert "3 golden files are wrong" in output


def test_writing_leaves_published_data_alone_and_removes_stale_files(small):
    """Nothing under published/ is ours to make."""
    (small / "published").mkdir()
    shutil.copy(TABLES / "README.md", small / "published" / "data.json")
    (small / "values" / "stale.csv").write_text("")
    golden.write(small)
    assert (small / "published" / "data.json").is_file()
    assert not (small / "values" / "stale.csv").exists()
    assert run("--check", small)[0] == 0


def test_digests_of_sweeps_are_carried_over(small):
    """`lowprec conform --exhaustive` makes them; here they stay as they are, in their order."""
    path = small / "digests.json"
    path.write_text('{\n "sweeps": {\n  "e5m2": {},\n  "e4m3fn": {}\n }\n}\n')
    kept = path.read_bytes()
    assert run("--check", small) == (0, "the golden files are right\n")
    golden.write(small)
    assert path.read_bytes() == kept
    path.write_text('{"sweeps": {}}\n')
    assert "digests.json differs at line 1" in run("--check", small)[1]
    path.write_text("no JSON")
    assert "digests.json differs at line 1" in run("--check", small)[1]


def test_a_wrong_kernel_makes_no_golden_file(small, monkeypatch):
    """The oracle generates, the kernels verify."""
    monkeypatch.setattr(golden, "decode", lambda codes, fmt, dtype: np.zeros(codes.size))
    code, output = run("--check", small)
    assert code == 1
    assert "oracle and kernels differ in decoding e2m1fn" in output


def test_misuse_exits_2(tmp_path):
    """No action, no folder."""
    assert CliRunner().invoke(main, ["golden"]).exit_code == 2
    assert run("--check", tmp_path / "nowhere")[0] == 2
