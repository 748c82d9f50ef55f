"""`lowprec explorer`: the file that it writes, and what it refuses."""

import re
from html.parser import HTMLParser

import pytest

from lowprec.export.explorer_page import page, page_data
from tests.command import lowprec


def _run(*words):
    return lowprec("explorer", *words)


def test_the_page_is_written(tmp_path):
    """To a file, or to standard output; both are the same."""
    done = _run("-o", tmp_path / "explorer.html")
    assert (done.exit_code, done.output) == (0, "")
    assert (tmp_path / "explorer.html").read_text("utf-8") == _run().output == page()
    assert [file.name for file in tmp_path.iterdir()] == ["explorer.html"]


def test_it_opens_with_the_format_that_is_asked_for(tmp_path):
    """A name of the catalog, or a format of a file, which is then in the list."""
    assert '"first":"nf4"' in _run("--format", "nf4").output
    file = tmp_path / "mine.toml"
    file.write_text(
        'kind = "format"\nname = "tiny"\nexponent_bits = 2\ntrailing_bits = 1\nbias = 1\n', encoding="utf-8"
    )
    done = _run("--format", file)
    assert done.exit_code == 0, done.output
    assert '"first":"tiny"' in done.output
    assert '"tiny":{' in done.output


def test_an_unknown_format_is_refused_and_nothing_is_written(tmp_path):
    """The message says what was asked and what is near; an older page stays."""
    old = tmp_path / "explorer.html"
    old.write_text("old", encoding="utf-8")
    done = _run("--format", "e4m3fx", "-o", old)
    assert done.exit_code == 2
    assert "unknown format 'e4m3fx'" in done.output
    assert "e4m3fn" in done.output
    assert old.read_text("utf-8") == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["explorer.html"]


def test_a_file_that_cannot_be_written(tmp_path, monkeypatch):
    """In a folder that is not there, which is said before the page is made."""
    monkeypatch.setattr("lowprec.export.explorer_page.page", None)
    done = _run("-o", tmp_path / "missing" / "explorer.html")
    assert done.exit_code == 2
    assert "there is no folder" in done.output


class _Loads(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [
            (tag, name, said) for name, said in attrs if name in ("src", "srcset", "href", "action", "data")
        ]
        self.found += [(tag, "", "")] if tag in ("link", "iframe", "img", "object", "embed", "base") else []


def test_the_page_loads_nothing():
    """No element that loads, no import or url() in the style, no request in the scripts."""
    reader, text = _Loads(), page()
    reader.feed(text)
    assert reader.found == [("a", "href", "#main")]
    code = re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.DOTALL)
    assert set(re.findall(r"https?://[^\s\"'<]+", code)) == {
        "http://www.w3.org/2000/svg"
    }  # a name, not loaded
    for way in ("@import", "url(", "fetch(", "XMLHttpRequest", "import(", "WebSocket", "sendBeacon"):
        assert way not in code


def test_a_format_of_ones_own_named_mine_keeps_its_name():
    """The format that is defined on the page takes another name then."""
    from lowprec.spec.format import Format

    mine = Format(name="mine", exponent_bits=2, trailing_bits=1, bias=1)
    assert page_data()["own"] == "mine"
    assert page_data([mine])["own"] == "mine2"


@pytest.mark.parametrize("name", ["</script><script>", "<!--"])
def test_names_do_not_end_the_script(name):
    """A format's name is data wherever it stands."""
    from lowprec.spec.format import Format

    odd = Format(name=name, exponent_bits=2, trailing_bits=1, bias=1)
    assert page([odd], odd.name).count("<script") == 2
