"""The golden files are right, their schemas hold, and one wrong byte is found."""

import csv
import functools
import hashlib
import json
import os
import shutil
import tarfile
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import lowprec as lp
from lowprec.export import golden, release
from lowprec.spec import catalog
from tests.command import lowprec

TABLES = Path(__file__).parents[2] / "tables"


@pytest.mark.parametrize("fmt", golden.TABULATED, ids=str)
def test_every_published_table_loads_back_as_decode_of_all_codes(fmt):
    """NaNs and zeros with their signs."""
    lines = (TABLES / "values" / f"{fmt.name}.csv").read_text().splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert [int(row["code"], 16) for row in rows] == list(range(1 << fmt.width))
    values = [
        np.copysign(np.nan, -1) if row["value"] == "-nan" else float.fromhex(row["value"]) for row in rows
    ]
    want = lp.decode(np.arange(1 << fmt.width), fmt, dtype=np.float64)
    assert (np.array(values).view(np.uint64) == want.view(np.uint64)).all()


def test_tables_are_those_of_the_catalog_and_of_p3109():
    """All of at most 8 bits."""
    names = {path.stem for path in (TABLES / "values").iterdir()}
    assert names == {f.name for f in catalog.FORMATS.values() if f.width <= 8} | {
        f.name for f in catalog.P3109_UP_TO_8
    }


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


#: What makes files that are the same in each test.
MAKERS = "_formats_json", "_formats_md", "block_tables", "accumulation_tables", "evidence_page", "_vectors"
PAGES = {name: getattr(golden, name) for name in MAKERS}


@functools.cache
def page(name, *of):
    """Make one of them, once."""
    made = PAGES[name](*of)
    return made if isinstance(made, bytes) else tuple(made)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Golden data cut down to a few files, so that writing and checking take a moment."""
    for name in PAGES:
        monkeypatch.setattr(golden, name, functools.partial(page, name))
    monkeypatch.setattr(golden, "TABULATED", (catalog.E2M1FN, catalog.E8M0FNU))
    monkeypatch.setattr(golden, "VECTORS", (("e2m1fn", "to_odd", "finite"),))
    monkeypatch.setattr(golden, "_digests", lambda watch: {"decode": {}, "encode": {}})
    folder = tmp_path / "tables"
    assert golden.write(folder) == 9
    return folder


def run(action, folder):
    result = lowprec("golden", action, "--tables", folder)
    return result.exit_code, result.output


def test_what_was_written_checks(small):
    """And is the same as what is committed."""
    code, output = run("--check", small)
    assert (code, output.split(";")[0]) == (0, "the golden files are right")
    for name in (
        "values/e2m1fn.csv",
        "values/e8m0fnu.csv",
        "formats.json",
        "formats.md",
        "blocks.md",
        "accumulations.md",
        "silicon.md",
    ):
        assert (small / name).read_bytes() == (TABLES / name).read_bytes()


def test_two_actions_are_refused(small):
    """Refuse --check with --write, which wrote."""
    result = lowprec("golden", "--check", "--write", "--tables", small)
    assert result.exit_code == 2
    assert "--write and --check are two runs; say one of them" in result.output


def test_an_archive_has_the_same_bytes_wherever_it_is_made(small, tmp_path, monkeypatch):
    """It holds right files alone, how to read them, and the licence."""
    code, output = run(f"--archive={tmp_path / 'one.tar'}", small)
    assert code == 2
    assert "an archive has a README.md, and there is no file" in output
    (small / "README.md").write_text("read")
    (tmp_path / "LICENSE").write_text("may")
    code, output = run(f"--archive={tmp_path / 'one.tar'}", small)
    assert code == 0
    for path in small.rglob("*"):
        os.utime(path, (0, 0))
        path.chmod(0o700)
    assert run(f"--archive={tmp_path / 'two.tar'}", small)[0] == 0
    made = (tmp_path / "one.tar").read_bytes()
    assert made == (tmp_path / "two.tar").read_bytes()
    assert hashlib.sha256(made).hexdigest() in output
    with tarfile.open(tmp_path / "one.tar") as packed:
        names = packed.getnames()
        assert packed.extractfile(f"lowprec-golden-{lp.__version__}/LICENSE").read() == b"may"
    assert len(names) == len(set(names)) == 11
    was = (small / "formats.json").read_bytes()
    code, output = run(f"--archive={small / 'formats.json'}", small)
    assert code == 2
    assert "would be replaced; name another output" in output
    assert (small / "formats.json").read_bytes() == was
    changed = release.changed
    with monkeypatch.context() as patch:  # a file that is edited once it was checked
        edit = (small / "values" / "e2m1fn.csv").write_text
        patch.setattr(release, "changed", lambda folder: (edit("wrong"), changed(folder))[1])
        assert run(f"--archive={tmp_path / 'four.tar'}", small)[0] == 0
    assert (tmp_path / "four.tar").read_bytes() == made
    assert run(f"--archive={tmp_path / 'three.tar'}", small)[0] == 1
    assert not (tmp_path / "three.tar").exists()
    assert run("--write", small)[0] == 0


def test_one_edited_byte_is_found(small):
    """With the line and both versions of it."""
    path = small / "values" / "e2m1fn.csv"
    path.write_text(path.read_text().replace("0x7,normal,0x1.8p+2,6.0", "0x7,normal,0x1.8p+2,7.0"))
    code, output = run("--check", small)
    assert code == 1
    assert (
        "values/e2m1fn.csv differs at line 10: has '0x7,normal,0x1.8p+2,7.0', must have '0x7,normal" in output
    )


def test_missing_and_stray_files_are_found(small):
    """A table that nobody generates is no golden data; a hidden file is what a killed command left."""
    (small / "values" / ".lowprec-0").touch()
    (small / "values" / "e2m1fn.csv").rename(small / "values" / "mine.csv")
    (small / "formats.md").write_bytes((small / "formats.md").read_bytes().replace(b"\n", b"\r\n"))
    code, output = run("--check", small)
    assert code == 1
    assert "values/e2m1fn.csv is missing" in output
    assert "values/mine.csv is not a golden file of this version" in output
    assert "formats.md has 34 lines, must have 34; or other line ends" in output
    assert "3 golden files are wrong" in output


def contents(folder):
    """All files below a folder, links not followed."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_writing_leaves_published_data_alone_and_removes_stale_files(small, monkeypatch):
    """Nothing under published/ is ours to make; files listed by an earlier version, no longer made, go."""
    (small / "published").mkdir()
    shutil.copy(TABLES / "README.md", small / "published" / "data.json")
    monkeypatch.setattr(golden, "TABULATED", (catalog.E2M1FN,))
    code, output = run("--write", small)
    assert code == 0
    assert f"golden data goes to {str(small)!r}\n" in output
    assert f"8 files written to {str(small)!r}\n" in output
    assert (small / "published" / "data.json").is_file()
    assert not (small / "values" / "e8m0fnu.csv").exists()
    assert run("--check", small)[0] == 0


