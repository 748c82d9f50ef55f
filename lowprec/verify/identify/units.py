"""Units to ask: functions, commands that read lines, and rows that were recorded."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import decode, encode
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.codes.display import hex_of, quoted
from lowprec.verify.codes.values import as_doubles, doubles, words_of
from lowprec.verify.identify.ports import Ports, Rows

__all__ = ["Ask", "UnitError", "command", "function", "lines_of", "parsed"]

Array = npt.NDArray[Any]

#: Asks a unit: the codes that it answers, int64, and whether its NaNs say no code.
Ask = Callable[[Rows], tuple[Array, bool]]

#: Seconds that a unit may take, at most.
LONGEST = 1_000_000

#: Characters that a command may print for a line of operands, and for a thousand more: comments and logs.
_MOST = 4096

#: Bits of the payload of a float64 in which NaNs keep their codes.
_KEPT = np.uint64((1 << 32) - 1)
_HEXADECIMAL = re.compile(r"(0[xX])?[0-9a-fA-F]+")


class UnitError(ValueError):
    """A unit that fails, hangs or answers what cannot be; nothing that it answered before is lost."""


def check_time(limit: float) -> None:
    """Refuse a limit that is no time to wait; of longer ones the system's clocks know no end."""
    if not isinstance(limit, int | float) or not 0 < limit <= LONGEST:
        raise ValueError(f"time_limit={limit!r} must be seconds, more than 0 and at most {LONGEST:,}")


# -- functions ---------------------------------------------------------------------------------------


def function(unit: Callable[..., Any], ports: Ports, time_limit: float, *, codes: bool = False) -> Ask:
    """Return what asks a function of arrays: unit(a, b), with an addend (a, b, c), with scales after these.

    Parameters
    ----------
    unit : callable
        Takes a and b, shape (rows, K), c, shape (rows,), and scales, shape (rows, blocks); returns the
        results, shape (rows,).
    ports : Ports
    time_limit : float
        Seconds that a call may take, at most a million.
    codes : bool
        Whether operands are codes. Otherwise they are values: float32 where that holds the format, else
        float64.
    """
    check_time(time_limit)

    def ask(rows: Rows) -> tuple[Array, bool]:
        given = [_given(values, fmt, codes) for values, fmt in zip(rows[:2], ports.operands, strict=True)]
        if ports.addend is not None:
            given.append(_given(rows.addend, ports.addend, codes))
        if ports.scale is not None:
            scales = (rows.x_scales.copy(), rows.y_scales.copy())
            given += scales if codes else (np.asarray(decode(part, ports.scale[0])) for part in scales)
        return _codes(_within(lambda: unit(*given), time_limit), len(rows.x), ports.output)

    return ask


def _given(values: Array, fmt: Format, codes: bool) -> Array:
    if codes:
        return _encoded(values, fmt)
    return values.astype(np.float32 if catalog.BINARY32.contains(fmt) else np.float64)


def _within(call: Callable[[], Any], time_limit: float) -> Any:
    """Return what a call returns, or fail where it raises or does not end in time."""
    answer: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(call())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(time_limit)
    if thread.is_alive():
        raise UnitError(f"the unit did not answer within {time_limit:g} s; give it longer with time_limit=")
    if raised:
        if isinstance(raised[0], KeyboardInterrupt):
            raise raised[0]
        raise UnitError(f"the unit raised {type(raised[0]).__name__}: {raised[0]}") from raised[0]
    return answer[0]


