"""`lowprec conform --exhaustive`: every binary32 operand of a cast."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
from click.core import ParameterSource

from lowprec.cli.arguments import (
    AGREE,
    DIFFER,
    FAILED,
    INTERRUPTED,
    NO_CHECKOUT,
    check_known,
    deliver,
    format_named,
    frameworks_named,
    nothing_compared,
    one_of,
    usage_errors,
)
from lowprec.cli.options import (
    FOLDER,
    MODES_HELP,
    POLICIES_HELP,
    flag,
    named,
    scheduler_option,
    several,
    tables_option,
)
from lowprec.cli.terminal import progress, say
from lowprec.spec.number_text import read_count
from lowprec.spec.projection import NanPolicy, Saturation
from lowprec.spec.rounding import MODES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from lowprec.verify.sweeps.exhaustive import Sweep, Swept

#: Processes of this machine, at most.
_MOST_WORKERS = 4096
#: Arguments of `conform` that a sweep takes too.
_SHARED = ("frameworks", "targets", "as_json")

_OPTIONS = (
    flag(
        "--exhaustive",
        help="Try all 2^32 float32 inputs and compare with the oracle, without excusing known divergences. "
        "FRAMEWORK is then lowprec, its own kernels, by default. The options below need it; --json has "
        "schema lowprec.exhaustive/1.",
    ),
    several(
        *("--rounding", "roundings"),
        metavar="MODE",
        help=f"Round by this mode: {MODES_HELP}, or all; may be repeated. Default: nearest_even, or the "
        "framework's own.",
    ),
    several(
        *("--saturation", "saturations"),
        metavar="POLICY",
        help=f"Treat results beyond the largest value by this policy: {POLICIES_HELP}, or all; may be "
        "repeated. Default: none, or the framework's own.",
    ),
    click.option(
        "--nan",
        default="max",
        show_default=True,
        type=click.Choice([policy for policy in get_args(NanPolicy) if policy != "error"]),
        help="Expect this of NaN in formats without NaN.",
    ),
    named(
        "--workers",
        type=click.IntRange(1, _MOST_WORKERS),
        metavar="N",
        help="Work in this number of processes. Default: one for each processor.",
    ),
    scheduler_option,
    click.option(
        "--state",
        type=FOLDER,
        help="Keep finished parts in this folder. Default: one beside the cache of compiled kernels.",
    ),
    flag("--fresh", help="Do everything again, also parts that are kept."),
    flag("--write", help="Write the digests into digests.json."),
    flag("--check", help="Compare the digests with those of digests.json."),
    tables_option("digests.json"),
    named(
        "--shard",
        metavar="I/N",
        help="Try only the part I of N of all inputs, such as 1/4; the N parts together are all of them.",
    ),
    click.option("--ranges", hidden=True, help="Try only some of the 256 ranges, such as 0,60-63."),
)


def exhaustive_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --exhaustive and what goes with it to `conform`."""

    @functools.wraps(command)
    def either(*, exhaustive: bool, **given: Any) -> None:
        ours = {name: given.pop(name) for name in _ours}
        context = click.get_current_context()
        for parameter in context.command.params:
            chosen = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
            if chosen and exhaustive and parameter.name in set(given) - {*_SHARED}:
                raise click.UsageError(
                    f"{parameter.opts[0]} does not go with --exhaustive, which tries every float32"
                )
            if chosen and not exhaustive and parameter.name in _ours:
                raise click.UsageError(f"{parameter.opts[0]} goes with --exhaustive only")
        if exhaustive:
            _sweep(**{name: given[name] for name in _SHARED}, **ours)
        else:
            command(**given)

    made: Callable[..., None] = either
    for option in reversed(_OPTIONS):
        made = option(made)
    _ours = {parameter.name for parameter in made.__click_params__} - {"exhaustive"}  # type: ignore[attr-defined]
    return made


def _sweep(
    frameworks: tuple[str, ...],
    targets: tuple[str, ...],
    as_json: bool,
    roundings: tuple[str, ...],
    saturations: tuple[str, ...],
    nan: NanPolicy,
    workers: int | None,
    scheduler: str | None,
    state: Path | None,
    fresh: bool,
    write: bool,
    check: bool,
    tables: Path | None,
    shard: str | None,
    ranges: str | None,
) -> None:
    from lowprec.arrays.threads import get_threads
    from lowprec.export import cards, golden
    from lowprec.verify.sweeps import exhaustive, keeping, processes

    subjects = _subjects(frameworks)
    formats = list(dict.fromkeys(format_named(target) for target in targets)) or None
    modes = [mode.name for mode in MODES] if "all" in roundings else list(dict.fromkeys(roundings))
    policies = (
        [policy.value for policy in Saturation] if "all" in saturations else list(dict.fromkeys(saturations))
    )
    chosen = _ranges(ranges, exhaustive.RANGES)
    folder = tables or golden.tables_folder()
    if scheduler is not None and workers is not None:
        raise click.UsageError(
            "--workers are processes of this machine, and --scheduler has its own; give one of them"
        )
    with usage_errors():
        chosen = chosen if shard is None else [each for each in exhaustive.shard(shard) if each in chosen]
        sweeps = exhaustive.plan(subjects, formats, modes, policies, nan)
    if not sweeps:
        nothing_compared("no framework has such a cast from float32")
    action = one_of(write=write, check=check)
    if action is not None:
        _check_action(action, sweeps, folder, {"--ranges": ranges, "--shard": shard})
    try:
        keeper = keeping.Keeper(state or keeping.state_folder(), fresh=fresh)
        with progress() as watch:
            team = processes.team(scheduler, workers or min(get_threads(), _MOST_WORKERS))
            rows = processes.run(sweeps, team, keeper, ranges=chosen, watch=watch)
    except keeping.SweepError as error:
        say(f"Error: {error}", err=True)
        sys.exit(FAILED)
    except KeyboardInterrupt:
        say("interrupted; the same command goes on from here", err=True)
        sys.exit(INTERRUPTED)
    for line in keeper.damaged:
        say(line, err=True)
    if as_json:
        deliver(exhaustive.report(rows) + "\n")
    else:
        cards.show(_table(rows))
    wrong = any(row.differences for row in rows)
    if action is not None and folder is not None:
        wrong = _act(action, rows, folder / "digests.json") or wrong
    sys.exit(DIFFER if wrong else AGREE)


