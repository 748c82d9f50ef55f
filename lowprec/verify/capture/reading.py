"""Read and check the files of captures, and give their questions to `compare` and `identify`."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec import __version__
from lowprec.arrays.checks import code_dtype, dtype
from lowprec.checkpoints.container import absent, parse_json
from lowprec.spec import catalog
from lowprec.spec.accumulations import accumulation
from lowprec.spec.epilogue import Epilogue, LibraryCall
from lowprec.spec.format import Format
from lowprec.spec.library_calls import library_call
from lowprec.spec.naming import close_names
from lowprec.spec.profiles import profile
from lowprec.spec.projection import Projection
from lowprec.verify.capture.script import MANIFEST, SCHEMA, digest
from lowprec.verify.codes.display import hex_of, quoted
from lowprec.verify.compare.compare import compare
from lowprec.verify.compare.report import Comparison
from lowprec.verify.dumps.files import DumpError, Held, npy_header
from lowprec.verify.identify.identify import ports_of
from lowprec.verify.identify.ports import Ports
from lowprec.verify.inputs.dot_shape import values_of

__all__ = ["Capture", "CapturedQuestion", "is_capture", "read_capture", "read_question", "shortened"]

Array = npt.NDArray[Any]

_SPELLED = re.compile(r"(.+\.npz)(?::(.*))?", re.DOTALL)
#: Bytes of all members, at most: `_MOST`, plus `_RATIO` times the file's; zeros can be packed a thousandfold.
_MOST, _RATIO = 1 << 26, 16
#: Bytes of a manifest, at most.
_LONGEST_MANIFEST = 1 << 22

#: Fields of an expectation, and their types.
_SAYS = {"when": list, "projection": dict} | dict.fromkeys(
    ("profile", "accumulation", "output", "ulps", "nan", "results"), str
)
#: Fields of an expectation that an operation does not have.
_NOT_OF = {"convert": ("accumulation", "output", "ulps"), "dot": ("profile", "projection")}

_AGAIN = "copy it again, or run the script again"
#: Errors that NumPy and zipfile raise for a damaged file.
_UNREADABLE = (ValueError, OSError, EOFError, RuntimeError, MemoryError, zlib.error)


@dataclass(frozen=True)
class CapturedQuestion:
    """Question of a capture: the operands that a machine was given, its answers, and the expected ones.

    Attributes
    ----------
    name, file : str
    operation : str
        "convert" or "dot".
    formats : tuple of Format
        Formats of the operands, then that of the results.
    operands : dict of arrays
        Codes: x of shape (n,), with the random words of a stochastic conversion as `random`; or x and y of
        shape (n, K), with the `addend` of shape (n,) if there is one.
    output : array
        Codes of the results, shape (n,); empty where the question was skipped.
    expects : dict or None
        What the script expected of this machine: `profile`, `projection` or `accumulation`, and more.
    skipped : str
        Why the machine was not asked; empty if it was.
    unread : str
        The format that this lowprec does not know, so that the arrays cannot be read; empty if it knows all.
    """

    name: str
    file: str
    operation: str
    formats: tuple[Format, ...]
    operands: Mapping[str, Array]
    output: Array
    expects: Mapping[str, Any] | None
    skipped: str = ""
    unread: str = ""

    def compare(self, **options: Any) -> Comparison:
        """Compare the answers with what is expected, or with what `options` of `lowprec.compare` say.

        Without an expectation, conversions are compared with plain rounding to nearest, and the accumulations
        of dot products are ranked.

        An accumulation in `options` replaces the expected budget too; `ulps=0` allows no difference.

        Raises ValueError: a question that was skipped, or of which this lowprec does not know a name.
        """
        if self.skipped:
            raise DumpError(f"{self.name} was skipped on that machine: {self.skipped}; there is no answer")
        self._check_read()
        said = dict(self.expects or {})
        if {"rounding", "saturation", "projection", "profile"} & {*options}:
            said = {key: value for key, value in said.items() if key not in ("profile", "projection")}
        if options.get("accumulation") is not None:  # a budget is for the accumulation that it came with
            said = {key: said[key] for key in said if key not in ("accumulation", "output", "ulps")}
        if why := _unknown(said):
            instead = "accumulation" if self.operation == "dot" else "profile"
            raise DumpError(
                f"{self.file}:{self.name} expects what this lowprec does not know: {why}. Read it with a "
                f"newer lowprec, or name another {instead} for this question"
            )
        if type(options.get("ulps")) is int and options["ulps"] == 0:
            options["ulps"] = None
        asked: dict[str, Any] = {"operation": self.operation, "any_nan": said.get("nan") == "any"}
        *sources, target = self.formats
        if self.operation == "convert":
            operands: Any = self._held("x")
            asked |= {"to": target, "source": sources[0]}
            asked |= {"profile": said["profile"]} if "profile" in said else {}
            asked |= {"projection": Projection(**said["projection"])} if "projection" in said else {}
            rounding = options.get("rounding") or said.get("projection", {}).get("rounding")
            if str(rounding).startswith("stochastic") and "random" in self.operands:
                asked["random"] = self._held("random")
        else:
            operands = tuple(self._held(name, fmt) for name, fmt in zip("xy", sources, strict=True))
            asked |= {"ulps": said.get("ulps"), "accumulation": self._accumulation(said)}
            asked |= {"addend": self._held("addend", target)} if "addend" in self.operands else {}
        results = self.output
        if self.operation == "dot" or "results" in said:  # typed as the target, or as the expectation says
            results = results.view(dtype(catalog.format(said.get("results", target))))
        return compare(operands, Held(results, f"{self.file}:{self.name}"), **(asked | options))

    def rows(self) -> tuple[Ports, list[str]]:
        """Return the dot products as `lowprec.identify` takes them: the ports, and lines for its `rows`.

        Raises ValueError: a conversion, or a question that was skipped, or of a format that is not known.
        """
        if self.skipped or self.operation != "dot":
            why = f"was skipped: {self.skipped}" if self.skipped else "is a conversion, not a dot product"
            raise DumpError(f"{self.name} {why}; there is no accumulation to identify")
        self._check_read()
        x, y, target = self.formats
        columns = [(self.operands["x"], x), (self.operands["y"], y)]
        if "addend" in self.operands:
            columns.append((self.operands["addend"][:, None], target))
        columns.append((self.output[:, None], target))
        ports = ports_of((x, y), target, columns[0][0].shape[1], target if len(columns) == 4 else None, None)
        return ports, [
            " ".join(hex_of(int(code), fmt) for part, fmt in columns for code in part[row])
            for row in range(len(self.output))
        ]

    def _check_read(self) -> None:
        if self.unread:
            raise DumpError(
                f"{self.file}:{self.name} has what this lowprec does not know: {self.unread}. Read it with a "
                f"newer lowprec"
            )

    def _held(self, name: str, fmt: Format | None = None) -> Held:
        """Return an array of operands: codes, or the values of a format's codes."""
        codes = self.operands[name]
        return Held(codes if fmt is None else values_of(codes, fmt), f"{self.file}:{self.name} {name}")

    def _accumulation(self, said: dict[str, Any]) -> Any:
        if "output" not in said:
            return said.get("accumulation")
        how = accumulation(said["accumulation"])
        output = Epilogue(output=(catalog.format(said["output"]), Projection()))
        return LibraryCall(name=f"{how.name}, then {said['output']}", accumulation=how, epilogue=output)


