"""Sphinx's settings: the Markdown pages as they are, and pages that are generated from the package.

    sphinx-build -q -W --keep-going -n -c docs . build/site

The whole checkout is the source, so that links between pages work as on GitHub.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import site_pages
from numpydoc.docscrape import NumpyDocString

import lowprec

project = "lowprec"
author = copyright = "The lowprec developers"
version = release = lowprec.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "tables/*.md", "tables/published/*.md"]
exclude_patterns = ["docs/generated/figures/**"]
html_theme = "furo"
html_title = f"lowprec {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False

myst_heading_anchors = 4
myst_all_links_external = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "code"
#: The class that lowprec.testing.Counterexample is another name of.
nitpick_ignore = [("py:class", "lowprec.verify.difference.Difference")]
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

#: Sections of this package's docstrings that numpydoc does not have.
NumpyDocString.sections["Source"] = ""

site_pages.generate()


def setup(app):
    """Register what is done to pages and docstrings while they are read."""
    app.connect("source-read", site_pages.with_generated)
    app.connect("autodoc-process-docstring", site_pages.with_known_sections, priority=100)
    app.connect("build-finished", site_pages.forward)
