"""Checkpoints: inspected, linted, decoded, quantised, converted."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lowprec.cli.arguments import AGREE, DIFFER, deliver_json, nothing_compared, refuse, usage_errors
from lowprec.cli.options import NEW, PLACE, flag, json_option, named, scheduler_option, seed_option, several
from lowprec.cli.terminal import say
from lowprec.spec.naming import plain

if TYPE_CHECKING:
    from lowprec.checkpoints.folder import Checkpoint

#: Reasons for which weights stay that are listed.
_REASONS = 8
_NAMES = "Shell patterns of names, such as '*.mlp.*'; may be given several times."
_source = click.argument("path", metavar="CHECKPOINT", type=PLACE)
_include = several("--include", metavar="PATTERN", help=f"Take only these weights. {_NAMES}")
_exclude = several("--exclude", metavar="PATTERN", help=f"Leave these as they are. {_NAMES}")
_output = click.option(
    *("-o", "--output"),
    required=True,
    type=NEW,
    help="A .safetensors, .gguf, .onnx or .pt file, or a folder that is not there yet.",
)


@click.group("checkpoint", short_help="Inspect, lint, decode, quantise and convert model files.")
def checkpoint() -> None:
    """Work on checkpoints: safetensors files, folders of them, GGUF and ONNX files, those of torch.save.

    CHECKPOINT is a .safetensors, .gguf, .onnx, .pt, .pth or .bin file, an index, or a folder.
    """


@checkpoint.command(short_help="Show which weights there are, and how they are stored.")
@_source
@flag("--all", "show_all", help="List every weight; by default one line for each scheme.")
@json_option()
def inspect(path: Path, show_all: bool, as_json: bool) -> None:
    """Show the schemes of a checkpoint's weights: elements, scales, blocks, bits for each parameter.

    Only headers are read.
    """
    import math

    from lowprec.checkpoints.inspecting import bytes_of, inspect as look

    found = _open(path)
    with usage_errors():
        summary = look(found)
    if as_json:
        deliver_json(summary.as_json())
        return
    if show_all:
        for weight in summary.weights:
            bits = 8 * bytes_of(weight) / max(math.prod(weight.shape), 1)
            kind = weight.scheme.name if weight.is_quantized else weight.codes.tag
            of = f"  {weight.element}, {weight.scale} per {weight.blocks}" if weight.is_quantized else ""
            shape = "x".join(map(str, weight.value_shape)) or "scalar"
            _line(f"{weight.name}  {shape}  {kind}{of}  {bits:.2f} bits")
            if weight.problem is not None:
                _line(f"    {weight.problem[1]}")
        say("")
    rows = [("scheme", "weights", "parameters", "bytes", "bits each")]
    for name, (count, parameters, size) in summary.schemes().items():
        rows.append(
            (name, f"{count:,}", f"{parameters:,}", f"{size:,}", f"{8 * size / max(parameters, 1):.3f}")
        )
    _table(rows)
    say(f"\n{summary.parameters:,} parameters in {summary.nbytes:,} bytes")
    problems = [weight for weight in summary.weights if weight.problem is not None]
    if problems and not show_all:
        say(f"{len(problems)} weights cannot be decoded: see `lowprec checkpoint lint`")
    if left := len(found.unread) + len(found.missing):
        say(f"tensors that are not read: {left}; see `lowprec checkpoint lint`")


@checkpoint.command(short_help="Find what is wrong with a checkpoint, and say what to do.")
@_source
@click.option("--against", type=PLACE, help="The checkpoint that it was made of.")
@json_option()
def lint(path: Path, against: Path | None, as_json: bool) -> None:
    """Find broken scales, shapes and configurations; each finding names tensor, evidence and remedy.

    Exit codes: 0 nothing but notes, 1 errors or warnings, 2 a file that cannot be read.
    """
    from lowprec.checkpoints.linting import lint as find
    from lowprec.cli.terminal import progress

    with usage_errors(), progress() as watch:
        findings = find(_open(path), None if against is None else _open(against), watch)
    if as_json:
        listed = [finding.__dict__ for finding in findings]
        deliver_json({"schema": "lowprec.checkpoint.lint/1", "findings": listed})
    else:
        for finding in findings:
            _line(f"{finding.severity}: {finding.tensor}: {finding.rule}")
            _line(f"    {finding.evidence}")
            _line(f"    remedy: {finding.remedy}")
        count = sum(finding.severity != "note" for finding in findings)
        say(f"{count or 'no'} finding{'' if count == 1 else 's'}")
    sys.exit(DIFFER if any(finding.severity != "note" for finding in findings) else AGREE)


@checkpoint.command(short_help="Write the values of quantised weights.")
@_source
@_output
@click.option("--dtype", default="F32", show_default=True, type=click.Choice(["F32", "BF16", "F16"]))
@_include
@_exclude
def dequantize(
    path: Path, output: Path, dtype: str, include: tuple[str, ...], exclude: tuple[str, ...]
) -> None:
    """Write a checkpoint with the values of quantised weights; other tensors are copied."""
    from lowprec.checkpoints.converting import dequantize_checkpoint
    from lowprec.cli.terminal import progress

    with usage_errors(), progress() as watch:
        names = dequantize_checkpoint(
            _open(path), output, dtype, include=include, exclude=exclude, watch=watch
        )
    say(f"{len(names)} weights decoded to {dtype} in {output}")


def _written(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of what is written."""
    for option in (
        json_option(),
        _exclude,
        _include,
        flag("--powers", help="deepseek: scales are powers of two (scale_fmt ue8m0)."),
        flag("--nested", help="bitsandbytes: quantise the scales too."),
        named(
            "--group",
            metavar="COLUMNS",
            type=int,
            help="compressed-tensors int4: 32, 64 or 128 columns of a scale.  [default: 128]",
        ),
        flag("--channel", help="compressed-tensors e4m3fn, int8, int4: a scale for each row."),
        named("--rule", help="Scale rule of blocks, such as rceil; default: the format's own."),
        click.option(
            "--scheme", default="compressed-tensors", show_default=True, help="Whose files these shall be."
        ),
        named("--to", required=True, metavar="FORMAT", help="For instance nvfp4, mxfp4, mxfp8_e4m3, e4m3fn."),
        _output,
        _source,
    ):
        command = option(command)
    return command


