"""Answers that a release froze stay as they are; what else changes is nobody's business."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import lowprec
from lowprec.cli.main import main
from lowprec.export import golden, release

TABLES = Path(__file__).parents[2] / "tables"


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """A copy of the golden data, frozen by one version alone."""
    monkeypatch.setattr(release, "__version__", "0.2.3")
    shutil.copytree(TABLES, tmp_path / "tables", ignore=shutil.ignore_patterns("published", "releases"))
    release.freeze(tmp_path / "tables")
    return tmp_path / "tables"


def test_the_golden_data_keep_what_releases_froze():
    """Of every release of this version's line."""
    assert release.changed(TABLES) == []


def test_the_changelog_names_the_digest_of_this_version():
    """What people cite."""
    document = json.loads((TABLES / "releases" / f"{lowprec.__version__}.json").read_text())
    heading = f"## {lowprec.__version__} - "
    text = (TABLES.parent / "CHANGELOG.md").read_text().split(heading, 1)[1].split("\n## ", 1)[0]
    assert f"`{document['sha256']}`" in text
    assert f"version: {lowprec.__version__}\n" in (TABLES.parent / "CITATION.cff").read_text()


def test_the_conda_recipe_needs_what_the_package_needs():
    """Compare version, Python and every dependency."""
    root = TABLES.parent
    recipe = yaml.safe_load((root / "packaging" / "conda" / "recipe.yaml").read_text())
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    needed = {f"python{project['requires-python']}", *project["dependencies"]}
    assert {each.replace(" ", "") for each in recipe["requirements"]["run"]} == needed
    assert recipe["context"]["version"] == lowprec.__version__


def test_every_kind_of_answer_is_frozen():
    """Values, vectors, digests of decode and encode, sweeps and the P3109 draft."""
    names = set(release.answers(TABLES))
    assert {
        "values/e4m3fn",
        "vectors/convert/binary32_e4m3fn_to_odd_none",
        "decode/binary16",
        "encode/e4m3fn/to_odd/finite",
        "sweeps/e4m3fn/nearest_even/none",
        "p3109/Add",
    } <= names
    assert {f"values/{fmt.name}" for fmt in golden.TABULATED} <= names


@pytest.mark.parametrize(
    ("file", "old", "new", "name"),
    [
        ("values/e2m1fn.csv", "0x7,normal,0x1.8p+2", "0x7,normal,0x1.cp+2", "values/e2m1fn"),
        (
            "vectors/convert/binary32_e5m2_nearest_even_none.txt",
            "00000001 00",
            "00000001 01",
            "vectors/convert/binary32_e5m2_nearest_even_none",
        ),
        (
            "p3109/digests.csv",
            "Binary3p1sf,78d6b6cbc1faf5f3",
            "Binary3p1sf,78d6b6cbc1faf5f4",
            "p3109/Convert",
        ),
    ],
)
def test_one_changed_answer_is_named(tables, file, old, new, name):
    """By its name, with the version that froze it."""
    text = (tables / file).read_text()
    assert old in text
    (tables / file).write_text(text.replace(old, new, 1))
    assert release.changed(tables) == [f"{name} is not what 0.2.3 froze: a changed answer needs 0.3.0"]


def test_an_answer_that_is_gone_is_named(tables):
    """A format that leaves the catalog breaks whoever uses it."""
    (tables / "values" / "e2m1fn.csv").unlink()
    assert [problem.split(" ")[0] for problem in release.changed(tables)] == ["values/e2m1fn"]


def test_new_answers_and_comments_change_nothing(tables):
    """A new format, another version in a comment."""
    path = tables / "values" / "e2m1fn.csv"
    (tables / "values" / "mine.csv").write_text(path.read_text())
    path.write_text("# lowprec 99.0.0: lowprec table e2m1fn --as csv\n" + path.read_text().split("\n", 1)[1])
    assert release.changed(tables) == []


