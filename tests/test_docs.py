"""Every example that people are shown is run."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
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


def test_the_wrong_program_of_the_readme_is_judged_as_shown():
    """The two commands of the pipe, run as one would type them."""
    block = re.search(r"^\$ (lowprec vectors .*?) \| (lowprec compare .*?)$\n(.*?)^```", README, re.M | re.S)
    first, second = (["-m", "lowprec", *command.split()[1:]] for command in block.groups()[:2])
    vectors = subprocess.run([sys.executable, *first], capture_output=True, check=True, cwd=ROOT)
    judged = subprocess.run([sys.executable, *second], input=vectors.stdout, capture_output=True, check=False, cwd=ROOT)
    assert judged.returncode == 1
    head, tail = block[3].split("...\n")
    printed = judged.stdout.decode()
    assert printed.startswith(head)
    assert printed.endswith(tail)
