"""Conversion of the commands' arguments to objects; bad input ends with its reason and code 2.

Each function imports what it needs, so that `lowprec --help` does not wait for numba.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import click
from click.core import ParameterSource

from lowprec import files
from lowprec.cli.terminal import say
from lowprec.spec.number_text import read_count

if TYPE_CHECKING:
    import numpy.typing as npt

    from lowprec.spec.accumulation import Accumulation
    from lowprec.spec.block import BlockFormat
    from lowprec.spec.epilogue import LibraryCall
    from lowprec.spec.format import Format
    from lowprec.spec.profiles import Profile
    from lowprec.spec.projection import Projection
    from lowprec.spec.toml_reading import Specification
    from lowprec.verify.frameworks import Framework

#: Formats to show for operations whose operands are not alike.
_EXAMPLES = {"convert": ("binary32", "e4m3fn"), "scaleb": ("e4m3fn", "int32", "e4m3fn")}

#: A file that defines what it is asked for, and which of several.
_IN_FILE = re.compile(r"(.+\.toml)(?::(.+))?", re.DOTALL)

#: Exit codes; bad input and usage are 2, which is click's. What a signal ends has 128 and its number.
AGREE, DIFFER, FAILED, NOTHING, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 130, 141

Named = TypeVar("Named")

#: Why a command that works on the golden data refuses to where nothing says which.
NO_CHECKOUT = (
    "lowprec does not run from a checkout here, so it has no tables/ of its own; name the folder "
    "with --tables"
)


@contextlib.contextmanager
def usage_errors(kinds: tuple[type[Exception], ...] = (ValueError,)) -> Iterator[None]:
    """Turn exceptions into a usage error: the reason, and exit code 2."""
    try:
        yield
    except kinds as error:
        raise click.UsageError(reason(error)) from None


def check_known(what: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuse a name that is none of those that are known."""
    for name in names:
        if name not in known:
            raise click.UsageError(f"unknown {what} {name!r}; use one of {', '.join(known)}")


def one_of(**said: bool) -> str | None:
    """Return which of some flags was given, None if none was; refuse several."""
    given = [name for name, is_given in said.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"--{given[0]} and --{given[1]} are two runs; say one of them")
    return given[0] if given else None


def refuse(why: str, *names: str) -> None:
    """Refuse options and arguments of these names, whatever their value: their name, and then `why`."""
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if given and parameter.name in names:
            spelled = (
                parameter.opts[-1] if isinstance(parameter, click.Option) else parameter.human_readable_name
            )
            raise click.UsageError(f"{spelled.strip('[]')} {why}; leave it out")


def nothing_compared(why: str) -> NoReturn:
    """Say why nothing was compared, and exit."""
    say(f"nothing was compared: {why}", err=True)
    sys.exit(NOTHING)


def reason(error: Exception) -> str:
    """Return the words of an exception: of an OSError the system's and the file, without their number."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return error.strerror + ("" if error.filename is None else f": {error.filename!r}")


def format_named(name: str, *, operand: bool = False) -> Format:
    """Return a format by name, by file, or the one that --define defines."""
    from lowprec.cli import definitions
    from lowprec.spec.catalog import format as format_of

    with usage_errors():
        found: Any = definitions.named(name) or in_file(name, "format")
        if found is not None:
            return cast("Format", found)
        if operand:
            from lowprec.verify.reference.operations import operand_format

            return operand_format(name)
        return format_of(name)


def target_named(name: str) -> Format | BlockFormat:
    """Return a format or block format by name or by file, or the format that --define defines."""
    from lowprec.spec.catalog import block_format, is_block

    with usage_errors():
        found: Any = in_file(name, "format", "block format")
        if found is None and is_block(name):
            return block_format(name)
    return found or format_named(name)


def in_file(name: str, *kinds: str) -> Specification | None:
    """Return what mine.toml or mine.toml:NAME stands for, of one of these kinds; of other names None."""
    from lowprec.spec.toml_reading import kind_of, load_toml

    match = _IN_FILE.fullmatch(name)
    if match is None:
        return None
    path, key = match.groups()
    objects = load_toml(path)
    plain = ("format", "codebook")  # a codebook is a format
    accepted = (*kinds, *plain) if "format" in kinds else kinds
    fitting = {each: spec for each, spec in objects.items() if kind_of(spec) in accepted}
    if key is not None and key in fitting:
        return fitting[key]
    held = ", ".join(f"{each!r} ({kind_of(spec)})" for each, spec in objects.items())
    wanted = " or ".join(kinds)
    if key is not None or not fitting:
        asked = "" if key is None else f" {key!r}"
        raise ValueError(f"{path!r} has no {wanted}{asked}; it has {held}")
    if len(fitting) > 1:  # formats beside another thing are what it is made of
        fitting = {each: spec for each, spec in fitting.items() if kind_of(spec) not in plain} or fitting
    if len(fitting) > 1:
        raise ValueError(f"{path!r} has several; name one as {path}:NAME: {held}")
    return next(iter(fitting.values()))


def accumulation_named(name: str) -> Accumulation:
    """Return an accumulation by name or by file."""
    from lowprec.spec.accumulations import accumulation

    return _found(name, "accumulation", accumulation)


def _found(name: str, kind: str, find: Callable[[str], Named]) -> Named:
    """Return the object of a kind that a name, or a file, stands for."""
    with usage_errors():
        found: Any = in_file(name, kind)
        return found or find(name)


def product_named(name: str) -> Accumulation | LibraryCall:
    """Return an accumulation by name or by file, or a library's call by name."""
    from lowprec.spec.library_calls import library_call

    with usage_errors():
        call = library_call(name)
    return call or accumulation_named(name)


