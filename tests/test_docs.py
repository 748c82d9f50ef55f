"""Every example that people are shown is run, and every path and link leads somewhere."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import newcomers
from tests.support import most_apart

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "tables" / "README.md", ROOT / "paper" / "paper.md"]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
PAGES = [page for page in PAGES if "generated" not in page.parts]
EXAMPLES = [page for page in PAGES if ">>>" in page.read_text()]

#: Words of the README at most, code included.
MOST_WORDS = 900


#: Pages whose examples run always; those of others, which need kernels of their own, stand apart.
ALWAYS = ("README.md", "concepts.md", "hardware.md", "tutorial.md")


@pytest.mark.parametrize(
    "page",
    most_apart(EXAMPLES, [page for page in EXAMPLES if page.name in ALWAYS]),
    ids=lambda page: page.name,
)
def test_examples_give_what_the_page_says(page):
    """Doctest reads Markdown as it is."""
    loosely = doctest.NORMALIZE_WHITESPACE
    failures, tried = doctest.testfile(str(page), module_relative=False, optionflags=loosely)
    assert tried
    assert not failures


def test_pages_that_run_always_exist():
    """A misspelled one would stand apart unseen."""
    assert set(ALWAYS) <= {page.name for page in EXAMPLES}


def test_the_two_commands_are_in_the_readme():
    """The CI script takes them from there."""
    assert "$ pip install . && lowprec conform\n" in README
    assert '$ pip install -e ".[test]" && pytest\n' in README


def test_the_readme_is_short():
    """What is longer goes to a page."""
    assert len(README.split()) <= MOST_WORDS


def _anchors(page: Path) -> set[str]:
    """Return the names by which GitHub links to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """Files exist, and headings where a link names one."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"https?:", target):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        assert place.exists(), target
        assert not anchor or anchor in _anchors(place), target


def test_newcomers_follow_every_how_to():
    """The command that times them takes each page apart into an installation and steps."""
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("howto-*.md")}
    assert set(newcomers.PAGES) == {"README.md", *pages}
    for page in newcomers.PAGES:
        install, after = newcomers.steps(page)
        assert install.startswith("pip install .") or install.startswith('pip install ".'), page
        assert after, page
    assert newcomers.steps("README.md")[1] == [["bash", "-c", "lowprec conform"]]
    kinds = [program for program, *_ in newcomers.steps("docs/howto-hardware.md")[1]]
    assert kinds == ["bash", "bash", "bash", "python"]


def test_every_page_is_in_the_index():
    """Nobody finds a page that nothing names."""
    index = (ROOT / "docs" / "index.md").read_text()
    missing = [page.name for page in (ROOT / "docs").glob("*.md") if f"({page.name})" not in index]
    assert missing == ["index.md"]


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_paths_that_are_named_exist(name):
    """Paths in backticks, from the root or from the package."""
    text = (ROOT / name).read_text()
    paths = set(re.findall(r"`((?:[\w.]+/)+[\w.]*|[\w/]+\.(?:py|pyi|md|toml|json))`", text))
    assert len(paths) > 10
    assert [path for path in sorted(paths) if _file(path) is None] == []


def _file(path: str) -> Path | None:
    """Return a file or folder that is named from the root or from the package."""
    return next((place / path for place in (ROOT, ROOT / "lowprec") if (place / path).exists()), None)


def test_functions_that_are_named_with_their_file_are_in_it():
    """As in "`project` of `oracle/convert.py`", in either order."""
    text = " ".join((ROOT / "ARCHITECTURE.md").read_text().split())
    pairs = {(name, path) for name, path in re.findall(r"`(\w+)` (?:in|of) `([\w/]+\.py)`", text)}
    pairs |= {(name, path) for path, name in re.findall(r"`([\w/]+\.py)`,? `(\w+)`", text)}
    assert len(pairs) > 8
    for name, path in sorted(pairs):
        file = _file(path)
        assert file is not None, path
        assert re.search(rf"^(def {name}\(|class {name}\b|{name}\b.* = )", file.read_text(), re.M), (
            name,
            path,
        )


@pytest.mark.apart
def test_the_wrong_program_is_judged_as_shown():
    """The two commands of the pipe, run as one would type them."""
    text = (ROOT / "docs" / "command-line.md").read_text()
    block = re.search(r"^\$ (lowprec vectors .*?) \| (lowprec compare .*?)$\n(.*?)^```", text, re.M | re.S)
    first, second = (["-m", "lowprec", *command.split()[1:]] for command in block.groups()[:2])
    vectors = subprocess.run([sys.executable, *first], capture_output=True, check=True, cwd=ROOT)
    command = [sys.executable, *second]
    judged = subprocess.run(command, input=vectors.stdout, capture_output=True, check=False, cwd=ROOT)
    assert judged.returncode == 1
    head, tail = block[3].split("...\n")
    printed = judged.stdout.decode()
    assert printed.startswith(head)
    assert printed.endswith(tail)