@checkpoint.command(short_help="Quantise the weights of a checkpoint.")
@_written
@click.option(
    "--statistics",
    metavar="PATH",
    type=PLACE,
    help="safetensors file of inputs: (samples, k) by the weight's name. Reports errors of outputs.",
)
@click.option(
    "--rounding",
    default="nearest_even",
    show_default=True,
    metavar="MODE",
    help="Of elements: a mode, or for instance 'stochastic(8)'.",
)
@seed_option("stochastic roundings")
@scheduler_option
@click.option("--correct", type=click.Choice(["gptq"]), help="Make up for errors on these inputs.")
def quantize(
    path: Path,
    output: Path,
    as_json: bool,
    statistics: Path | None,
    correct: str | None,
    scheduler: str | None,
    **asked: Any,
) -> None:
    """Quantise the weights of a checkpoint, and report the error of each.

    A run that was killed left nothing at OUTPUT; the same command goes on where it was. Without --include,
    floats of two axes and more are quantised, except for embeddings, norms, biases, routers and lm_head,
    and for convolutions where the scheme's software has linear layers alone; of an ONNX model not those that
    only other nodes than products, convolutions and recurrent layers take.
    """
    from lowprec.checkpoints.correcting import statistics_in
    from lowprec.checkpoints.quantizing import quantize_checkpoint

    if correct is not None and statistics is None:
        raise click.UsageError(f"--correct {correct} needs the inputs of layers; give --statistics")
    with usage_errors():
        inputs = None if statistics is None else statistics_in(statistics.absolute(), correct)
    run = functools.partial(quantize_checkpoint, statistics=inputs)
    if scheduler is None:
        _write(run, path, output, as_json, **asked)
        return
    from lowprec.verify.sweeps.cluster import cluster, in_order
    from lowprec.verify.sweeps.keeping import SweepError

    with usage_errors((ValueError, TypeError, OSError, SweepError)), cluster(scheduler) as workers:
        run = functools.partial(run, spread=functools.partial(in_order, workers))
        _write(run, path.absolute(), output.absolute(), as_json, **asked)


@checkpoint.command(short_help="Rewrite quantised weights in another scheme.")
@_written
def convert(path: Path, output: Path, as_json: bool, **asked: Any) -> None:
    """Rewrite quantised weights in another scheme, and count the blocks that stay exactly what they were."""
    from lowprec.checkpoints.converting import convert_checkpoint

    _write(convert_checkpoint, path, output, as_json, **asked)