def block_named(name: str) -> BlockFormat:
    """Return a block format by name or by file."""
    from lowprec.spec.catalog import block_format

    return _found(name, "block format", block_format)


def profile_named(name: str) -> Profile:
    """Return a profile by name or by file."""
    from lowprec.spec.profiles import profile

    return _found(name, "profile", profile)


def anything_named(name: str) -> Specification:
    """Return the format, block format, accumulation or profile of a name, or of a file.

    A name of none of them is refused with all that are close, and how to show them.
    """
    from lowprec.spec.accumulations import accumulation
    from lowprec.spec.catalog import block_format, format as format_of, is_block
    from lowprec.spec.profiles import PROFILES
    from lowprec.spec.toml_reading import KINDS

    with usage_errors():
        found = in_file(name, *KINDS)
        if found is not None:
            return found
        if is_block(name):
            return block_format(name)
    if name in PROFILES:
        return PROFILES[name]
    refused: list[str] = []
    for of in (format_of, accumulation):
        try:
            return of(name)
        except ValueError as error:
            refused.append(str(error))
    for why in refused:
        if not why.startswith("unknown"):  # an ambiguous name, or one with numbers that cannot be
            raise click.UsageError(why)
    why = next((error for error in refused if "did you mean" in error), refused[0])
    raise click.UsageError("\n".join([why, *_hints(name)]))


def _hints(name: str) -> Iterator[str]:
    """Yield all catalogs' close names, each with the command that shows it, and the commands to list all."""
    from lowprec.spec.accumulations import NAMES
    from lowprec.spec.catalog import BLOCK_FORMATS, FORMATS
    from lowprec.spec.library_calls import LIBRARY_CALLS
    from lowprec.spec.naming import close_names
    from lowprec.spec.profiles import PROFILES

    catalogs: dict[str, Iterable[str]] = {
        "format": FORMATS,
        "block format": BLOCK_FORMATS,
        "accumulation": NAMES,
        "library call": LIBRARY_CALLS,
        "profile": PROFILES,
    }
    for kind, names in catalogs.items():
        for near in close_names(name, names):
            yield f"  lowprec show {shlex.quote(near)}  ({kind})"
    yield "All names: `lowprec formats`, `lowprec accumulations`, `lowprec profiles`, `lowprec list calls`."


def one_format(name: str | None) -> Format:
    """Return the format that is named, or the one that --define defines."""
    from lowprec.cli import definitions

    if name is None:
        definition = definitions.given()
        if definition is None:
            raise click.UsageError(
                "name a FORMAT, or define one with --define exponent_bits=...,trailing_bits=..."
            )
        definition.named = True
        return definition.fmt
    fmt = format_named(name)
    definitions.check_named()
    return fmt


def operation_formats(operation: str, names: tuple[str, ...]) -> tuple[Format, ...]:
    """Return the formats of an operation's operands and of its result."""
    from lowprec.cli import definitions
    from lowprec.verify.reference.operations import OPERATIONS, check_operands

    check_known("operation", [operation], OPERATIONS)
    wanted = OPERATIONS[operation].operands + 1
    if len(names) != wanted:
        example = " ".join(_EXAMPLES.get(operation, ("e4m3fn",) * wanted))
        raise click.UsageError(
            f"{operation} takes {wanted} formats, of each operand and of the result, not {len(names)} "
            f"({' '.join(names)}); for instance {operation} {example}"
        )
    chosen = tuple(format_named(name, operand=place < wanted - 1) for place, name in enumerate(names))
    definitions.check_named()
    with usage_errors():
        check_operands(operation, chosen)
    return chosen