def test_files_that_it_did_not_write_stay(small):
    """Whatever their names: in a folder of one's own, `--write --tables DIR` removed all of these."""
    mine = {
        "notes.md": "",
        "settings.json": "",
        "values/mine.csv": "1",
        "vectors/mine/a.bin": "2",
        "a.txt": "3",
    }
    for name, text in mine.items():
        (small / name).parent.mkdir(parents=True, exist_ok=True)
        (small / name).write_text(text)
    before = contents(small)
    assert run("--write", small)[0] == 0
    assert contents(small) == before


@pytest.mark.parametrize("name", ["formats.md", "values/e2m1fn.csv"])
def test_what_is_no_file_in_the_place_of_one_is_refused(small, name):
    """A pipe is not waited for, a folder not looked into."""
    for make in (os.mkfifo, os.mkdir):
        (small / name).unlink()
        make(small / name)
        code, output = run("--write", small)
        assert code == 2
        assert f"{name!r} is no file in {str(small)!r}" in output
        (small / name).rename(small / "moved")
        (small / "moved").unlink() if make is os.mkfifo else (small / "moved").rmdir()
        (small / name).touch()


def test_a_file_in_the_place_of_a_folder_leaves_everything_as_it_is(small, tmp_path):
    """With its name."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "vectors").write_text("mine")
    code, output = run("--write", folder)
    assert code == 2
    assert "vectors" in output
    assert contents(folder) == {"vectors": b"mine"}


@pytest.mark.parametrize("name", ["formats.md", "values/e2m1fn.csv", "digests.json"])
def test_a_file_in_the_way_is_refused_by_its_name(small, tmp_path, name):
    """It is listed in no digests.json; nothing else is written then. Equal content is no loss."""
    folder = tmp_path / "mine"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("mine")
    code, output = run("--write", folder)
    assert code == 2
    assert str(folder / name) in output
    assert contents(folder) == {name: b"mine"}
    if name != "digests.json":
        (folder / name).write_bytes((small / name).read_bytes())
        assert run("--write", folder)[0] == 0
        assert contents(folder) == contents(small)


def test_a_stale_file_that_was_changed_is_refused_by_its_name(small, monkeypatch):
    """It is no longer what was written: it may be someone's work."""
    stale = small / "values" / "e8m0fnu.csv"
    stale.write_text("mine")
    before = contents(small)
    monkeypatch.setattr(golden, "TABULATED", (catalog.E2M1FN,))
    code, output = run("--write", small)
    assert code == 2
    assert (
        f"{str(stale)!r} is listed in digests.json and no longer made, but was changed; remove it yourself"
        in output
    )
    assert contents(small) == before


