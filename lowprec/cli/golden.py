"""The golden data."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import click

from lowprec.cli.arguments import DIFFER, NO_CHECKOUT, deliver, one_of
from lowprec.cli.options import OUTPUT, flag, tables_option
from lowprec.cli.terminal import progress, say


@click.command(short_help="Write or check the golden data.")
@flag("--write", help="Generate the files and write them.")
@flag("--check", help="Generate the files and compare them with those in the folder, byte for byte.")
@flag(
    "--freeze",
    help="Write the digests of this version's answers, which later versions of its line must keep.",
)
@click.option(
    "--archive",
    type=OUTPUT,
    metavar="FILE",
    help="Check the files, then write them to this tar file, which has the same bytes wherever it is made.",
)
@tables_option("the golden data")
def golden(write: bool, check: bool, freeze: bool, archive: Path | None, tables: Path | None) -> None:
    """Write or check the golden data: encoding tables, digests and test vectors.

    The oracle generates them and the kernels verify them. Exit 1: a file differs, or the two do.
    --check also holds them against the answers that releases froze. --write replaces and removes only what
    the folder's digests.json lists, and refuses where another file is in the way.
    """
    from lowprec.export import golden as data, release

    action = one_of(write=write, check=check, freeze=freeze)
    if archive is not None and action not in (None, "check"):
        raise click.UsageError("--archive checks the files; leave --write and --freeze out")
    action = "check" if archive is not None else action
    if action is None:
        raise click.UsageError("say --write, --check, --freeze or --archive")
    folder = tables or data.tables_folder()
    if folder is None:
        raise click.UsageError(NO_CHECKOUT)
    if action != "write" and not folder.is_dir():
        raise click.UsageError(f"there is no folder {str(folder)!r}; give the checkout's with --tables")
    try:
        if action == "write":
            say(f"golden data goes to {str(folder.resolve())!r}", err=True)
        if action == "freeze":
            say(f"{release.freeze(folder)} has the answers of this version")
            return
        with progress() as watch:
            if action == "write":
                say(f"{data.write(folder, watch)} files written to {str(folder.resolve())!r}")
                return
            held: dict[str, bytes] = {}
            problems = data.check(folder, watch, held)
        kept = [] if problems else release.changed(folder)
        content = data.archive(folder, held) if archive is not None and not (problems or kept) else b""
    except data.Refused as error:
        raise click.UsageError(str(error)) from None
    except data.Disagreement as error:
        say(str(error), err=True)
        sys.exit(DIFFER)
    for problem in [*problems, *kept]:
        say(problem)
    if problems or kept:
        say(f"{len(kept)} frozen answers changed" if kept else f"{len(problems)} golden files are wrong")
        sys.exit(DIFFER)
    say(f"the golden files are right; answers {release.name_of(release.answers(folder))}")
    if archive is not None:
        deliver(content, archive, of=[str(folder / name) for name in (*held, "README.md")])
        say(f"{str(archive)!r} has them; its SHA-256 is {hashlib.sha256(content).hexdigest()}")