@pytest.mark.parametrize(
    ("frozen", "ours", "kept"),
    [
        ("0.2.0", "0.2.7", True),
        ("0.2.0", "0.3.0", False),
        ("1.2.0", "1.9.0", True),
        ("1.2.0", "2.0.0", False),
        ("0.2.0", "2.0.0", False),
    ],
)
def test_a_line_of_versions_keeps_its_answers(tables, monkeypatch, frozen, ours, kept):
    """The minor version before 1.0, the major one from then on."""
    (tables / "releases" / f"{release.__version__}.json").unlink()
    monkeypatch.setattr(release, "__version__", frozen)
    release.freeze(tables)
    monkeypatch.setattr(release, "__version__", ours)
    (tables / "values" / "e2m1fn.csv").unlink()
    assert bool(release.changed(tables)) is kept


def test_a_version_is_frozen_once(tables):
    """Again with the same answers is nothing; with others it is refused, and nothing is written."""
    path = release.freeze(tables)
    before = path.read_bytes()
    (tables / "values" / "e2m1fn.csv").unlink()
    with pytest.raises(golden.Refused, match="a version's answers never change; raise the version"):
        release.freeze(tables)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("file", "first"),
    [
        ("values/e2m1fn.csv", "values/e2m1fn.csv"),
        ("formats.json", "formats.json"),
        ("values/more.csv", "values/more, which it does not list"),
    ],
)
def test_a_half_written_folder_is_not_frozen(tables, file, first):
    """A write that was killed leaves files of two versions, and what is frozen is kept for ever."""
    (tables / "releases" / f"{release.__version__}.json").unlink()
    (tables / file).write_text("other answers\n")
    with pytest.raises(golden.Refused) as refused:
        release.freeze(tables)
    assert f"is not what its digests.json lists (1 files, '{first}')" in str(refused.value)
    assert not (tables / "releases" / f"{release.__version__}.json").exists()


def test_an_edited_release_is_found(tables):
    """Its own digest tells."""
    path = release.freeze(tables)
    document = json.loads(path.read_text())
    document["answers"]["values/e2m1fn"] = "0" * 64
    path.write_text(json.dumps(document))
    assert "was edited: its answers have not the digest that it names" in release.changed(tables)[0]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("digests.json", {"decode": []}),
        ("digests.json", {"sweeps": [1]}),
        ("digests.json", {"encode": {"e4m3fn": {}}}),
        ("values/e2m1fn.csv", b"\xff"),
        ("p3109/digests.csv", b""),
        ("p3109/digests.csv", b"a,b\nc\n"),
        ("releases/0.2.2.json", {"answers": []}),
        ("releases/0.2.2.json", {"version": 3}),
        ("releases/0.2.2.json", {"version": "1"}),
        ("releases/0.2.2.json", b"[" * 100_000),
    ],
)
def test_damaged_golden_data_are_refused(tables, file, content):
    path = tables / file
    if isinstance(content, dict):
        whole = path if path.exists() else tables / "releases" / "0.2.3.json"
        content = json.dumps(json.loads(whole.read_text()) | content).encode()
    path.write_bytes(content)
    with pytest.raises(golden.Refused):
        release.changed(tables)


def test_the_command_freezes_and_refuses_what_is_no_golden_data(tables, tmp_path):
    """Exit 2 with a folder of something else, or a release file that is none."""
    run = CliRunner().invoke(main, ["golden", "--freeze", "--tables", str(tables)])
    assert (run.exit_code, "has the answers of this version" in run.output) == (0, True)
    (tmp_path / "else").mkdir()
    run = CliRunner().invoke(main, ["golden", "--freeze", "--tables", str(tmp_path / "else")])
    assert (run.exit_code, "there is no file" in run.output) == (2, True)
    (tables / "releases" / "9.json").write_text("[]")
    with pytest.raises(golden.Refused, match="is no file of `lowprec golden --freeze`"):
        release.changed(tables)