@dataclass(frozen=True)
class Capture:
    """A capture: a machine, and the questions that it was asked.

    >>> import lowprec as lp
    >>> capture = lp.read_capture("docs/examples/capture.npz")
    >>> capture.machine["torch"], capture["cast_e5m2_binary32"].compare().agrees
    ('2.13.0+cpu', True)

    Attributes
    ----------
    machine, script : dict
        Device, driver and versions of the machine; version and command of the lowprec that wrote the script.
    questions : dict of CapturedQuestion
        By name.
    """

    machine: Mapping[str, Any]
    script: Mapping[str, Any]
    questions: Mapping[str, CapturedQuestion]

    def __getitem__(self, name: str) -> CapturedQuestion:
        if name not in self.questions:
            near = close_names(name, self.questions)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {shortened(self.questions)}"
            raise DumpError(f"the capture has no question {name!r}; {hint}")
        return self.questions[name]


def shortened(names: Iterable[str]) -> str:
    """Return the first of some names, and how many more there are; "no questions" if there are none.

    >>> shortened("abcdef")
    'a, b, c, d and 2 more'
    """
    held = list(names) or ["no questions"]
    return ", ".join(held[:4]) + (f" and {len(held) - 4} more" if len(held) > 4 else "")


def is_capture(spelled: str) -> bool:
    """Return whether a word of the command line names a capture, or a question of one.

    >>> is_capture("capture.npz:matmul_binary32"), is_capture("x.npy")
    (True, False)
    """
    return _SPELLED.fullmatch(spelled) is not None


def read_question(spelled: str) -> CapturedQuestion:
    """Return the question that FILE.npz:NAME names.

    Raises ValueError: as `read_capture`; no name, or one that no question has.
    """
    match = _SPELLED.fullmatch(spelled)
    assert match is not None, "is_capture was asked first"
    capture = read_capture(match[1])
    if not match[2]:
        raise DumpError(
            f"name a question as {spelled.rstrip(':')}:NAME; it has {shortened(capture.questions)}"
        )
    return capture[match[2]]