def project(
    rounding: str | None, saturation: str | None, subnormals: Any = None, *, stochastic: bool = False
) -> Projection:
    """Return the projection of the names that are given; of a stochastic mode only with random integers."""
    from lowprec.spec.projection import Projection

    with usage_errors():
        projection = Projection(
            rounding=rounding or "nearest_even",
            saturation=saturation or "none",
            subnormals=subnormals or "keep",
        )
    if projection.rounding.bits and not stochastic:
        raise click.UsageError(
            f"rounding {rounding!r} needs a random integer for each operand; use a deterministic mode"
        )
    return projection


def blocks_asked(fmt: BlockFormat, asked: dict[str, Any]) -> BlockFormat:
    """Return a block format with the rules that options say instead of its own."""
    from lowprec.arrays.blocks.block import asked as block_asked

    profile = None if asked["profile"] is None else profile_named(asked["profile"])
    made = block_asked(fmt, asked["rule"], asked["rounding"], asked["saturation"], None, profile)
    if asked["subnormals"] is None:
        return made
    return replace(made, elements=replace(made.elements, subnormals=asked["subnormals"]))


def deliver(content: str | bytes, output: Path | None = None, *, of: Iterable[str] = ()) -> None:
    """Print what is not for people alone, as it is, or write it to a file.

    Words that name what it was made of, such as mine.toml, 0.5,x.npy or folder:NAME, keep their files.
    """
    data = content.encode() if isinstance(content, str) else content
    if output is None:
        sys.stdout.flush()
        stream, rest = sys.stdout.buffer, memoryview(data)
        while rest:  # without a buffer, as by $PYTHONUNBUFFERED, a stream may take less than all
            rest = rest[stream.write(rest) :]
        stream.flush()
        return
    for word in of if output.is_file() else ():
        if any(_is_of(part, output) for part in (word, *word.split(","))):
            raise click.UsageError(
                f"{str(output)!r} is the file of {word!r}, and would be replaced; name another output"
            )
    try:
        files.write(output, data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.UsageError(f"cannot write {str(output)!r}: {error.strerror}") from None


def _is_of(word: str, output: Path) -> bool:
    """Return whether a word names a file, or a checkpoint in several files of which it is one."""
    from lowprec.checkpoints.folder import open_checkpoint

    for end in (*(found.start() for found in re.finditer(":", word)), len(word)):
        path = Path(word[:end])
        with contextlib.suppress(OSError, ValueError):  # no path, or no checkpoint
            if path.is_file() and output.samefile(path):
                return True
            if (path.is_dir() and end) or path.suffix in (".onnx", ".json"):
                if open_checkpoint(path).has_file(output):
                    return True
    return False


def size_of(spelled: str | None) -> tuple[int, int, int]:
    """Return M, N and K of --size."""
    parts = [read_count(part.strip()) for part in (spelled or "").split(",")]
    if len(parts) != 3 or not all(parts):
        raise click.UsageError(
            f"matmul needs --size M,N,K, such as 16,8,32, not {spelled and spelled[:60]!r}"
        )
    return parts[0] or 0, parts[1] or 0, parts[2] or 0


def deliver_json(document: object) -> None:
    """Print plain data as JSON."""
    deliver(json.dumps(document, indent=1) + "\n")


def frameworks_named(names: tuple[str, ...]) -> list[Framework]:
    """Return the installed frameworks of these names, or all of them."""
    from lowprec.verify.frameworks import FRAMEWORKS

    check_known("framework", names, FRAMEWORKS)
    for name in names:
        if FRAMEWORKS[name].version is None:
            nothing_compared(f"{name} is not installed; {FRAMEWORKS[name].install}")
    chosen = []
    for framework in FRAMEWORKS.values():
        if framework.version is None or (names and framework.name not in names):
            continue
        try:
            framework.targets(), framework.others()
        except Exception as error:  # whatever a broken installation raises when it is imported
            reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
            say(f"left out: {framework.name} {framework.version} does not run: {reason[0]}", err=True)
        else:
            chosen.append(framework)
    return chosen


def load(path: Path) -> npt.NDArray[Any]:
    """Return values from an .npy file of one of the source types."""
    from lowprec.verify.dumps.files import open_npy
    from lowprec.verify.inputs.conversions import SOURCES

    with usage_errors():
        held = open_npy(path)
        values = held.read(0, held.size).reshape(held.shape)
    if held.unnamed or values.dtype not in SOURCES.values():
        raise click.UsageError(
            f"{str(path)!r} holds {values.dtype}; own data must be one of {', '.join(SOURCES)} "
            f"(np.save loses ml_dtypes types: save bfloat16 as float32)"
        )
    return values
