"""The site is built without a warning, and every link inside it leads somewhere."""

import fcntl
import html.parser
import inspect
import re
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

import lowprec as lp

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.apart


class _Page(html.parser.HTMLParser):
    """The names and the links of a page."""

    def __init__(self, path):
        super().__init__()
        self.names, self.links = set(), set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.names |= {found[key] for key in ("id", "name") if key in found}
        self.links |= {found[key] for key in ("href", "src") if found.get(key)}


@pytest.fixture(scope="module")
def site(testrun_uid):
    """The folder of the built site: by the command that CONTRIBUTING names, once for all workers of a run."""
    for package in ("sphinx", "furo", "numpydoc", "myst_parser", "matplotlib"):
        pytest.importorskip(package)
    text = (ROOT / "CONTRIBUTING.md").read_text()
    command = re.search(r"^\$ sphinx-build (.+)$", text, re.M)[1].split()
    folder = ROOT / command[-1]
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / "tested").open("a+") as made:
        fcntl.flock(made, fcntl.LOCK_EX)
        made.seek(0)
        if made.read() != testrun_uid:
            run = subprocess.run(
                [sys.executable, "-m", "sphinx", *command],
                cwd=ROOT, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert run.returncode == 0, run.stderr
            made.truncate(0)
            made.write(testrun_uid)
            made.flush()
    return folder


def test_every_link_leads_somewhere(site):
    """Files, and anchors where a link names one; nothing is loaded from elsewhere."""
    pages = {path: _Page(path) for path in site.rglob("*.html")}
    assert len(pages) > 100
    missing = []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            anchor = urllib.parse.unquote(parts.fragment)
            known = pages.get(target)
            if not target.exists() or (anchor and known is not None and anchor not in known.names):
                missing.append((path.relative_to(site).as_posix(), link))
    assert missing == []


def test_every_public_name_is_in_the_reference(site):
    names = set().union(*(_Page(path).names for path in (site / "docs/generated/reference").glob("*.html")))
    wanted = {f"lowprec.{name}" for name in dir(lp) if not inspect.ismodule(getattr(lp, name))}
    wanted -= {"lowprec.__version__"}
    assert wanted - names == set()


def test_pages_of_formats_have_their_parameters(site):
    folder = site / "docs" / "generated" / "formats"
    for name, fmt in lp.formats.items():
        text = re.sub(r"<[^>]+>", " ", (folder / f"{name}.html").read_text())
        for key in ("exponent_bits", "trailing_bits", "bias"):
            assert re.search(rf"\b{key}\s+{getattr(fmt, key)}\b", text), (name, key)
        if fmt.nan_code is not None:
            assert re.search(rf"nan_code\s+0x0*{fmt.nan_code:x}\b", text), name


def test_figures_are_readable_on_a_dark_page(site):
    """They have no background, and are inverted there: by the reader's choice, and by the system's."""
    figures = list((site / "_images").glob("*.svg"))
    assert len(figures) > 25
    for figure in figures:
        background = figure.read_text().partition('<g id="patch_1">')[2].partition("</g>")[0]
        assert "fill: none" in background, figure.name
    style = (site / "_static" / "site.css").read_text()
    for body in ('body[data-theme="dark"]', 'body:not([data-theme="light"])'):
        assert f'{body} img[src$=".svg"] {{ filter: invert(1) hue-rotate(180deg); }}' in style


def test_the_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.+)$", text, re.M)[1] == lp.__version__
