"""A comparison as a page and as a test report, for browsers and for servers that run tests.

matplotlib and junitparser are imported when they are needed.
"""

from __future__ import annotations

import html
import importlib
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from lowprec import __version__
from lowprec.spec.naming import plain, plain_lines
from lowprec.verify.compare.counts import binned, by_binade

if TYPE_CHECKING:
    from lowprec.verify.compare.report import Comparison

__all__ = ["Case", "as_html", "as_junit", "case_of", "junit"]

#: A case of a test report: its name, its group, what failed (message, kind, text) or None, and its output.
Case: TypeAlias = tuple[str, str, tuple[str, str, str] | None, str]

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; \
padding: 0 1em; color: #1b1f24 }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 2em }
table { border-collapse: collapse } \
th, td { padding: .25em .8em .25em 0; text-align: left; vertical-align: top }
th { border-bottom: 1px solid #888 } td.n { text-align: right; font-variant-numeric: tabular-nums }
code, pre { font: 13px/1.4 ui-monospace, monospace } \
pre { background: #f4f5f7; padding: .7em; overflow-x: auto }
.agree { color: #176f2c } .differ { color: #b42318 } svg { max-width: 100%; height: auto }
"""


def as_html(report: Comparison) -> str:
    """Return one page with everything in it, its plots too; nothing is loaded from elsewhere.

    >>> import lowprec as lp
    >>> as_html(lp.compare([1.0], lp.encode([1.0], "e5m2"), "e5m2")).splitlines()[0]
    '<!DOCTYPE html>'
    """
    title = f"lowprec compare: {report.question}"
    verdict = "agree" if report.agrees else "differ"
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{_text(report.question)}</h1>",
        f"<p>{_text(' and '.join(map(plain, report.names)))}</p>" if report.names else "",
        f'<p class="{verdict}"><strong>{_text(report.sum())}</strong></p>',
    ]
    if report.ranking:
        rows = [(ranked.name, f"{ranked.share:.4%}", ranked.of) for ranked in report.ranking]
        parts += ["<h2>Which it is</h2>", _table(("name", "share of results", "of"), rows)]
    if report.diagnosis is not None:
        causes = [
            (cause.words, cause.explained, f"{cause.explained / report.known:.2%}", cause.contradicted)
            for cause in report.diagnosis.causes
        ]
        if (rest := report.diagnosis.rest) is not None:
            share = f"{rest.explained / report.known:.2%}"
            causes.append((f"the others: {rest.words}", rest.explained, share, 0))
        parts += ["<h2>Why</h2>"]
        head = ("hypothesis", "mismatches explained", "share", "matches contradicted")
        parts += [_table(head, causes) if causes else "<p>Unexplained.</p>"]
        parts += [f"<p>Left: {report.diagnosis.unexplained:,}</p>"] if causes else []
    if report.mismatches:
        parts += ["<h2>Where</h2>", _plots(report), _confusion(report)]
        parts += ["<h2>The first mismatches</h2>", *(f"<pre>{_text(text)}</pre>" for text in report.told())]
    if report.flags is not None:
        parts += ["<h2>Flags</h2>", f"<pre>{_text(report.flags.as_text())}</pre>"]
    parts += [f"<p><small>lowprec {_text(__version__)}</small></p>", "</body></html>"]
    return "\n".join(part for part in parts if part) + "\n"


def _text(text: object) -> str:
    return html.escape(plain_lines(str(text)))


def _table(head: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> str:
    cells = ["".join(f"<th>{_text(name)}</th>" for name in head)]
    for row in rows:
        cells.append(
            "".join(
                f'<td class="n">{cell:,}</td>' if isinstance(cell, int) else f"<td>{_text(cell)}</td>"
                for cell in row
            )
        )
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _confusion(report: Comparison) -> str:
    rows = [(want, got, count) for (got, want), count in report.tally.classes.most_common()]
    return _table(("must be", "is", "mismatches"), rows) if rows else ""


def _plots(report: Comparison) -> str:
    """Return bars of distances, binades and situations as one SVG drawing."""
    _need("matplotlib", "the plots of an HTML page")
    from matplotlib.figure import Figure

    tally = report.tally
    distances = [
        (f"{low:+d}" if low == high else f"{low:+d}..{high:+d}", count)
        for low, high, count in binned(tally.distances)
    ]
    if tally.no_distance:
        distances.append(("none", tally.no_distance))
    drawn = {
        "distance, in codes": distances,
        "binade": [
            (f"2^{key}" if not isinstance(key, str) else key, count)
            for key, count in by_binade(tally.binades)
        ],
        "rounding situation": tally.situations.most_common(),
    }
    drawn = {title: bars for title, bars in drawn.items() if bars}
    figure = Figure(figsize=(11, 3.2 * len(drawn)), layout="constrained")
    for axes, (title, bars) in zip(
        figure.subplots(len(drawn), 1, squeeze=False)[:, 0], drawn.items(), strict=True
    ):
        names, counts = zip(*bars, strict=True)
        if title == "rounding situation":
            axes.barh(range(len(names)), counts, color="#4464ad")
            axes.set_yticks(range(len(names)), names)
            axes.invert_yaxis()
            axes.set_xscale("symlog")
        else:
            axes.bar(range(len(names)), counts, color="#4464ad")
            axes.set_xticks(range(len(names)), names, rotation=90 if len(names) > 24 else 0, fontsize=8)
            axes.set_yscale("symlog")
        axes.set_title(f"mismatches by {title}", loc="left", fontsize=10)
    picture = io.StringIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    text = picture.getvalue()
    return text[text.index("<svg") :]


def as_junit(report: Comparison, *, excused: bool = False, worse: Sequence[str] = ()) -> str:
    """Return a test report with one case, which fails where something differs, or where nothing was compared.

    With `excused`, what differs is its output, and does not fail; `worse` tells what a baseline has not.

    >>> import lowprec as lp
    >>> 'failures="0"' in as_junit(lp.compare([1.0], lp.encode([1.0], "e5m2"), "e5m2"))
    True
    """
    properties = {}
    if report.budget is not None:
        counts = (("exact", report.exact), ("within", report.spent.within), ("outside", report.mismatches))
        properties = {name: str(count) for name, count in counts}
    if report.names:
        properties["compared"] = ", ".join(report.names)
    case = case_of(report, report.question, excused=excused, worse=worse)
    return junit({"lowprec compare": [case]}, properties)


def case_of(report: Comparison, name: str, *, excused: bool = False, worse: Sequence[str] = ()) -> Case:
    """Return the case of one comparison, which has this name; see `as_junit`."""
    failure: tuple[str, str, str] | None = None
    if not report.agrees:
        flags = "" if report.flags is None else f"; flags: {report.flags.sum()}"
        kind = "mismatch" if report.compared else "nothing compared"
        text = "\n".join([*(f"worse than the baseline: {line}" for line in worse), report.as_text()])
        failure = (report.sum() + flags, kind, text)
    said = report.sum() if report.budget is not None else ""
    if excused and failure is not None:
        message, _, text = failure
        failure, said = None, f"no worse than the baseline: {message}\n{text}"
    return name, "lowprec.compare", failure, said


def junit(suites: Mapping[str, Iterable[Case]], properties: Mapping[str, str] | None = None) -> str:
    """Return JUnit's XML of suites of cases, each suite with these properties and lowprec's version.

    Raises
    ------
    ModuleNotFoundError
        Without junitparser; the message says how to install it.
    """
    _need("junitparser", "a JUnit report")
    from junitparser import Failure, JUnitXml, TestCase, TestSuite

    found: Any = JUnitXml()
    for title, cases in suites.items():
        suite = TestSuite(plain(title))
        suite.add_property("lowprec", __version__)
        for name, value in (properties or {}).items():
            suite.add_property(name, plain(value))
        for name, group, failed, said in cases:
            case = TestCase(plain(name), plain(group))
            if failed is not None:
                message, kind, text = failed
                failure = Failure(plain_lines(message), kind)
                failure.text = plain_lines(text)
                case.result = [failure]
            if said:
                case.system_out = plain_lines(said)
            suite.add_testcase(case)
        found.add_testsuite(suite)
    found.update_statistics()
    lines = io.BytesIO()
    found.write(lines)
    return lines.getvalue().decode()


def _need(package: str, what: str) -> None:
    try:
        importlib.import_module(package)
    except ImportError:
        raise ModuleNotFoundError(f'{what} needs {package}: pip install "lowprec[report]"') from None
