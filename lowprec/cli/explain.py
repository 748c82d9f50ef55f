"""Explanation of one value in one format, as every profile converts it, and why."""

from __future__ import annotations

import textwrap

import click

from lowprec.cli import completing
from lowprec.cli.arguments import deliver_json, format_named, one_format, usage_errors
from lowprec.cli.options import define_option, flag, json_option, named
from lowprec.cli.terminal import say

_WIDTH = 100


@click.command(
    short_help="Say what each profile makes of one value, and why.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("value")
@click.argument("fmt", metavar="[FORMAT]", required=False, shell_complete=completing.formats)
@named(
    *("--from", "source"),
    of=completing.operands,
    metavar="FORMAT",
    help="Round VALUE to this format first, to nearest even, as a program's literal is: binary32, say.",
)
@flag("--code", "as_code", help="Take VALUE as a code of --from, in hexadecimal.")
@define_option
@json_option()
def explain(value: str, fmt: str | None, source: str | None, as_code: bool, as_json: bool) -> None:
    """Say what each profile of software and hardware makes of one value, and why.

    \b
    lowprec explain 464 e4m3fn
    lowprec explain 1.0625000001 e4m3fn --from binary64
    lowprec explain 7f800001 e4m3fn --from binary32 --code

    VALUE is a decimal, a fraction such as 1/3, hexadecimal such as 0x1.8p+3, inf, nan or -0; without --from
    it is not rounded before it is converted. Profiles that agree stand together; below an answer are the
    rules that make it differ from the default, each with the profiles that have it. JSON has schema
    lowprec.explain/1.
    """  # noqa: D301
    from lowprec.oracle.convert import decode, project
    from lowprec.spec.projection import Projection
    from lowprec.verify import explanation

    start = None if source is None else format_named(source, operand=True)
    target = one_format(fmt)
    if as_code and start is None:
        raise click.UsageError("--code needs --from FORMAT, whose code VALUE is")
    code = None
    with usage_errors():
        if as_code and start is not None:
            try:
                code = int(value, 16)
            except ValueError:
                raise ValueError(f"{value!r} is no code in hexadecimal, such as 7e") from None
            given = decode(code, start)
        else:
            given = explanation.parse(value)
            if start is not None:
                given = decode(project(given, start, Projection()), start)
        found = explanation.explain(given, target, start, code=code)
    if as_json:
        deliver_json(found.as_dict())
        return
    for line in found.as_text():
        indent = " " * (len(line) - len(line.lstrip()))
        say(
            "\n".join(
                textwrap.wrap(line, _WIDTH, subsequent_indent=f"{indent}", break_on_hyphens=False) or [""]
            )
        )
