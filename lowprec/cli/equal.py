"""Two quantisers held against each other."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lowprec.cli import completing
from lowprec.cli.arguments import (
    AGREE,
    DIFFER,
    NOTHING,
    deliver_json,
    profile_named,
    refuse,
    target_named,
    usage_errors,
)
from lowprec.cli.options import count, flag, json_option, named, seed_option
from lowprec.cli.terminal import say
from lowprec.spec.profiles import PROFILES

if TYPE_CHECKING:
    from lowprec.spec.format import Format
    from lowprec.verify.dumps.files import Dump


@click.command("equal", short_help="Say whether two quantisers give the same bits.")
@click.argument("first", metavar="A", shell_complete=completing.profiles)
@click.argument("second", metavar="B", shell_complete=completing.profiles)
@named("--to", of=completing.targets, metavar="FORMAT", required=True, help="Format or block format of both.")
@named("--input", "operands", metavar="FILE", help="Tensor to quantise. Default: chosen and random matrices.")
@click.option(
    "--source",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    default="float32",
    show_default=True,
    help="Type of the chosen matrices.",
)
@named("--axis", type=int, metavar="N", help="Axis along which blocks lie. Default: the last.")
@named("--rule", of=completing.rules, help="Scale rule of the definition. Default: the block format's own.")
@named("--profile", of=completing.profiles, help="Take this profile for the definition.")
@count(
    "--samples",
    default=1 << 16,
    type=click.IntRange(0, 1 << 28),
    help="Try this number of random values beside the chosen ones.",
)
@seed_option("these")
@flag("--no-why", help="Do not hold them against the definition.")
@json_option(" (schema lowprec.equal/1)")
def equal(
    first: str,
    second: str,
    to: str,
    operands: str | None,
    no_why: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Say whether two quantisers give the same bits, where not, and which of them is right.

    A and B are profiles, as `lowprec list profiles` names them; functions, as MODULE:NAME, of a module that
    Python finds from here; or results that were recorded of --input: CODES, CODES,SCALES or
    CODES,SCALES,TENSOR_SCALE, files as `lowprec compare` reads them; scales may be numbers too.

    \b
    lowprec equal torchao_rceil transformer_engine --to mxfp8_e4m3 --source bfloat16
    lowprec equal mine:quantize ocp --to mxfp4
    lowprec equal train.npy,train_scales.npy serve.npy,serve_scales.npy --to nvfp4 --input w.npy

    Exit codes: 0 all bits are equal, 1 some differ, 2 bad input or usage, 3 nothing was compared.
    """  # noqa: D301
    import numpy as np

    from lowprec.verify.compare.equality import equal_quantizers
    from lowprec.verify.dumps.files import open_dump

    if operands is not None:
        refuse("is of matrices that are made, and --input is what is quantised", "source", "samples", "seed")
    if no_why:
        refuse("is of the definition, which --no-why leaves out", "rule", "profile")
    try:
        with usage_errors((ValueError, TypeError, OSError, ImportError)):
            target, given = target_named(to), None if operands is None else np.asarray(open_dump(operands))
            layout = target, None if given is None else given.shape, options["axis"]
            if options["profile"] is not None:
                options["profile"] = profile_named(options["profile"])
            report = equal_quantizers(
                _quantizer(first, *layout),
                _quantizer(second, *layout),
                target,
                given,
                why=not no_why,
                **options,
            )
    except SystemExit as stop:
        raise click.UsageError(
            f"{first!r} or {second!r} called sys.exit({stop.code!r}), so nothing was compared; put what only "
            "a script does under `if __name__ == '__main__':`"
        ) from None
    if as_json:
        deliver_json(report.as_dict())
    else:
        say(str(report))
    sys.exit(AGREE if report.equal else DIFFER if report.differ else NOTHING)


def _quantizer(spelled: str, to: Any, shape: tuple[int, ...] | None, axis: int | None) -> Any:
    """Return a profile's name, a function, or recorded results."""
    from lowprec.verify.dumps.files import open_results

    words, (module, colon, name) = spelled.split(","), spelled.partition(":")
    if spelled in PROFILES or spelled.partition(":")[0].endswith(".toml"):
        return profile_named(spelled)
    if colon and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    path = Path(words[0].split(":")[0])
    if len(words) > 1 or Path(words[0]).exists() or (path.suffix and not (colon and _is_package(module))):
        scale = getattr(to, "scale", None)
        codes = open_results(words[0], to, shape, axis)
        return [_whole(codes), *(_scale(word, scale) for word in words[1:])]
    if not colon:
        return spelled
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise click.UsageError(f"{module!r} has no {name!r}")
        found = getattr(found, part)
    return found


def _is_package(module: str) -> bool:
    """Return whether the first of dotted names is one that can be imported."""
    parts = module.split(".")
    return all(map(str.isidentifier, parts)) and importlib.util.find_spec(parts[0]) is not None


def _scale(spelled: str, fmt: Format | None) -> Any:
    """Return a number, or the array of a file."""
    from lowprec.verify.dumps.files import open_dump

    try:
        return float(spelled)
    except ValueError:
        return _whole(open_dump(spelled, fmt))


def _whole(dump: Dump) -> Any:
    return dump.read(0, dump.size).reshape(dump.shape)
