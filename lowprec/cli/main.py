"""The command line. Exit codes: 0 all agree, 1 some differ, 2 bad input or usage, 3 nothing was compared.

Each command imports what it needs, so that `lowprec --help` does not wait for numba.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import click

from lowprec import __version__
from lowprec.cli import (
    capture,
    check,
    checkpoint,
    compare,
    conform,
    doctor,
    equal,
    explain,
    explorer,
    export,
    formats,
    golden,
    identify,
    vectors,
    warm,
)
from lowprec.cli.arguments import BROKEN_PIPE, FAILED, INTERRUPTED, reason
from lowprec.cli.terminal import say

#: Characters of an error that are shown.
_MOST = 5000


class _PipeClosed(Exception):
    """A BrokenPipeError, out of reach of click, which exits with 1 for one."""


class _Lowprec(click.Group):
    """The group of commands: each way a command can end has its exit code here; 1 means a difference."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Read the arguments; --help prints here."""
        try:
            return super().make_context(*arguments, **options)
        except BrokenPipeError:
            raise _PipeClosed from None

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(context)
        except BrokenPipeError:
            raise _PipeClosed from None

    def main(
        self, args: Sequence[str] | None = None, *more: Any, standalone_mode: bool = True, **options: Any
    ) -> Any:
        """Run a command and exit, or with standalone_mode=False as click does."""
        run = functools.partial(super().main, args, *more, standalone_mode=False, **options)
        if not standalone_mode:
            return run()
        _show_waiting()
        try:
            code = _code_of(run)
        except (BrokenPipeError, _PipeClosed):  # whoever reads the output has seen enough
            code = BROKEN_PIPE
        except OSError as error:
            code = _failed(reason(error))
        except MemoryError:
            code = _failed("there is not enough memory for this input")
        except RecursionError:
            code = _failed("the input is nested too deeply")
        except KeyboardInterrupt:
            code = _failed("interrupted", INTERRUPTED)
        except Exception:
            code = _failed(traceback.format_exc())
        _leave(sys.stdout)
        _leave(sys.stderr)
        sys.exit(code)


def _show_waiting() -> None:
    """Let a terminal show why a command waits: the package logs that kernels are compiled."""
    if sys.stderr is not None and sys.stderr.isatty():
        logger = logging.getLogger("lowprec")
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.INFO)


def _code_of(run: Callable[[], Any]) -> Any:
    """Run a command, print its refusal if it has one, and return its exit code."""
    try:
        code = run() or 0
    except SystemExit as stop:
        code = stop.code or 0
    except click.Abort as stop:  # which click makes of Ctrl-C
        raise stop.__cause__ or KeyboardInterrupt from None
    except click.ClickException as error:
        message = io.StringIO()
        error.show(message)
        text = message.getvalue().removesuffix("\n")
        say(text if len(text) <= _MOST else f"{text[:_MOST]}...", err=True)
        code = error.exit_code
    if sys.stdout is not None:
        sys.stdout.flush()
    return code


def _failed(why: str, code: int = FAILED) -> int:
    with contextlib.suppress(OSError):
        say(f"Error: {why}", err=True)
    return code


def _leave(stream: TextIO | None) -> None:
    """Flush a stream; send what it does not take nowhere, else Python would fail at its end to write it."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@click.group(cls=_Lowprec, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lowprec")
def main() -> None:
    """Show what conversions and arithmetic in low-precision formats must give, bit for bit, and
    find who differs.

    Exit codes: 0 all agree, 1 some differ, 2 bad input or usage, 3 nothing was compared.
    """  # noqa: D205 - as --help has it


for command in (
    formats.formats,
    formats.block_formats,
    formats.accumulations,
    formats.profiles,
    formats.listing,
    formats.show,
    formats.table,
    export.export,
    equal.equal,
    explain.explain,
    vectors.vectors,
    compare.compare,
    checkpoint.checkpoint,
    capture.capture,
    identify.identify,
    explorer.explorer,
    golden.golden,
    conform.conform,
    check.check_format,
    warm.warm,
    doctor.doctor,
):
    main.add_command(command)
