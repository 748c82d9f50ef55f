"""Pages of the site that are generated: formats, reference, decisions, figures, and the table of contents.

All goes to docs/generated, which is not kept. Facts about formats come from their parameters.
"""

import importlib
import inspect
import re
from pathlib import Path

import numpy as np

import lowprec as lp
import lowprec.methods
from lowprec.export import cards, markdown
from lowprec.export.block_cards import describe_block
from lowprec.export.tabulate import rows
from lowprec.spec.accumulation import Accumulation, Window

DOCS = Path(__file__).parent
GENERATED = DOCS / "generated"

#: Captions of the table of contents, and what is under them.
CONTENTS = {
    "Tutorial": ["tutorial"],
    "How-to guides": ["howto-hardware", "howto-framework", "howto-formats", "howto-models"],
    "Concepts": [
        "concepts", "arrays", "arithmetic", "functions", "dot-products", "blocks", "codebooks", "glossary",
    ],
    "Tasks": [
        "vectors", "verify-your-dot-unit", "compare", "identify", "capture", "hardware",
        "testing-your-format", "finding-formats", "checkpoints", "plots", "explorer", "command-line",
        "github-action", "scale-out", "exhaustive", "bench",
    ],
    "Methods": [
        "methods", "fp8-recipe", "mx", "nvfp4-recipe", "scale-propagation", "unit-scaling",
        "collage", "p3109",
    ],
    "Reference": [
        "generated/reference/index", "generated/formats/index", "generated/blocks/index", "conformance",
        "references", "generated/decisions", "mutants", "/tables/README", "/tables/formats", "/tables/blocks",
        "/tables/accumulations", "/tables/silicon", "/tables/published/README",
    ],
    "Examples": ["examples/hdl/README", "examples/c/README"],
    "Project": ["/README", "/CONTRIBUTING", "/ARCHITECTURE", "/SECURITY", "/CHANGELOG"],
}  # fmt: skip

#: Headings of the reference, and the modules whose public names are under them.
TOPICS = {
    "Values and codes": [
        "arrays.convert",
        "arrays.blocks",
        "arrays.checks",
        "arrays.random",
        "arrays.threads",
    ],
    "Operations": ["arrays.arith", "arrays.orders"],
    "Functions": ["arrays.functions"],
    "Dot products": ["arrays.dots"],
    "Scales and errors": ["arrays.measures"],
    "Comparing and identifying": ["verify"],
    "Files": ["checkpoints", "spec.toml_reading", "spec.toml_writing"],
    "Formats, roundings and accumulations": ["spec"],
}


def generate():
    """Write all generated pages and figures."""
    figures()
    formats()
    blocks()
    reference()
    decisions()


def write(name, lines):
    """Write a page; unless it is there already, so that Sphinx need not read it again."""
    path = GENERATED / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def toctree(pages, *options):
    """Return a table of contents in MyST."""
    return ["```{toctree}", *options, "", *pages, "```", ""]


# -- figures -----------------------------------------------------------------------------------------------


#: Width of figures in inches: at most a third wider than a phone, where they are shrunk.
WIDTH = 5


def save(drawn, name, title=""):
    """Save a plot without a background or a date, and with names that do not vary."""
    import matplotlib

    path = GENERATED / "figures" / f"{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    if title:
        drawn.ax.set_title(title, loc="left", fontsize="medium")
    drawn.ax.figure.set_figwidth(WIDTH)
    with matplotlib.rc_context({"svg.hashsalt": "lowprec"}):
        drawn.ax.figure.savefig(path, metadata={"Date": None}, transparent=True)


def figures():
    """Draw the figures of concepts."""
    drawn = lp.plot.number_line("e2m1fn", low=0, ties=True)
    save(drawn, "ties", "e2m1fn: values, and the ties between them")
    save(lp.plot.number_line("e4m3fn", "e5m2", "e2m1fn", "int8", low=0, log=True), "ranges")
    save(lp.plot.staircase("e2m1fn", -3.5, 3.5), "staircase")
    save(block_figure(), "block")
    save(window_figure(), "window")


def block_figure():
    """Draw two blocks, of which one has an outlier."""
    values = np.random.default_rng(1).normal(size=(1, 64)).astype(np.float32)
    values[0, 40] = 24.0
    drawn = lp.plot.block_errors(values, "mxfp4")
    drawn.ax.set_yticks([])
    drawn.ax.set_ylabel("")
    drawn.ax.figure.set_figheight(2.4)
    return drawn


def window_figure():
    """Draw the error of sums in windows of several widths."""
    quarter = lp.formats["e4m3fn"]
    x, y = lp.quantize(np.random.default_rng(2).normal(size=(2, 32, 512)), quarter)
    kinds = [
        Accumulation(
            name=f"window of {bits} fraction bits",
            operands=quarter,
            output=lp.formats["binary32"],
            accumulator=Window(step=32, fraction_bits=bits, result="binary32"),
        )
        for bits in (10, 13, 16)
    ]
    drawn = lp.plot.accumulation_error(x, y, kinds)
    drawn.ax.legend(loc="center right", bbox_to_anchor=(1, 0.37))  # between two of the lines
    return drawn


# -- formats -----------------------------------------------------------------------------------------------


