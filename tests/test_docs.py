"""Every example that people are shown is run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", [page for page in PAGES if ">>>" in page.read_text()], ids=lambda page: page.name)
def test_examples_give_what_the_page_says(page):
    """Doctest reads Markdown as it is."""
    failures, tried = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried
    assert not failures


def test_the_two_commands_are_in_the_readme():
    """The CI script takes them from there."""
    text = (ROOT / "README.md").read_text()
    assert "$ pip install . && lowprec conform\n" in text
    assert '$ pip install -e ".[test]" && pytest\n' in text
