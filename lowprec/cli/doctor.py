"""Report of what this installation is, what is broken or slow, and what to do about it."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import click

from lowprec.cli.arguments import AGREE, DIFFER, deliver_json
from lowprec.cli.options import json_option, several
from lowprec.cli.terminal import say

_WIDTH = 100


@click.command(short_help="Say what is installed, what is broken or slow, and what to do.")
@several(
    *("--import", "modules"),
    metavar="MODULE",
    help="Import this module first, and say whether it makes the process flush subnormals; may be repeated.",
)
@json_option()
def doctor(modules: tuple[str, ...], as_json: bool) -> None:
    """Say what is installed, what is broken or slow here, and what to do about it.

    Shown are versions, the processor and the vectors that kernels use, whether the process flushes
    subnormals to zero, threads, the folder of compiled kernels, and the frameworks that `lowprec conform` can
    check here. No framework is imported but by --import. Exit codes: 0 nothing is broken, 1 something is.
    JSON has schema lowprec.doctor/1.
    """
    from lowprec.cli.examining import examine

    report = examine(modules)
    if as_json:
        deliver_json(report)
    else:
        say("\n".join(_lines(report)))
    sys.exit(DIFFER if any(found["level"] == "broken" for found in report["findings"]) else AGREE)


def _lines(report: dict[str, Any]) -> Iterator[str]:
    versions = [f"{name} {version or 'missing'}" for name, version in report["versions"].items()]
    yield from _told("versions", ", ".join(versions))
    yield from _told("processor", _machine(report["machine"]))
    yield from _told("modes", _modes(report["modes"]))
    for each in report["imported"]:
        yield from _told("imported", _import(each))
    yield from _told("threads", _threads(report["threads"]))
    yield from _told("kernels", _cache(report["cache"]))
    yield ""
    here = [f"{each['package']} {each['version']}" for each in report["frameworks"] if each["version"]]
    yield from _told("conform", f"can check {', '.join(here)}")
    yield from _missing(
        (each["package"], _without(each), each["install"])
        for each in report["frameworks"]
        if not each["version"]
    )
    yield ""
    here = [f"{each['package']} {each['version']}" for each in report["optional"] if each["version"]]
    yield from _told("optional", ", ".join(here) or "nothing is installed")
    yield from _missing(
        (each["package"], each["for"], each["install"]) for each in report["optional"] if not each["version"]
    )
    yield ""
    for found in report["findings"]:
        yield from _wrapped(f"{found['level']}: {found['what']}", "")
        if found["do"]:
            yield f"    {found['do']}"
    broken = sum(found["level"] == "broken" for found in report["findings"])
    yield f"{broken} broken" if broken else "nothing is broken"


def _machine(machine: dict[str, Any]) -> str:
    if machine["kernels_for"] is None:
        return f"{machine['processor']}; kernels are not compiled"
    vectors = "no vectors that are known here"
    if machine["vectors"] is not None:
        vectors = f"{machine['vectors']}, {machine['lanes']} lanes of 32 bits at a time"
        narrow = 32 * machine["lanes"] // machine["vector_bits"]
        vectors += f" in {narrow} registers" * (narrow > 1)
    return f"{machine['processor']}; kernels for {machine['kernels_for']}, {vectors}"


def _modes(modes: dict[str, Any]) -> str:
    if modes["register"] is None:
        return "not known here"
    kept = f"flushed to zero: {', '.join(modes['flushed'])}" if modes["flushed"] else "kept"
    return f"subnormals are {kept}; rounding {modes['rounding']} (register {modes['register']})"


def _import(each: dict[str, Any]) -> str:
    if each["error"] is not None:
        return f"{each['module']} cannot be imported: {each['error']}"
    name = f"{each['module']} {each['version'] or ''}".rstrip()
    if each["flushes"] is None:
        return name
    return (
        f"{name}: {'flushes ' + ', '.join(each['flushes']) if each['flushes'] else 'leaves the modes alone'}"
    )


def _threads(threads: dict[str, Any]) -> str:
    asked = threads["LOWPREC_NUM_THREADS"]
    said = f", as LOWPREC_NUM_THREADS={asked} says" if asked else ""
    quota = "" if threads["quota"] is None else f", limited to {threads['quota']:g} by a control group"
    return f"{threads['used']} for large arrays{said}; {threads['processors']} processors{quota}"


def _cache(cache: dict[str, Any]) -> str:
    if cache["state"] == "off":
        return f"not kept: {cache['why']}"
    warm = sum(cache["warm"].values())
    kept = f"{cache['files']:,} files, {cache['bytes'] / 1e6:,.0f} MB" if cache["files"] else "empty"
    use = "writable" if cache["state"] == "usable" else f"not used: {cache['why']}"
    state = "warm" if warm == len(cache["warm"]) else "cold" if not warm else "partly warm"
    calls = f"; {state}: {warm} of {len(cache['warm'])} common calls" if cache["warm"] else ""
    return f"{cache['folder']} ({kept}; {use}){calls}"


def _without(each: dict[str, Any]) -> str:
    """Return what an installed framework lacks, in words; nothing of one that is not installed itself."""
    return "" if each["package"] in each["missing"] else f"lacks {' and '.join(each['missing'])}"


def _missing(rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Yield a line for each distribution that is not installed: its name, a remark, how to install it."""
    rows = [*rows]
    if not rows:
        return
    yield "    not installed:"
    width = max(len(name) for name, _, _ in rows)
    wide = max(len(what) for _, what, _ in rows)
    for name, what, way in rows:
        yield f"    {name:<{width}}  {f'{what:<{wide}}  ' if wide else ''}{way}"


def _told(name: str, text: str) -> list[str]:
    return _wrapped(text, f"{name:<10} ")


def _wrapped(text: str, lead: str) -> list[str]:
    after = " " * (len(lead) or 4)
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=lead,
        subsequent_indent=after,
        break_on_hyphens=False,
        break_long_words=False,
    )
