"""The explorer's page in a real browser."""

import pytest

from lowprec.export.explorer_page import page
from tests.programs import need, need_browser_library


@pytest.fixture(scope="module")
def open_page(tmp_path_factory):
    """Open a page in Chromium; at the end nothing was asked of the network and nothing was complained of."""
    library, program = need_browser_library(), need("chromium")
    folder = tmp_path_factory.mktemp("explorer")
    with library.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        asked, said, files = [], [], set()

        def opened(source, fragment=""):
            file = folder / f"explorer{len(files)}.html"
            file.write_text(source, encoding="utf-8")
            files.add(file.as_uri())
            tab = browser.new_page()
            tab.on("request", lambda request: asked.append(request.url))
            tab.on("console", lambda message: said.append(message.text))
            tab.on("pageerror", lambda error: said.append(str(error)))
            tab.goto(file.as_uri() + fragment)
            return tab

        yield opened
        assert {url.partition("#")[0] for url in asked} == files
        assert said == []
        browser.close()


@pytest.fixture(scope="module")
def tab(open_page):
    """The page as it is written."""
    return open_page(page())