@pytest.mark.parametrize(
    "spelled",
    [
        "../precious.txt", "values/../../precious.txt", "{outside}/precious.txt", "out/precious.txt",
        "linked", "values", "a\0b", "a\ud800b", "circle",
    ],
)  # fmt: skip
def test_a_planted_list_cannot_lead_out_of_the_folder(small, tmp_path, spelled):
    """Not by dots, not as an absolute path, not through links."""
    (tmp_path / "precious.txt").write_text("precious")
    (small / "out").symlink_to(tmp_path)
    (small / "circle").symlink_to("circle")
    (small / "linked").symlink_to(tmp_path / "precious.txt")
    name = spelled.format(outside=tmp_path)
    document = json.loads((small / "digests.json").read_text())
    document["files"][name] = hashlib.sha256(b"precious").hexdigest()
    (small / "digests.json").write_text(json.dumps(document))
    before = contents(tmp_path)
    code, output = run("--write", small)
    assert code == 2
    assert (
        f"{name!r} is no file in {str(small)!r}: it leads out of that folder, or is a folder or device"
        in output
    )
    assert contents(tmp_path) == before


def test_links_do_not_lead_what_is_written_out_of_the_folder(small, tmp_path):
    """A folder, or a file that is replaced."""
    for name, target in (("values", tmp_path / "elsewhere"), ("formats.md", tmp_path / "elsewhere.md")):
        (small / name).rename(target)
        (small / name).symlink_to(target)
        before = contents(tmp_path)
        code, output = run("--write", small)
        assert code == 2
        assert "leads out of that folder" in output
        assert contents(tmp_path) == before
        (small / name).unlink()
        target.rename(small / name)


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[]",
        "{}",
        '{"schema": "mine/1"}',
        '{"schema": "lowprec.digests/1", "files": []}',
        "[" * 100_000,
    ],
)
def test_a_digests_file_of_another_kind_is_refused(small, text):
    """It is not ours to replace, and lists nothing."""
    (small / "digests.json").write_text(text)
    code, output = run("--write", small)
    assert code == 2
    assert str(small / "digests.json") in output
    assert (small / "digests.json").read_text() == text
    assert "digests.json differs at line 1" in run("--check", small)[1]


def test_without_a_checkout_no_folder_is_written_to(small, tmp_path, monkeypatch):
    """An installed package runs in a folder that has tables/ of its own."""
    installed = tmp_path / "lib" / "site-packages" / "lowprec" / "export" / "golden.py"
    monkeypatch.setattr(golden, "__file__", str(installed))
    monkeypatch.chdir(tmp_path)
    before = contents(tmp_path)
    for action in ("--write", "--check"):
        result = lowprec("golden", action)
        assert result.exit_code == 2
        assert "lowprec does not run from a checkout here, so it has no tables/ of its own" in result.output
    result = lowprec("conform", "--exhaustive", "--target", "e2m1fn", "--write")
    assert result.exit_code == 2
    assert "name the folder with --tables" in result.output
    assert contents(tmp_path) == before


def test_digests_of_sweeps_are_carried_over(small):
    """`lowprec conform --exhaustive` makes them; here they stay as they are, in their order."""
    path = small / "digests.json"
    document = json.loads(path.read_text())
    document["sweeps"] = {"e5m2": {}, "e4m3fn": {}}
    path.write_text(json.dumps(document, indent=1) + "\n")
    kept = path.read_bytes()
    code, output = run("--check", small)
    assert (code, output.split(";")[0]) == (0, "the golden files are right")
    golden.write(small)
    assert path.read_bytes() == kept
    path.write_text(json.dumps(document))
    assert "digests.json differs at line 1" in run("--check", small)[1]


def test_a_wrong_kernel_makes_no_golden_file(small, monkeypatch):
    """The oracle generates, the kernels verify."""
    monkeypatch.setattr(golden, "decode", lambda codes, fmt, dtype: np.zeros(codes.size))
    code, output = run("--check", small)
    assert code == 1
    assert "oracle and kernels differ in decoding e2m1fn" in output


def test_misuse_exits_2(tmp_path):
    """No action, no folder."""
    assert lowprec("golden").exit_code == 2
    assert run("--check", tmp_path / "nowhere")[0] == 2