def _write(
    run: Callable[..., Any],
    path: Path,
    output: Path,
    as_json: bool,
    *,
    scheme: str,
    to: str,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    **options: Any,
) -> None:
    from lowprec.checkpoints.quantizing import target
    from lowprec.cli.terminal import progress

    with usage_errors(), progress() as watch:
        wanted = target(scheme, to, **options)
        if not wanted.rounding.bits:
            refuse(f"is of stochastic roundings, and this is {wanted.rounding}", "seed")
        reports, kept = run(_open(path), output, wanted, include=include, exclude=exclude, watch=watch)
    if as_json:
        whole = {"schema": "lowprec.checkpoint.quantize/1", "weights": reports, "kept": kept}
        deliver_json(whole)
        return
    measured = any("output_sqnr" in report for report in reports.values())
    heads = ("outputs' SQNR", "of rounding alone") if measured else ()
    rows = [("weight", "SQNR", "worst block", "clipped", "exact blocks", *heads)]
    for name, report in reports.items():
        exact = f"{report['exact_blocks']:,} of {report['blocks']:,}" if report["blocks"] else "-"
        of = [_db(report.get(key)) for key in ("output_sqnr", "output_sqnr_of_rounding")[: len(heads)]]
        numbers = (_db(report["sqnr"]), _db(report["worst_block"]), f"{report['clipped']:.2%}", exact)
        rows.append((name, *numbers, *of))
    _table(rows)
    _notes(reports)
    say(
        f"\n{len(reports)} weights are now {wanted.scheme.name} in {output}; {len(kept)} tensors "
        f"stay as they were"
    )
    for why, count in Counter(kept.values()).most_common(_REASONS):
        _line(f"    {count:,}: {why}")
    if (others := len(set(kept.values())) - _REASONS) > 0:
        say(f"    others for {others:,} other reasons; --json has all")


def _notes(reports: Mapping[str, Mapping[str, Any]]) -> None:
    for name, report in reports.items():
        if "note" in report:
            _line(f"note: {name}: {report['note']}")


@checkpoint.command(short_help="Hold a quantised checkpoint against its source.")
@_source
@click.argument("source", type=PLACE)
@json_option()
def verify(path: Path, source: Path, as_json: bool) -> None:
    """Say which rule made the weights of CHECKPOINT of those of SOURCE, and what it cost.

    Exit codes: 0 a known rule makes each weight, or each code is the nearest for its scale; 1 some differ, or
    have values that become NaN or infinite in float32; 2 bad input; 3 no weight is in both.
    """
    from lowprec.checkpoints.verifying import verify_checkpoint
    from lowprec.cli.terminal import progress

    with usage_errors(), progress() as watch:
        verdicts = verify_checkpoint(_open(path), _open(source), watch)
    if as_json:
        listed = [{**verdict.__dict__, "holds": verdict.holds} for verdict in verdicts]
        deliver_json({"schema": "lowprec.checkpoint.verify/1", "weights": listed})
    else:
        rows = [("weight", "scheme", "rule", "codes not nearest", "SQNR", "worst block")]
        for verdict in verdicts:
            of = verdict.rule or verdict.nearest or "-"
            report = verdict.report
            row = (verdict.name, verdict.scheme, of, f"{verdict.codes_differ:,}")
            rows.append((*row, _db(report["sqnr"]), _db(report["worst_block"])))
        _table(rows)
        _notes({verdict.name: verdict.report for verdict in verdicts})
    if not verdicts:
        nothing_compared("no quantised weight has a source of its name")
    sys.exit(AGREE if all(verdict.holds for verdict in verdicts) else DIFFER)


def _open(path: Path) -> Checkpoint:
    from lowprec.checkpoints.folder import open_checkpoint

    with usage_errors():
        return open_checkpoint(path)


def _db(number: float | None) -> str:
    return "-" if number is None else f"{number:.2f} dB"


def _line(text: str) -> None:
    """Print one line: a line end in a tensor's name begins no other."""
    say(plain(text))


def _table(rows: Sequence[tuple[str, ...]]) -> None:
    rows = [tuple(map(plain, row)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *others = row
        cells = [
            first.ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)),
        ]
        say("  ".join(cells).rstrip())