def formats():
    """Write a page for every named format, and their list."""
    for name, fmt in lp.formats.items():
        lines = [f"# {name}", "", f"{cards.sentence(fmt)[0].upper()}{cards.sentence(fmt)[1:]}.", ""]
        if fmt.width <= 8:
            save(lp.plot.number_line(fmt), f"values-{name}")
            lines += [f"![Values of {name} on the number line](../figures/values-{name}.svg)", ""]
        lines += table(cards.describe(fmt), fmt)
        if fmt.width <= 8:
            lines += ["", "## Codes", "", *markdown.head("code", "class", "value", right=("value",))]
            lines += [
                markdown.row(f"`{code:#0{2 + -(-fmt.width // 4)}x}`", kind, f"{value!r}")
                for code, kind, value in rows(fmt)
            ]
        lines += ["", f"Source: [{fmt.source}](../../references.md)." if fmt.source else ""]
        write(f"formats/{name}.md", lines)
    lines = ["# Formats", "", *markdown.head("format", "bits", "what it is")]
    lines += [markdown.row(f"[{n}]({n}.md)", fmt.width, cards.sentence(fmt)) for n, fmt in lp.formats.items()]
    lines += ["", "[Codebooks](../../codebooks.md) are formats given as their values.", ""]
    write("formats/index.md", [*lines, *toctree(lp.formats, ":hidden:")])


def table(described, fmt):
    """Return what is known of a format as rows."""
    lines = list(markdown.head("parameter", "value"))
    for name, value in described.items():
        shown = cards.shown(name, value, fmt) if fmt is not None else cards.text_of(value)
        lines.append(markdown.row(f"`{name}`", shown))
    return lines


def blocks():
    """Write a page for every named block format, and their list."""
    lines = [
        "# Block formats",
        "",
        *markdown.head("block format", "element", "scale", "size", "bits a value"),
    ]
    for name, fmt in lp.block_formats.items():
        one = describe_block(fmt)
        sizes = " by ".join(map(str, one["sizes"]))
        lines.append(
            markdown.row(
                f"[{name}]({name}.md)", one["element"], one["scale"], sizes, f"{fmt.bits_per_value:g}"
            )
        )
        own = [f"# {name}", "", *table(one, None), "", f"Source: [{fmt.source}](../../references.md)."]
        write(f"blocks/{name}.md", own)
    write("blocks/index.md", [*lines, "", *toctree(lp.block_formats, ":hidden:")])


# -- reference ---------------------------------------------------------------------------------------------


def reference():
    """Write the reference: every public name of the package and of the modules that people import."""
    homes = {name: home.removeprefix("lowprec.") for name, home in lp._HOMES.items()}
    pages, left = [], dict(homes)
    for topic, modules in TOPICS.items():
        names = [name for name, home in left.items() if any(under(home, each) for each in modules)]
        for name in names:
            del left[name]
        pages.append(slug(topic))
        write(f"reference/{pages[-1]}.rst", [*heading(topic), *entries("lowprec", names)])
    if left:
        raise RuntimeError(f"no topic of the reference has {', '.join(left)}; add their modules to TOPICS")
    methods = [f"lowprec.methods.{name}" for name in dir(lowprec.methods)]
    for name in ["lowprec.plot", "lowprec.plot.data", "lowprec.testing", "lowprec.p3109", *methods]:
        module = importlib.import_module(name)
        pages.append(name)
        names = [each for each in module.__all__ if not inspect.ismodule(getattr(module, each))]
        body = [*heading(name), f".. automodule:: {name}", "   :no-members:", "", *entries(name, names)]
        write(f"reference/{name}.rst", body)
    write("reference/index.md", ["# Reference", "", *toctree(pages, ":maxdepth: 1")])


def under(home, module):
    """Return whether a module is another or inside of it."""
    return home == module or home.startswith(f"{module}.")


def slug(text):
    """Return the name of a page."""
    return re.sub(r"\W+", "-", text.lower())


def heading(text):
    """Return a heading of reStructuredText."""
    return [text, "=" * len(text), ""]


def entries(module, names):
    """Return directives for names of a module."""
    lines = []
    for name in names:
        value = getattr(importlib.import_module(module), name)
        kind = "autoclass" if inspect.isclass(value) else "autofunction" if callable(value) else "autodata"
        lines += [f".. {kind}:: {module}.{name}"]
        lines += ["   :members:"] * (kind == "autoclass") + ["   :no-value:"] * (kind == "autodata") + [""]
    return lines


def decisions():
    """Write the list of decisions."""
    pages = sorted(path.stem for path in (DOCS / "decisions").glob("*.md"))
    write("decisions.md", ["# Decisions", "", *toctree([f"../decisions/{page}" for page in pages])])


# -- while pages are read ----------------------------------------------------------------------------------


def with_generated(app, name, source):
    """Put figures where a page has a comment for them; links to the decisions, and the contents."""
    text = source[0]
    text = text.replace("](docs/decisions)", "](docs/generated/decisions.md)")
    text = text.replace("](decisions/)", "](generated/decisions.md)")
    text = re.sub(r"<!-- figure: (\w+): (.+?) -->", r"![\2](generated/figures/\1.svg)", text)
    if name == "docs/index":
        for caption, pages in CONTENTS.items():
            text += "\n" + "\n".join(toctree(pages, ":hidden:", f":caption: {caption}"))
    source[0] = text


def with_known_sections(app, what, name, value, options, lines):
    """Name the section of sources as numpydoc does, which knows no other."""
    for place in range(len(lines) - 1):
        if lines[place] == "Source" and set(lines[place + 1]) == {"-"}:
            lines[place : place + 2] = ["References", "----------"]


def forward(app, exception):
    """Lead from the top of the site to its first page."""
    if exception is None:
        page = '<!DOCTYPE html><meta charset="utf-8">'
        page += '<meta http-equiv="refresh" content="0; url=docs/index.html">'
        (Path(app.outdir) / "index.html").write_text(page + '<a href="docs/index.html">lowprec</a>\n')
