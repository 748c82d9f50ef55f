"""Compile kernels in advance."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

import click

from lowprec.cli import completing
from lowprec.cli.arguments import anything_named, refuse
from lowprec.cli.options import flag, several
from lowprec.cli.terminal import progress, say

if TYPE_CHECKING:
    from lowprec.cli.warming import Specification
    from lowprec.kernels.compiling import Compiled


@click.command(short_help="Compile kernels in advance, for containers and CI.")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=completing.anything)
@flag("--all", "everything", help="Warm all that has a name: formats, block formats and accumulations.")
@several(
    *("--verb", "verbs"),
    metavar="VERB",
    help="Warm this verb: encode, decode, quantize, cast (from each NAME to each other), an operation such "
    "as add, dot or matmul; may be repeated. Default: encode, decode and quantize; of accumulations dot "
    "and matmul.",
)
@several(
    *("--type", "types"),
    default=("float32",),
    metavar="TYPE",
    help="Take values of this type of NumPy or ml_dtypes; may be repeated.",
)
@several(
    *("--rounding", "roundings"),
    default=("nearest_even",),
    metavar="MODE",
    help="Round by this mode, 'stochastic(16)' for instance; may be repeated.",
)
@flag("--flags", help="Ask for the flags of each result too.")
@flag("--list", "listed", help="List each kernel that was compiled, with its time.")
def warm(names: tuple[str, ...], everything: bool, listed: bool, **asked: Any) -> None:
    """Compile what calls on NAMEs need, and keep it on disk, so that no later process waits for it.

    NAME is a format, a block format, an accumulation, or a .toml file that defines one. Kernels that are on
    disk are not compiled again: with LOWPREC_CACHE_DIR set to nothing, --list times all of them.
    """
    if everything == bool(names):
        raise click.UsageError("name formats, block formats or accumulations, or say --all")
    from lowprec.cli.examining import usable
    from lowprec.cli.warming import calls
    from lowprec.kernels.cache import LOST, directory
    from lowprec.kernels.compiling import COMPILED
    from lowprec.spec.accumulation import Accumulation
    from lowprec.spec.format import Format

    chosen = _everything() if everything else [_named(name) for name in names]
    if all(isinstance(each, Accumulation) for each in chosen):
        refuse("is of formats and block formats, and none is named", "types", "roundings")
    if not any(isinstance(each, Format) for each in chosen):
        refuse("is of formats, and none is named", "flags")
    try:
        found = calls(chosen, **asked)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    where = directory()
    state, why = usable(where)

    def not_kept() -> NoReturn:
        raise click.UsageError(
            f"compiled kernels cannot be kept in {str(where)!r}: {why}; set LOWPREC_CACHE_DIR to a folder "
            f"that only you can change"
        )

    if state == "unusable" and where is not None and not where.is_dir():
        not_kept()
    began, before, lost = time.perf_counter(), len(COMPILED), len(LOST)
    with progress() as watch:
        for done, call in enumerate(found):
            if watch:
                watch(done, len(found), call.words)
            try:
                call.run()
            except (TypeError, ValueError) as error:
                raise click.UsageError(f"{call.words}: {error}") from None
    compiled = COMPILED[before:]
    if compiled and state == "unusable":  # others that the folder has were loaded
        not_kept()
    if listed:
        _list(compiled)
    if LOST[lost:]:
        raise click.ClickException(
            f"{len(LOST) - lost} of {len(compiled)} kernels could not be kept in {str(where)!r}: {LOST[-1]}"
        )
    say(
        f"{len(found)} calls in {time.perf_counter() - began:.1f} s: {len(compiled)} kernels compiled in "
        f"{sum(kernel.seconds for kernel in compiled):.1f} s, "
        + ("and not kept, as LOWPREC_CACHE_DIR is empty" if where is None else f"kept in {str(where)!r}")
    )


def _everything() -> list[Specification]:
    from lowprec.spec.accumulations import ACCUMULATIONS
    from lowprec.spec.catalog import BLOCK_FORMATS, FORMATS

    return [*FORMATS.values(), *BLOCK_FORMATS.values(), *ACCUMULATIONS.values()]


def _named(name: str) -> Specification:
    from lowprec.spec.profiles import Profile

    found = anything_named(name)
    if isinstance(found, Profile):
        raise click.UsageError(f"{name!r} is a profile; name the formats that it converts to")
    return found


def _list(compiled: list[Compiled]) -> None:
    from lowprec.export import cards

    table = cards.columns("seconds", "kernel", right=("seconds",), fold=("kernel",))
    for kernel in sorted(compiled, key=lambda kernel: -kernel.seconds):
        table.add_row(f"{kernel.seconds:.2f}", kernel.kernel)
    cards.show(table)