def _subjects(names: tuple[str, ...]) -> list[str]:
    """Return the names of subjects: our kernels and installed frameworks."""
    from lowprec.verify.frameworks import FRAMEWORKS
    from lowprec.verify.sweeps.exhaustive import OURS

    check_known("framework", names, (OURS, *FRAMEWORKS))
    others = tuple(name for name in names if name != OURS)
    found = [framework.name for framework in frameworks_named(others)] if others else []
    return [OURS, *found] if OURS in names or not names else found


def _ranges(text: str | None, count: int) -> list[int]:
    if text is None:
        return list(range(count))
    chosen: set[int] = set()
    for part in text.split(","):
        first, _, end = part.partition("-")
        low, high = read_count(first), read_count(end or first)
        if low is None or high is None or not low <= high < count:
            raise click.UsageError(
                f"--ranges {text[:60]!r} must be such as 0,60-63, of ranges 0 to {count - 1}"
            )
        chosen.update(range(low, high + 1))
    return sorted(chosen)


def _check_action(
    action: str, sweeps: list[Sweep], tables: Path | None, parts: dict[str, str | None]
) -> None:
    """Refuse before the work what cannot be done after it."""
    from lowprec.export import golden
    from lowprec.spec import catalog
    from lowprec.verify.sweeps.exhaustive import OURS

    for sweep in sweeps:
        if sweep.subject != OURS:
            raise click.UsageError(
                f"--{action} is for the digests of {OURS}'s own kernels; leave {sweep.subject} out"
            )
        if action == "write" and catalog.FORMATS.get(sweep.fmt.name) != sweep.fmt:
            raise click.UsageError(f"--write keeps formats of the catalog; {sweep.fmt.name!r} is none")
    for option, part in parts.items():
        if part is not None:
            raise click.UsageError(f"--{action} takes whole sweeps; leave {option} out")
    if tables is None:
        raise click.UsageError(NO_CHECKOUT)
    try:
        golden.read_digests(tables)
    except golden.Refused as error:
        raise click.UsageError(f"{error}; name its folder with --tables") from None


def _act(action: str, rows: list[Swept], digests: Path) -> bool:
    """Write or check; whether something is wrong."""
    from lowprec.export import golden
    from lowprec.verify.sweeps import exhaustive

    with usage_errors((ValueError, OSError)):  # it may have changed since the sweeps began
        golden.read_digests(digests.parent)
        text = digests.read_text()
    if action == "write":
        right = [row for row in rows if not row.differences]
        deliver(exhaustive.write_digests(right, text).encode(), digests)
        say(f"{len(right)} digests written to {digests}", err=True)
        return False
    problems = list(exhaustive.check_digests(rows, text))
    for line in problems:
        say(line, err=True)
    say(f"{len(problems)} digests are wrong" if problems else "the digests are right", err=True)
    return bool(problems)


def _table(rows: list[Swept]) -> RenderableType:
    """Return the sweeps as a table to read, with a line that sums them up."""
    from rich.console import Group
    from rich.markup import escape

    from lowprec.export import cards

    smallest, numbers = "smallest operand that differs, got, want", ("inputs", "differ", "seconds")
    grid = cards.columns("subject", "format", "projection", *numbers, "sha256", smallest, right=numbers)
    for row in rows:
        least = row.smallest
        grid.add_row(
            f"{row.sweep.subject} {row.sweep.version}",
            row.sweep.fmt.name,
            str(row.sweep.projection),
            f"{row.inputs:,}",
            f"{row.differences:,}" if row.differences else "-",
            f"{row.seconds:.1f}",
            row.sha256[:16],
            escape("{operand} {value} [{got}, want {want}]".format(**dict(least.rows))) if least else "",
            style="red" if row.differences else None,
        )
    inputs, differ = sum(row.inputs for row in rows), sum(row.differences for row in rows)
    kept, ranges = sum(row.kept for row in rows), sum(len(row.found) for row in rows)
    again = f"; {kept:,} of {ranges:,} ranges were done by an earlier run" if kept else ""
    return Group(grid, "", f"{len(rows)} sweeps, {inputs:,} inputs: {differ:,} differ from the oracle{again}")
