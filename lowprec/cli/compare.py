"""Outputs held against the reference."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from lowprec.cli import completing, definitions
from lowprec.cli.arguments import (
    AGREE,
    DIFFER,
    NOTHING,
    accumulation_named,
    block_named,
    blocks_asked,
    deliver,
    format_named,
    nothing_compared,
    operation_formats,
    product_named,
    profile_named,
    project,
    refuse,
    size_of,
    target_named,
    usage_errors,
)
from lowprec.cli.capture import compare_capture, compare_question
from lowprec.cli.options import (
    OPERATIONS_HELP,
    OUTPUT,
    baseline_option,
    define_option,
    flag,
    json_option,
    junit_option,
    named,
    nan_option,
    projection_options,
    scheduler_option,
    subnormals_option,
)
from lowprec.cli.terminal import progress, say
from lowprec.spec.number_text import read_count

if TYPE_CHECKING:
    from lowprec.verify.compare.report import Comparison

#: Options that say how results are rounded.
_RULES = ("rounding", "saturation", "subnormals")
#: Mismatches that are told in full: in text, and in reports.
_SHOWN, _REPORTED = 5, 20


@click.command(
    short_help="Compare results with what they must be, and find the cause.", epilog=OPERATIONS_HELP
)
@click.argument("words", metavar="INPUT... OUTPUT", nargs=-1, required=True, shell_complete=completing.paths)
@named(
    "--to",
    of=completing.targets,
    metavar="FORMAT",
    help="Format or block format of the results, by name or in a .toml file. Default: rank all formats.",
)
@named(
    "--from",
    "sources",
    of=completing.operands,
    metavar="FORMAT,...",
    help="Formats of operands that are codes: one for all operands, or one for each. Default: the types "
    "of the files.",
)
@named(
    "--operation",
    of=completing.operations,
    help="Operation that gave the results: one of those listed below, dot or matmul. Default: convert.",
)
@named(
    "--accumulation",
    of=completing.accumulations,
    help="Accumulation of dot or matmul, by name or in a .toml file, or a library's call such as "
    "'ada_cublaslt_fp8(fast=false)'. Default: rank all accumulations.",
)
@named(
    "--addend",
    metavar="FILE|none",
    help="File of the addend of dot or matmul. Default: no addend. Of lines of dot, none: a dot unit without "
    "an addend. Default: one in the format of the sum.",
)
@named("--bias", metavar="FILE", help="File of the bias of dot or matmul. Default: no bias.")
@named(
    "--output-scale",
    metavar="NUMBER|FILE",
    help="Factor of the results of dot or matmul, after the bias: one number, or a file. Default: none.",
)
@named(
    "--block",
    type=click.IntRange(1),
    metavar="N",
    help="Elements along an axis that share a scale of --scale, where the last block is shorter; along K "
    "needed for scales of blocks, but for MX instructions.",
)
@named("--size", metavar="M,N,K", help="Rows of x, columns of y and products of lines of matmul.")
@click.option(
    "--length",
    type=click.IntRange(1),
    metavar="K",
    help="Products of each line of dot. Default: as the first has.",
)
@named("--scales", metavar="FILE", help="File of the scales' codes, for results in a block format.")
@named(
    "--axis",
    type=int,
    metavar="N",
    help="Axis along which the blocks of a block format lie. Default: the last.",
)
@named(
    "--tensor-scale",
    type=float,
    metavar="NUMBER",
    help="Scale of the whole tensor, for block formats that have one. Default: computed from the values.",
)
@named(
    "--scale",
    metavar="NUMBER|FILE",
    help="Factor that turns codes into values: one number, or a file with one for each place along "
    "--axis or for each block. Of dot and matmul also two, for x and for y, with a comma between.",
)
@named(
    "--ulps",
    metavar="N|auto",
    help="Codes that results may lie from the right ones and still pass. auto, for dot and matmul: what any "
    "order of summation by the accumulation can give, for each output. Default: none.",
)
@named(
    "--flags",
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    help="Compare exception flags too: those of this file; or, without a file, at the end of each line.",
)
@named(
    "--random",
    metavar="FILE",
    help="File of the random integers that a stochastic --rounding took, such as 'stochastic(16, ptx_rs)'.",
)
@named(
    "--rule",
    of=completing.rules,
    help="Scale rule, such as floor or rceil. Default: the block format's own.",
)
@named(
    "--profile",
    of=completing.profiles,
    help="Judge by this profile, or that in a .toml file, instead of --rounding and --saturation.",
)
@define_option
@projection_options
@subnormals_option
@nan_option
@flag(
    "--all",
    "everything",
    help="Tell every result that differs in full, not only the first: 5 in text, 20 in JSON, JUnit and HTML.",
)
@scheduler_option
@flag("--no-why", help="Do not look for the cause of differences.")
@json_option(" (schema: tables/schema/compare.schema.json)")
@baseline_option(
    "Accept what differs as in this earlier report, which --json wrote; exit 1 for more or other mismatches "
    "only."
)
@junit_option
@click.option("--html", type=OUTPUT, help="Also write an HTML page with plots to this file.")
def compare(
    words: tuple[str, ...],
    as_json: bool,
    baseline: Path | None,
    junit: Path | None,
    html: Path | None,
    nan: str | None,
    everything: bool,
    no_why: bool,
    scheduler: str | None,
    **asked: Any,
) -> None:
    """Compare results with what they must be, and say what explains the differences.

    \b
    lowprec compare input.npy output.npy --to e4m3fn
    lowprec compare x.bin:float32 codes.hex --to e4m3fn --saturation finite
    lowprec compare model.safetensors:w out.npy                (what are these?)
    lowprec compare w.npy codes.npy --to mxfp4 --scales scales.npy
    lowprec compare x.npy y.npy out.npy --operation add --to e4m3fn
    lowprec compare x.npy y.npy out.npy --operation matmul     (which accumulation?)
    lowprec compare x.npy y.npy out.npy --operation matmul --accumulation fp32_fma --ulps auto
    lowprec compare x.npy codes.npy --to e4m3fn --scale 0.0125 --flags flags.npy

    A capture (see `lowprec capture --help`) says itself what its results must be; options replace that:

    \b
    lowprec compare capture.npz                                (all questions, a row for each)
    lowprec compare capture.npz:matmul_binary32                (one of them, in full)

    Files are .npy, .safetensors:TENSOR (or .gguf, .onnx, .pt; quantised weights with their scales),
    hexadecimal text (.hex, .txt, .mem), or raw as FILE:TYPE:SHAPE, for instance dump.bin:uint8:64,128;
    FILE:packed is codes of 4 or 6 bits without gaps. They may be larger than memory.

    The second form reads lines of operands and result, which a program printed after it read the operands of
    `lowprec vectors --operands`. Its arguments are a file or - for the standard input, and those of `lowprec
    vectors`:

    \b
    lowprec compare - add e4m3fn e4m3fn e4m3fn
    lowprec compare - dot mine.toml
    lowprec compare - matmul mine.toml --size 16,8,32
    lowprec compare - block bfloat16 mxfp4 --rule rceil
    lowprec compare - block mxfp4 bfloat16                     (from blocks)
    lowprec compare - add e4m3fn e4m3fn e4m3fn --flags         (flags at the end of each line)

    Exit codes: 0 all agree or lie within --ulps, 1 some differ, 2 bad input or usage, 3 nothing was compared.
    """  # noqa: D301
    from lowprec.verify.capture.reading import is_capture
    from lowprec.verify.conform.baseline import read_baseline
    from lowprec.verify.reference.operations import OPERATIONS
    from lowprec.verify.sweeps.keeping import SweepError

    if html and junit and html.resolve() == junit.resolve():
        raise click.UsageError(f"--html and --junit both name {str(html)!r}; give each a file of its own")
    captured = len(words) == 1 and is_capture(words[0])
    if captured:
        definitions.check_named()
    if captured and scheduler is not None:
        raise click.UsageError("--scheduler is for files of arrays, which workers can read too")
    options: dict[str, Any] = {
        "limit": None if everything else _REPORTED,
        "why": not no_why,
    }
    of_capture: dict[str, Any] = {} if nan is None else {"any_nan": nan == "any"}
    with usage_errors((ValueError, TypeError, OSError, ImportError, SweepError)):
        accepted = None if baseline is None else read_baseline(baseline, "compare")
        with progress() as watch:
            # The second word is an operation, or was meant as one: it is no file's name.
            plain = len(words) > 1 and not set(".:/") & set(words[1]) and not Path(words[1]).exists()
            if captured and words[0].endswith(".npz"):
                if html or baseline:
                    raise click.UsageError(
                        f"--html and --baseline are about one question: name it as {words[0]}:NAME"
                    )
                options |= of_capture | {"junit": junit}
                sys.exit(compare_capture(words[0], asked, as_json=as_json, watch=watch, **options))
            if captured:
                asked["ulps"] = _ulps(asked["ulps"])
                report = compare_question(words[0], asked, watch=watch, **options, **of_capture)
            elif len(words) > 2 and (words[0] == "-" or words[1] in OPERATIONS or plain):
                if scheduler is not None:
                    raise click.UsageError("--scheduler is for files of arrays, which workers can read too")
                report = _lines(words, asked, any_nan=nan == "any", watch=watch, **options)
            else:
                options |= {"any_nan": nan == "any", "scheduler": scheduler}
                report = _files(words, asked, watch=watch, **options)
        worse = [] if accepted is None else accepted.judge(report)
        excused = accepted is not None and bool(report.compared) and not worse
        made = [(html, report.as_html().encode())] if html else []
        if junit:
            made.append((junit, report.as_junit(excused=excused, worse=worse).encode()))
    if as_json:
        deliver(report.as_json() + "\n")
    else:
        say(report.as_text(shown=None if everything else _SHOWN))
        for line in worse:
            say(f"worse than the baseline: {line}")
        if accepted is not None and report.mismatches and not worse:
            say(f"no worse than the baseline {accepted.path}")
    kept = [*words, *(value for value in asked.values() if isinstance(value, str)), str(baseline or "")]
    for path, content in made:
        deliver(content, path, of=kept)
        kept.append(str(path))
    sys.exit(NOTHING if not report.compared else AGREE if report.agrees or excused else DIFFER)


def _lines(words: tuple[str, ...], asked: dict[str, Any], **options: Any) -> Comparison:
    from lowprec.verify.compare.line_rows import NoLines
    from lowprec.verify.compare.lines import compare_lines

    path, operation, *names = words
    refuse(
        "is for files of arrays, and lines name the operation, and their formats behind it",
        *("to", "sources", "operation", "accumulation", "bias", "output_scale", "block", "scales"),
        *("axis", "tensor_scale", "scale", "random"),
    )
    if asked["flags"]:
        raise click.UsageError(
            f"lines have their flags in them, and --flags takes no file: put it last, not before "
            f"{asked['flags']!r}"
        )
    if asked["addend"] is not None and (operation != "dot" or asked["addend"] != "none"):
        raise click.UsageError(
            f"--addend of lines is none, of a dot unit without one, not {asked['addend']!r} of {operation}; "
            f"leave it out"
        )
    if operation in ("dot", "matmul", "block"):
        try:
            return _unit_lines(path, operation, names, asked, **options)
        except NoLines as error:
            nothing_compared(str(error))
    refuse(f"says nothing about lines of {operation}", "rule", "size", "length")
    operation = "convert" if operation == "cast" else operation
    formats = operation_formats(operation, tuple(names))
    if asked["profile"] is not None:
        projection = profile_named(asked["profile"]).projection(formats[-1])
        _refuse_beside_profile(asked)
    else:
        projection = project(asked["rounding"], asked["saturation"], asked["subnormals"], stochastic=True)
    options |= {"flags": asked["flags"] is not None, "ulps": _ulps(asked["ulps"])}
    with _opened(path) as lines:
        return compare_lines(lines, operation, formats, projection, **options)


def _opened(path: str) -> IO[Any]:
    try:
        return click.open_file(path, encoding="utf-8", errors="replace")
    except OSError as error:
        raise click.UsageError(f"cannot read {path!r}: {error.strerror}") from None


def _unit_lines(
    path: str, operation: str, names: list[str], asked: dict[str, Any], **options: Any
) -> Comparison:
    """Compare lines of a dot unit or a block converter, as `lowprec vectors` names what it does."""
    from lowprec.spec.block import BlockFormat
    from lowprec.verify.compare.block_lines import compare_block_lines, compare_decoder_lines
    from lowprec.verify.compare.lines import compare_dot_lines

    if asked["flags"] is not None and operation != "dot":
        raise click.UsageError(f"lines of {operation} have no flags; leave --flags out")
    options |= {"ulps": _ulps(asked["ulps"])}
    plain = all(asked[name] is None for name in _RULES)
    if (asked["size"] is not None) != (operation == "matmul"):
        raise click.UsageError("--size M,N,K is of lines of matmul, which need it")
    if asked["length"] is not None and operation != "dot":
        length = f"--length {asked['length']}"
        raise click.UsageError(f"{length} is of lines of dot, not of {operation}; leave it out")
    if operation in ("dot", "matmul"):
        if len(names) not in (1, 3) or not plain or asked["profile"] is not None or asked["rule"] is not None:
            raise click.UsageError(
                f"lines of {operation} take ACCUMULATION [FORMAT FORMAT], which says how sums are rounded, "
                f"and no more"
            )
        how = accumulation_named(names[0])
        pair = [*map(format_named, names[1:])]
        definitions.check_named()
        with _opened(path) as lines:
            given = (pair[0], pair[1]) if pair else None
            options |= {
                "size": None if operation == "dot" else size_of(asked["size"]),
                "length": asked["length"],
                "flags": asked["flags"] is not None,
                "added": asked["addend"] is None,
            }
            return compare_dot_lines(lines, how, given, **options)
    if len(names) != 2:
        raise click.UsageError("lines of block take FORMAT BLOCK_FORMAT, or them the other way round")
    first = target_named(names[0])
    if isinstance(first, BlockFormat):
        refuse("says nothing about decoding blocks", "rule", "profile", *_RULES)
        target = format_named(names[1])
        definitions.check_named()
        with _opened(path) as lines:
            return compare_decoder_lines(lines, first, target, **options)
    fmt = blocks_asked(block_named(names[1]), asked)
    definitions.check_named()
    with _opened(path) as lines:
        return compare_block_lines(lines, first, fmt, **options)


def _refuse_beside_profile(asked: dict[str, Any]) -> None:
    if any(asked[name] is not None for name in _RULES):
        raise click.UsageError(
            "--profile and --rounding, --saturation or --subnormals all say how to convert; give one of them"
        )


def _ulps(spelled: str | None) -> Any:
    """Return a number of codes, or "auto"."""
    if spelled is None or spelled == "auto":
        return spelled
    if (ulps := read_count(spelled)) is None:
        raise click.UsageError(f"--ulps takes a number of codes, or auto, not {spelled[:60]!r}")
    return ulps


def _scale(spelled: str | None, operation: str) -> Any:
    """Return a number, the name of a file, or a pair of them."""
    from lowprec.verify.compare.compare import DOTS

    if spelled is None:
        return None
    read = [_number(part) for part in (spelled.split(",") if operation in DOTS else [spelled])]
    if len(read) > 2:
        raise click.UsageError(f"--scale takes one factor, or two for x and y, not {len(read)}")
    return read[0] if len(read) == 1 else tuple(read)


def _number(spelled: str | None) -> Any:
    """Return a number, or the name of a file."""
    try:
        return None if spelled is None else float(spelled)
    except ValueError:
        return spelled


def _files(words: tuple[str, ...], asked: dict[str, Any], **options: Any) -> Comparison:
    from lowprec.spec.block import BlockFormat
    from lowprec.verify.compare.compare import compare as compare_arrays

    refuse("is of lines, which a program printed, and files have shapes", "size", "length")
    if len(words) < 2:
        raise click.UsageError(
            "give the INPUT and the OUTPUT: two files, or more for an operation; or one capture, a .npz file"
        )
    target: Any = None if asked["to"] is None else target_named(asked["to"])
    if asked["subnormals"] is not None and target is None:
        raise click.UsageError("--subnormals is of the format of results: name it, --to")
    sources = None if asked["sources"] is None else asked["sources"].split(",")
    if sources is not None and len(sources) not in (1, len(words) - 1):
        raise click.UsageError(f"--from names {len(sources)} formats for {len(words) - 1} operands")
    known = [
        None if sources is None else format_named(sources[min(i, len(sources) - 1)], operand=True)
        for i in range(len(words) - 1)
    ]
    definitions.check_named()
    operation = asked["operation"] or "convert"
    how = {name: asked[name] for name in ("rounding", "saturation", "rule") if asked[name] is not None}
    if asked["profile"] is not None:
        _refuse_beside_profile(asked)
        how["profile"] = profile_named(asked["profile"])
    rules = [asked[name] for name in _RULES]
    projection = project(*rules, stochastic=asked["random"] is not None)
    if asked["subnormals"] is not None and isinstance(target, BlockFormat):
        target, how = blocks_asked(target, asked), {}
    elif asked["subnormals"] is not None:
        how = {**how, "projection": projection, "rounding": None, "saturation": None}
    return compare_arrays(
        words[:-1] if operation != "convert" else _only(words[:-1]),
        words[-1],
        target,
        operation=operation,
        source=known if sources is not None else None,
        accumulation=None if asked["accumulation"] is None else product_named(asked["accumulation"]),
        addend=asked["addend"],
        bias=asked["bias"],
        output_scale=_number(asked["output_scale"]),
        block=asked["block"],
        scales=asked["scales"],
        axis=asked["axis"],
        tensor_scale=asked["tensor_scale"],
        scale=_scale(asked["scale"], operation),
        flags=_flags(asked["flags"]),
        random=asked["random"],
        ulps=_ulps(asked["ulps"]),
        **how,
        **options,
    )


def _flags(spelled: str | None) -> Any:
    if spelled == "":
        raise click.UsageError(
            "--flags needs a file with the flags of the results, such as --flags flags.npy"
        )
    return spelled


def _only(operands: tuple[str, ...]) -> str:
    if len(operands) != 1:
        raise click.UsageError(
            f"a conversion has one INPUT and one OUTPUT, not {len(operands) + 1} files; name the --operation "
            "of several"
        )
    return operands[0]