def read_capture(path: str | Path) -> Capture:
    """Return what a script of `lowprec capture` wrote, after its hashes are checked.

    >>> import lowprec as lp
    >>> capture = lp.read_capture("docs/examples/capture.npz")
    >>> print(capture["matmul_binary32"].compare().sum())
    64 results pass: 64 exact, 0 within the budget of any order of summation

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    ValueError
        A file that is cut short or no capture, of a schema that this lowprec does not know, or with arrays
        that are missing, damaged or do not fit.

    Source
    ------
    docs/capture.md.
    """
    try:
        manifest, arrays = _members(Path(path))
        return _capture(str(path), manifest, arrays)
    except _Damaged as error:
        raise DumpError(f"cannot read {str(path)!r}: {error}") from None


class _Damaged(Exception):
    """Error raised for a damaged file; its message says what is wrong with the file."""


def _members(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the manifest and the arrays; raise `_Damaged` if a hash is wrong."""
    if not os.path.isfile(path):
        raise DumpError(absent(path))
    most = _MOST + _RATIO * path.stat().st_size
    try:
        with zipfile.ZipFile(path) as held:
            sizes = {info.filename: info.file_size for info in held.infolist()}
            for info in held.infolist():  # other methods unpack a member whole, whatever its size
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise _Damaged(
                        f"{quoted(info.filename)} is packed by method {info.compress_type}, and scripts of "
                        f"`lowprec capture` pack by 0 or 8; {_AGAIN}"
                    )
            if MANIFEST not in sizes:
                raise _Damaged(f"it has no {MANIFEST}, so no script of `lowprec capture` wrote it")
            if sizes[MANIFEST] > _LONGEST_MANIFEST or sum(sizes.values()) > most:
                raise _Damaged(
                    f"it is said to have {sum(sizes.values()):,} bytes, {sizes[MANIFEST]:,} of them in "
                    f"{MANIFEST}; at most {most:,} and {_LONGEST_MANIFEST:,} are read"
                )
            with held.open(MANIFEST) as file:  # read() would unpack all, whatever its size
                manifest = parse_json(file.read(sizes[MANIFEST]), MANIFEST)
            _check_schema(manifest)
            arrays = {name.removesuffix(".npy"): _array(held, name) for name in sizes if name != MANIFEST}
    except zipfile.BadZipFile as error:
        raise _Damaged(f"it is no whole .npz file ({error}); {_AGAIN}") from None
    except PermissionError as error:
        raise _Damaged(error.strerror) from None
    except _UNREADABLE as error:
        raise _Damaged(f"{error}; {_AGAIN}") from None
    for name, array in arrays.items():
        wanted, found = manifest["arrays"].get(name), digest(array)
        if found != wanted:
            said = "names none" if wanted is None else f"says {str(wanted)[:12]}..."
            raise _Damaged(
                f"the array {quoted(name)} has the SHA-256 {found[:12]}..., but {MANIFEST} {said}: it was "
                f"damaged or changed; {_AGAIN}"
            )
    return manifest, arrays


def _array(held: zipfile.ZipFile, name: str) -> Array:
    """Return an array; its header must state as many bytes as the file has."""
    with held.open(name) as file:
        dtype, shape, fortran = npy_header(file)
        have, need = held.getinfo(name).file_size - file.tell(), math.prod(shape) * dtype.itemsize
        if have != need:
            raise ValueError(
                f"the array {quoted(name)} has {have:,} bytes of data, and its header says {need:,}"
            )
        return np.frombuffer(bytearray(file.read(need)), dtype).reshape(shape, order="F" if fortran else "C")


def _check_schema(manifest: Any) -> None:
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if schema != SCHEMA:
        raise _Damaged(
            f"its schema is {quoted(schema)}, and lowprec {__version__} reads {SCHEMA!r}; read it with the "
            f"lowprec that wrote its script"
        )
    parts = {"machine": dict, "script": dict, "questions": list, "arrays": dict}
    for name, kind in parts.items():
        if not isinstance(manifest.get(name), kind):
            raise _Damaged(f"{MANIFEST} has no {name}, or not as a {kind.__name__}; {_AGAIN}")


def _capture(file: str, manifest: dict[str, Any], arrays: dict[str, Array]) -> Capture:
    questions = {}
    # Cached, as questions may share an array.
    largest_in = functools.cache(lambda name: int(arrays[name].max(initial=0)))
    for said in manifest["questions"]:
        try:
            question = _question(file, said, arrays, largest_in)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            name = said.get("name") if isinstance(said, dict) else said
            why = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise _Damaged(f"question {quoted(name)} of {MANIFEST} has {why}; {_AGAIN}") from None
        if question.name in questions:
            raise _Damaged(f"{MANIFEST} has the question {question.name!r} twice; {_AGAIN}")
        questions[question.name] = question
    frozen = (MappingProxyType(each) for each in (manifest["machine"], manifest["script"], questions))
    return Capture(*frozen)


def _question(
    file: str, said: dict[str, Any], arrays: dict[str, Array], largest_in: Callable[[str], int]
) -> CapturedQuestion:
    name, operation, expects = said["name"], said["operation"], said["expects"]
    if not re.fullmatch(r"\w+", name, re.ASCII):
        raise ValueError("a name that is no word")
    spelled = [*said["from"], said["to"]]
    wanted = {"convert": 2, "dot": 3}
    if operation not in wanted or len(spelled) != wanted[operation]:
        raise ValueError(f"the operation {quoted(operation)} with {len(spelled)} formats, which is not read")
    if expects is not None and not isinstance(expects, dict):
        raise ValueError(f"an expectation that is no object, but {quoted(expects)}")
    for field, value in (expects or {}).items():
        if not isinstance(value, _SAYS.get(field, ())):
            raise ValueError(f"an expectation {quoted(field)} that is not read here: {quoted(value)}")
    with contextlib.suppress(ValueError):  # of names that this lowprec does not know, which `compare` refuses
        Projection(**(expects or {}).get("projection", {}))
    for field in _NOT_OF[operation]:
        if field in (expects or {}):
            raise ValueError(f"an expectation {quoted(field)}, which a {operation} is not held against")
    if expects and "output" in expects and "accumulation" not in expects:
        raise ValueError("an expectation 'output' without the 'accumulation' before it")
    unread, empty = _unknown_format([*spelled, *_results(expects)]), np.empty(0, np.uint8)
    if "output" not in said or unread:
        why = "" if "output" in said else said["skipped"]
        why = why if "output" in said or (isinstance(why, str) and why.strip()) else "no reason is given"
        formats = () if unread else tuple(map(catalog.format, spelled))
        return CapturedQuestion(name, file, operation, formats, {}, empty, expects, why, unread)
    formats = tuple(map(catalog.format, spelled))
    names = {**said["operands"], "output": said["output"]}
    for operand, array in names.items():
        if array not in arrays:
            raise ValueError(f"the {operand} {quoted(array)}, which the file lacks")
    held = {operand: arrays[array] for operand, array in names.items()}
    for operand, shape, fmt in _fitting(operation, formats, held, expects or {}):
        found = held[operand]
        if found.shape != shape or found.dtype != (np.uint32 if fmt is None else code_dtype(fmt)):
            raise ValueError(f"the {operand} of {found.dtype} and shape {found.shape}, which do not fit")
        if fmt is not None and (largest := largest_in(names[operand])) >> fmt.width:
            raise ValueError(f"the {operand} with {largest:#x}, no {fmt.width}-bit code of {fmt.name!r}")
    output = held.pop("output")
    return CapturedQuestion(name, file, operation, formats, held, output, expects)


def _results(expects: dict[str, Any] | None) -> list[str]:
    """Return the format in which results are stored, if the expectation says one."""
    return [expects["results"]] if expects and "results" in expects else []


def _unknown_format(names: list[Any]) -> str:
    """Return the error of the first of these formats that is not known, or ""."""
    try:
        for name in names:
            catalog.format(name)
    except ValueError as error:
        return str(error)
    return ""


def _unknown(expects: dict[str, Any]) -> str:
    """Return the error of the first name of an expectation that is not known, or ""."""
    try:
        if "profile" in expects:
            profile(expects["profile"])
        if "accumulation" in expects and library_call(expects["accumulation"]) is None:
            accumulation(expects["accumulation"])
        Projection(**expects.get("projection", {}))
    except ValueError as error:
        return str(error)
    return _unknown_format([expects["output"]] if "output" in expects else [])


def _fitting(
    operation: str, formats: tuple[Format, ...], held: dict[str, Array], expects: dict[str, Any]
) -> Iterator[tuple[str, tuple[int, ...], Format | None]]:
    """Yield each array's name, required shape, and format of codes; None for random words."""
    *sources, target = formats
    shape, count = held["x"].shape, held["x"].shape[:1]
    if len(shape) != len(sources):
        raise ValueError(f"an x of {len(shape)} dimensions, not {len(sources)}")
    yield "output", count, catalog.format(expects["results"]) if "results" in expects else target
    if operation == "convert":
        yield "x", shape, sources[0]
        if "random" in held:
            yield "random", held["random"].shape[:1], None
        return
    yield "x", shape, sources[0]
    yield "y", shape, sources[1]
    if "addend" in held:
        yield "addend", count, target
