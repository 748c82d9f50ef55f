"""The command line. Exit codes: 0 all agree, 1 some differ, 2 bad input or usage, 3 nothing was compared.

Floor 5. Each command imports what it needs, so that `lowprec --help` does not wait for numba.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import lowprec

if TYPE_CHECKING:
    import numpy.typing as npt

    from lowprec.spec.format import Format
    from lowprec.tools.frameworks import Framework

__all__ = ["main"]

AGREE, DIFFER, MISUSE, NOTHING = 0, 1, 2, 3


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(lowprec.__version__, prog_name="lowprec")
def main() -> None:
    """Show what low-precision number formats must give, bit for bit, and who differs.

    Exit codes: 0 all agree, 1 some differ, 2 bad input or usage, 3 nothing was compared.
    """


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def formats(as_json: bool) -> None:
    """List the formats of the catalog."""
    from lowprec.spec.catalog import FORMATS
    from lowprec.tools import cards

    if as_json:
        click.echo(json.dumps([cards.describe(fmt) for fmt in FORMATS.values()], indent=1))
    else:
        cards.show(cards.listing())


@main.command()
@click.argument("fmt", metavar="FORMAT")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(fmt: str, as_json: bool) -> None:
    """Show a format: parameters, limits, special codes and, up to 8 bits, every code's value.

    FORMAT is a name, an alias, or a P3109 name such as binary8p3se.
    """
    from lowprec.tools import cards

    known = _format(fmt)
    if as_json:
        click.echo(json.dumps(cards.describe(known), indent=1))
    else:
        cards.show(cards.card(known))


@main.command()
@click.argument("frameworks", metavar="[FRAMEWORK]...", nargs=-1)
@click.option("--source", "sources", multiple=True, metavar="DTYPE", help="Only this source type; may be repeated.")
@click.option("--target", "targets", multiple=True, metavar="FORMAT", help="Only this target; may be repeated.")
@click.option(
    "--values", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Own data, an .npy file of numbers."
)
@click.option(
    "--samples", default=1 << 20, show_default=True, help="Random float32 and float64 inputs for each target."
)
@click.option("--seed", default=0, show_default=True, help="Of the random inputs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema lowprec.conform/1).")
def conform(
    frameworks: tuple[str, ...],
    sources: tuple[str, ...],
    targets: tuple[str, ...],
    values: Path | None,
    samples: int,
    seed: int,
    as_json: bool,
) -> None:
    """Hold the casts of the installed FRAMEWORKs against the golden reference, code by code.

    Runs every source type and target format of each on all ties, thresholds, borders and
    specials, on all 16-bit inputs and on random bit patterns, under nearest_even and saturation
    none. Exit 0: nothing beyond the known divergences (marked *); 1: something else differs.
    """
    from lowprec.tools import conformance
    from lowprec.tools.cases import SOURCES

    chosen = _frameworks(frameworks)
    for source in sources:
        if source not in SOURCES:
            raise click.UsageError(f"unknown source {source!r}; use one of {', '.join(SOURCES)}")
    if samples < 0 or seed < 0:
        raise click.UsageError("--samples and --seed must not be negative")
    wanted = [_format(target) for target in targets]
    data = None if values is None else _load(values)

    with _progress() as watch:
        rows = list(
            conformance.run(
                chosen,
                sources=sources or None,
                targets=wanted or None,
                values=data,
                samples=samples,
                seed=seed,
                known=conformance.known_divergences(),
                watch=watch,
            )
        )
    if as_json:
        click.echo(conformance.report(rows))
    else:
        from lowprec.tools import cards

        cards.show(conformance.table(rows))
    if not sum(row.tried for row in rows):
        click.echo("nothing was compared: no framework has such a cast, or there were no values", err=True)
        sys.exit(NOTHING)
    sys.exit(DIFFER if any(row.unexplained for row in rows) else AGREE)


def _format(name: str) -> Format:
    from lowprec.spec.catalog import format as format_of

    try:
        return format_of(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _frameworks(names: tuple[str, ...]) -> list[Framework]:
    from lowprec.tools.frameworks import FRAMEWORKS

    for name in names:
        if name not in FRAMEWORKS:
            raise click.UsageError(f"unknown framework {name!r}; use one of {', '.join(FRAMEWORKS)}")
    for name in names:
        if FRAMEWORKS[name].version is None:
            click.echo(f"nothing was compared: {name} is not installed; {FRAMEWORKS[name].install}", err=True)
            sys.exit(NOTHING)
    return [
        framework
        for framework in FRAMEWORKS.values()
        if framework.version is not None and (not names or framework.name in names)
    ]


def _load(path: Path) -> npt.NDArray[Any]:
    """Values from an .npy file of one of the source types."""
    import numpy as np

    from lowprec.tools.cases import SOURCES

    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise click.UsageError(f"cannot read {str(path)!r} as an .npy file: {error}") from None
    if not isinstance(values, np.ndarray):
        raise click.UsageError(f"{str(path)!r} holds several arrays; save one with np.save")
    if values.dtype.newbyteorder("=") not in SOURCES.values():
        raise click.UsageError(
            f"{str(path)!r} holds {values.dtype}; own data must be one of {', '.join(SOURCES)} "
            f"(np.save loses ml_dtypes types: save bfloat16 as float32)"
        )
    return values.astype(values.dtype.newbyteorder("="))


class _progress:
    """A progress bar on a terminal, nothing elsewhere."""

    def __enter__(self) -> Callable[[int, int, str], None] | None:
        if not sys.stderr.isatty():
            return None
        from rich.console import Console
        from rich.progress import Progress

        self.bar = Progress(console=Console(stderr=True), transient=True)
        self.bar.start()
        task = self.bar.add_task("", total=None)

        def watch(done: int, total: int, what: str) -> None:
            self.bar.update(task, completed=done, total=total, description=what)

        return watch

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "bar"):
            self.bar.stop()