def _codes(answer: Any, count: int, fmt: Format) -> tuple[Array, bool]:
    """Return the codes of what a unit answered, and whether its NaNs say no code."""
    array = np.asarray(answer)
    if array.shape != (count,):
        raise UnitError(f"the unit answered shape {array.shape} to {count} rows of operands, not ({count},)")
    if array.dtype.kind in "iu":
        wrong = (array < 0) | (array.astype(np.int64) >> fmt.width != 0)
        if wrong.any():
            number = int(array[np.argmax(wrong)])
            raise UnitError(f"the unit answered {number}, which is no {fmt.width}-bit code of {fmt.name!r}")
        return array.astype(np.int64), False
    own = catalog.carrier(array.dtype) if array.dtype.kind in "fV" else None
    if own is None:
        raise UnitError(
            f"the unit answered {array.dtype}; answer codes of {fmt.name!r} as integers, or values as floats"
        )
    if own == fmt:
        return words_of(array).astype(np.int64), False
    values = doubles(array)
    made = np.asarray(_encoded(values, fmt))
    back = as_doubles(made, fmt)
    wrong = (back != values) & ~np.isnan(values)
    if wrong.any():
        raise UnitError(f"the unit answered {float(values[np.argmax(wrong)])!r}, no value of {fmt.name!r}")
    return made.astype(np.int64), True


def _encoded(values: Array, fmt: Format) -> Array:
    """Return codes of values; of NaNs those that `_decoded` keeps in them."""
    projection = Projection(nan="error" if fmt.has_nan else "max")
    codes = np.asarray(encode(values, fmt, projection=projection)).astype(code_dtype(fmt))
    kept = np.ascontiguousarray(values, np.float64).view(np.uint64) & _KEPT
    return np.where(np.isnan(values) & (kept > 0), kept, codes).astype(codes.dtype)


# -- lines -------------------------------------------------------------------------------------------


def lines_of(rows: Rows, ports: Ports, codes: Array | None = None) -> Iterator[str]:
    """Yield rows as lines: the codes of a, of b, the addend, scales of a and of b, and the result.

    They are hexadecimal, apart by blanks; what the ports lack is left out.
    """
    columns = [(_encoded(rows.x, ports.operands[0]), ports.operands[0])]
    columns.append((_encoded(rows.y, ports.operands[1]), ports.operands[1]))
    if ports.addend is not None:
        columns.append((_encoded(rows.addend, ports.addend)[:, None], ports.addend))
    if ports.scale is not None:
        columns += [(part, ports.scale[0]) for part in (rows.x_scales, rows.y_scales)]
    if codes is not None:
        columns.append((codes[:, None], ports.output))
    for row in range(len(rows.x)):
        yield " ".join(hex_of(int(code), fmt) for part, fmt in columns for code in part[row])


def parsed(lines: Iterable[str], ports: Ports, name: str = "line") -> tuple[Rows, Array]:
    """Return the rows and results of lines such as `lines_of` gives.

    Raises UnitError: a line that is no row; the message has its number. Empty lines and those that
    begin with # are passed over.
    """
    fields = [ports.operands[0]] * ports.length + [ports.operands[1]] * ports.length
    fields += [ports.addend] if ports.addend is not None else []
    fields += [] if ports.scale is None else [ports.scale[0]] * (2 * ports.blocks)
    fields.append(ports.output)
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != len(fields):
            raise UnitError(
                f"{name} {number} has {len(words)} words, but a row has {len(fields)}: {_said(ports)}"
            )
        found.append([_code(word, fmt, f"{name} {number}") for word, fmt in zip(words, fields, strict=True)])
    table = np.array(found, np.int64).reshape(-1, len(fields))
    places = np.cumsum(
        [ports.length, ports.length, int(ports.addend is not None), ports.blocks, ports.blocks]
    )
    x, y, addend, x_scales, y_scales, codes = np.split(table, places, axis=1)
    values = [_decoded(part, fmt) for part, fmt in zip((x, y), ports.operands, strict=True)]
    given = np.zeros(len(table)) if ports.addend is None else _decoded(addend[:, 0], ports.addend)
    dtype = np.uint8 if ports.scale is None else code_dtype(ports.scale[0])
    one, other = values
    return Rows(one, other, given, x_scales.astype(dtype), y_scales.astype(dtype)), codes[:, 0]


def _said(ports: Ports) -> str:
    parts = [f"{ports.length} codes of a", f"{ports.length} of b"]
    parts += ["the addend"] if ports.addend is not None else []
    parts += [f"{ports.blocks} scales of each"] if ports.scale is not None else []
    return ", ".join([*parts, "the result"])


def _decoded(codes: Array, fmt: Format) -> Array:
    """Return the values of codes, NaNs with their code as payload."""
    values = as_doubles(codes.astype(code_dtype(fmt)), fmt)
    words = np.ascontiguousarray(values).view(np.uint64)
    kept = np.where(np.isnan(values) & (codes != fmt.nan_code), words | codes.astype(np.uint64), words)
    return np.asarray(kept.view(np.float64))


def _code(word: str, fmt: Format, where: str) -> int:
    if not _HEXADECIMAL.fullmatch(word):
        raise UnitError(f"{where} holds {quoted(word)}, which is no hexadecimal number")
    code = int(word, 16)
    if code >> fmt.width:
        raise UnitError(f"{where} holds {quoted(word)}, which is no {fmt.width}-bit code of {fmt.name!r}")
    return code


def command(words: str, ports: Ports, time_limit: float) -> Ask:
    """Return what asks a command: it reads a line for each row on stdin and prints a result for each.

    It is started anew for every batch of rows, ends when its input ends, and prints hexadecimal codes; of
    a line with more words the last one counts.
    """
    check_time(time_limit)
    parts = shlex.split(words)

    def ask(rows: Rows) -> tuple[Array, bool]:
        sent = "".join(f"{line}\n" for line in lines_of(rows, ports)).encode()
        try:
            code, printed, complained = _run(parts, sent, _MOST * (len(rows.x) + 1000), time_limit)
        except subprocess.TimeoutExpired:
            raise UnitError(
                f"command {words!r} did not end within {time_limit:g} s of {len(rows.x)} lines; it must end "
                f"when its input ends, or needs a longer --time-limit"
            ) from None
        except OverflowError:
            raise UnitError(
                f"command {words!r} printed more than {_MOST:,} characters for a line of operands; it must "
                f"print a result for each, and end when its input ends"
            ) from None
        except OSError as error:
            raise UnitError(f"command {words!r} does not run: {error.strerror}") from None
        if code:
            why = complained.strip().splitlines()[-1:]
            raise UnitError(f"command {words!r} ended with code {code}{': ' if why else ''}{''.join(why)}")
        codes = [
            _code(line.split()[-1], ports.output, f"line {number} that command {words!r} printed")
            for number, line in enumerate(printed.splitlines(), 1)
            if line.strip() and not line.startswith("#")
        ]
        if len(codes) != len(rows.x):
            raise UnitError(
                f"command {words!r} printed {len(codes)} results for {len(rows.x)} lines of operands; the "
                f"first without one is line {min(len(codes), len(rows.x)) + 1}"
            )
        return np.array(codes, np.int64), False

    return ask


def _run(parts: list[str], sent: bytes, most: int, time_limit: float) -> tuple[int, str, str]:
    """Run a command on input; return its exit code, what it printed and what it printed as errors.

    Raises OSError: it does not run. OverflowError: it prints more than `most` characters.
    subprocess.TimeoutExpired: it does not end in time.
    """
    until, pipe = time.monotonic() + time_limit, subprocess.PIPE
    heard = bytearray(), bytearray()
    run = subprocess.Popen(parts, stdin=pipe, stdout=pipe, stderr=pipe)

    def send() -> None:
        with contextlib.suppress(OSError), cast("BinaryIO", run.stdin) as to:
            to.write(sent)

    def hear(of: BinaryIO, into: bytearray) -> None:
        with of:
            while len(into) <= most and (some := of.read(1 << 16)):
                into += some
        if len(into) > most:
            run.kill()

    threads = [threading.Thread(target=send, daemon=True)]
    threads += [
        threading.Thread(target=hear, args=each, daemon=True)
        for each in zip((run.stdout, run.stderr), heard, strict=True)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(until - time.monotonic(), 0))
        if max(map(len, heard)) > most:
            raise OverflowError
        if any(thread.is_alive() for thread in threads):
            raise subprocess.TimeoutExpired(parts, time_limit)
        code = run.wait(max(until - time.monotonic(), 0))
    finally:
        run.kill()
        run.wait()
    printed, complained = (part.decode("utf-8", "replace") for part in heard)
    return code, printed, complained
