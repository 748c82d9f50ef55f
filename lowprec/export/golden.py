"""Golden data: the files under tables/ that the project publishes, and the check that they are right.

The oracle generates them, the kernels verify them, and `lowprec golden --check` compares them byte
for byte. Nothing here touches tables/published, which holds what others published.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import struct
import tarfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lowprec import __version__, files
from lowprec.arrays.checks import Array
from lowprec.arrays.convert import decode, encode
from lowprec.checkpoints.container import absent
from lowprec.export import cards
from lowprec.export.accumulation_cards import accumulation_tables
from lowprec.export.block_cards import block_tables
from lowprec.export.evidence_page import evidence_page
from lowprec.export.markdown import head, row
from lowprec.export.tables import Table
from lowprec.export.tabulate import provenance
from lowprec.export.vectors import suite
from lowprec.oracle import convert as oracle
from lowprec.oracle.exact import to_float
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.number_text import read_integer
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import MODES
from lowprec.verify.codes.display import number, quoted
from lowprec.verify.inputs import conversions

_SCHEMA = "lowprec.digests/1"


#: Formats whose values are published code by code.
TABULATED = (*(fmt for fmt in catalog.FORMATS.values() if fmt.width <= 8), *catalog.P3109_UP_TO_8)

#: Targets, roundings and saturations of the published vectors, from binary32.
VECTORS = tuple(
    (target, rounding, saturation)
    for target, rounding, saturation in (
        *(("e4m3fn", mode.name, "none") for mode in MODES),
        ("e4m3fn", "nearest_even", "finite"),
        ("e5m2", "nearest_even", "none"),
        ("e5m2", "nearest_even", "finite"),
        *(
            (name, "nearest_even", "none")
            for name in ("e4m3fnuz", "e5m2fnuz", "e8m0fnu", "int8f6", "binary8p3se")
        ),
        *((name, "nearest_even", "finite") for name in ("e2m3fn", "e3m2fn", "e2m1fn", "ue4m3")),
    )
)

#: Random operands of each of them.
_SAMPLES = 256


class Disagreement(AssertionError):
    """The oracle and the kernels differ: no golden file can be made."""


class Refused(ValueError):
    """A folder that golden data cannot be written to, or not read from."""


def tables_folder() -> Path | None:
    """Return the tables/ of the checkout that this code runs in; None of an installed package."""
    checkout = Path(__file__).parents[2]
    tables = checkout / "tables"
    return tables if (checkout / "pyproject.toml").is_file() and (tables / "published").is_dir() else None


def read_digests(folder: Path) -> dict[str, Any]:
    """Return digests.json of a folder.

    Raises
    ------
    Refused
        It is none.
    """
    path = folder / "digests.json"
    if not os.path.isfile(path):
        raise Refused(absent(path))
    try:
        document = json.loads(path.read_text(), parse_int=read_integer)
    except (OSError, ValueError, RecursionError) as error:
        raise Refused(f"cannot read {str(path)!r}: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        raise Refused(f"{str(path)!r} is no file of `lowprec golden`: its schema is not {_SCHEMA!r}")
    if not isinstance(document.get("files", {}), dict):
        raise Refused(
            f"{str(path)!r} is no file of `lowprec golden`: its files are no list of names and digests"
        )
    sweeps = document.get("sweeps", {})
    if not isinstance(sweeps, dict) or not all(
        isinstance(rules, dict)
        and all(isinstance(found, dict) and "sha256" in found for found in rules.values())
        for rules in sweeps.values()
    ):
        raise Refused(f"{str(path)!r} is no file of `lowprec golden`: its sweeps have no digests")
    return document


def generate(watch: Callable[[int, int, str], None] | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield the path below tables/ and the bytes of golden files; digests.json is last, without its sweeps.

    Raises
    ------
    Disagreement
        A kernel gives something else than the oracle.
    """
    listed = {}
    for name, content in _listed():
        listed[name] = hashlib.sha256(content).hexdigest()
        yield name, content
    document = {
        "$schema": "schema/digests.schema.json",
        "schema": _SCHEMA,
        "made_by": provenance("lowprec golden --write"),
        "files": dict(sorted(listed.items())),
        **_digests(watch),
    }
    yield "digests.json", _as_json(document)


def _listed() -> Iterator[tuple[str, bytes]]:
    """Yield the files that digests.json lists."""
    yield "formats.json", _formats_json()
    yield "formats.md", _of_lines(_formats_md())
    yield "blocks.md", _of_lines(block_tables())
    yield "accumulations.md", _of_lines(accumulation_tables())
    yield "silicon.md", _of_lines(evidence_page())
    for fmt in TABULATED:
        yield f"values/{fmt.name}.csv", _values(fmt)
    for target, rounding, saturation in VECTORS:
        path = f"vectors/convert/binary32_{target}_{rounding}_{saturation}.txt"
        yield path, _vectors(target, rounding, saturation)


def write(folder: Path, watch: Callable[[int, int, str], None] | None = None) -> int:
    """Write every golden file; remove those that the folder's digests.json lists but that are no longer made.

    Returns
    -------
    int
        The files written.

    Raises
    ------
    Refused
        A file stands in the way that digests.json does not list, one to remove was changed, or a path leads
        out of the folder. Nothing is written then.
    """
    before = read_digests(folder) if (folder / "digests.json").is_file() else {}
    made = dict(generate(watch))
    made["digests.json"] = _with_sweeps(made["digests.json"], before)
    listed = before.get("files", {})
    for name, content in made.items():
        path = _inside(folder, name)
        if path.exists() and name not in listed and name != "digests.json" and path.read_bytes() != content:
            raise Refused(
                f"{str(path)!r} is in the way and not listed in digests.json; move it, or choose a new folder"
            )
    stale = [_stale(folder, name, listed[name]) for name in sorted(set(listed) - set(made))]
    for name in made:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        files.write(folder / name, content)
    for path in stale:
        path.unlink(missing_ok=True)
    return len(made)


def _inside(folder: Path, name: str) -> Path:
    """Return the path of a file that exists or can; refuse one outside the folder, by name or by links."""
    path = folder / name
    try:
        inside = path.resolve().is_relative_to(folder.resolve()) and (path.is_file() or not path.exists())
    except (OSError, RuntimeError, ValueError):  # links in a circle, names that no file has
        inside = False
    if not inside:
        raise Refused(
            f"{quoted(name)} is no file in {str(folder)!r}: it leads out of that folder, or is a folder or "
            f"device"
        )
    return path


def _stale(folder: Path, name: str, digest: object) -> Path:
    """Return the path of a file to remove; refuse one that is no longer what was written."""
    path = _inside(folder, name)
    if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise Refused(
            f"{str(path)!r} is listed in digests.json and no longer made, but was changed; remove it yourself"
        )
    return path


def check(
    folder: Path,
    watch: Callable[[int, int, str], None] | None = None,
    held: dict[str, bytes] | None = None,
) -> list[str]:
    """Return what is wrong with the golden files of a folder, a line each; empty if nothing is.

    What was read and is right is put into `held`, by name.
    """
    problems = []
    have = _generated(folder)
    made = set()
    for name, want in generate(watch):
        made.add(name)
        if name == "digests.json":
            with contextlib.suppress(Refused):
                want = _with_sweeps(want, read_digests(folder))
        if name not in have:
            problems.append(f"{name} is missing")
        elif (got := (folder / name).read_bytes()) != want:
            problems.append(_first_difference(name, got, want))
        elif held is not None:
            held[name] = got
    problems += [f"{name} is not a golden file of this version" for name in sorted(have - made)]
    return problems


def archive(folder: Path, held: Mapping[str, bytes]) -> bytes:
    """Return golden files that were checked, how to read them and the licence as one tar file.

    It has always the same bytes, and those that were checked, whatever became of the files since.

    Raises
    ------
    Refused
        A folder that is not a checkout's has no README or licence.
    """
    beside = {"README.md": folder / "README.md", "LICENSE": folder.resolve().parent / "LICENSE"}
    for path in beside.values():
        if not path.is_file():
            raise Refused(
                f"an archive has a {path.name}, and there is no file {str(path)!r}: archive a checkout's"
            )
    content = {name: path.read_bytes() for name, path in beside.items()} | dict(held)
    buffer = io.BytesIO()
    with tarfile.TarFile(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for name in sorted(content):
            member = tarfile.TarInfo(f"lowprec-golden-{__version__}/{name}")  # of no time and no owner
            member.size = len(content[name])
            packed.addfile(member, io.BytesIO(content[name]))
    return buffer.getvalue()


def _generated(folder: Path) -> set[str]:
    """Return the files in the places that are generated; hidden ones are left by killed commands."""
    places = ("*.json", "[a-z]*.md", "values/[!.]*", "vectors/**/[!.]*")
    return {
        str(path.relative_to(folder)) for place in places for path in folder.glob(place) if path.is_file()
    }


def _as_json(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


def _first_difference(name: str, got: bytes, want: bytes) -> str:
    ours, theirs = want.decode().splitlines(), got.decode(errors="replace").splitlines()
    for line, (right, wrong) in enumerate(zip(ours, theirs, strict=False), 1):
        if right != wrong:
            return f"{name} differs at line {line}: has {quoted(wrong)}, must have {quoted(right)}"
    return f"{name} has {len(theirs)} lines, must have {len(ours)}; or other line ends"


def _formats_json() -> bytes:
    document = {
        "$schema": "schema/formats.schema.json",
        "schema": "lowprec.formats/1",
        "made_by": provenance("lowprec golden --write"),
        "formats": [cards.describe(fmt) for fmt in catalog.FORMATS.values()],
    }
    return _as_json(document)


def _formats_md() -> Iterator[str]:
    yield from ("# The formats of the catalog", "")
    yield from head("format", "what it is", "max_finite", "min_normal", "min_subnormal", "source")
    for fmt in catalog.FORMATS.values():
        limits = map(number, (fmt.max_finite, fmt.min_normal, fmt.min_subnormal))
        yield row(f"`{fmt.name}`", cards.sentence(fmt), *limits, fmt.source)


def _of_lines(lines: Iterator[str]) -> bytes:
    """Return a page of Markdown."""
    return ("\n".join([f"<!-- {provenance('lowprec golden --write')} -->", "", *lines]) + "\n").encode()


def _values(fmt: Format) -> bytes:
    values = np.array([to_float(oracle.decode(code, fmt)) for code in range(1 << fmt.width)])
    codes = np.arange(1 << fmt.width, dtype=np.uint8)
    _must_agree(_bits(values), _bits(decode(codes, fmt, dtype=np.float64)), f"decoding {fmt.name}")
    return Table(fmt, command=f"lowprec table {fmt.name} --as csv").render("csv")


def _digests(watch: Callable[[int, int, str], None] | None) -> dict[str, Any]:
    formats = list(catalog.FORMATS.values())
    digests: dict[str, dict[str, Any]] = {"decode": {}, "encode": {}}
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        wide = [fmt for fmt in formats if 8 < fmt.width < 32]
        for done, (fmt, found) in enumerate(zip(wide, pool.map(_decode_digest, wide), strict=True)):
            digests["decode"][fmt.name] = found
            if watch:
                watch(done, len(wide) + len(formats), f"decoding {fmt.name}")
        for done, (fmt, sweep) in enumerate(zip(formats, pool.map(_oracle_sweep, formats), strict=True)):
            if watch:
                watch(done + len(wide), len(wide) + len(formats), f"encoding to {fmt.name}")
            _verify_sweep(fmt, sweep)
            digests["encode"][fmt.name] = sweep
    return digests


def _with_sweeps(content: bytes, before: dict[str, Any]) -> bytes:
    """Return digests.json with the section of `lowprec conform --exhaustive` from an earlier one."""
    return _as_json({**json.loads(content), "sweeps": before["sweeps"]}) if "sweeps" in before else content


def _decode_digest(fmt: Format) -> dict[str, Any]:
    """Return the SHA-256 of the values of all codes, as little-endian binary64."""
    digest = hashlib.sha256()
    for start in range(0, 1 << fmt.width, 1 << 14):
        codes = range(start, min(start + (1 << 14), 1 << fmt.width))
        values = [to_float(oracle.decode(code, fmt)) for code in codes]
        packed = struct.pack(f"<{len(values)}d", *values)
        kernel = decode(np.array(codes, dtype=np.uint32), fmt, dtype=np.float64)
        _must_agree(np.frombuffer(packed, "<u8"), _bits(kernel), f"decoding {fmt.name}")
        digest.update(packed)
    return {"codes": 1 << fmt.width, "sha256": digest.hexdigest()}


def sweep_operands(fmt: Format) -> Array:
    """Return the binary32 operands of a format's encode sweep: sparse cases, without NaNs if it has none."""
    operands = conversions.inputs(fmt, np.float32, sparse=True)
    return operands if fmt.nan_code is not None else operands[~np.isnan(operands)]


def _projections() -> Iterator[tuple[str, Projection]]:
    for mode in MODES:
        for policy in Saturation:
            yield f"{mode}/{policy}", Projection(rounding=mode, saturation=policy)


def _oracle_sweep(fmt: Format) -> dict[str, Any]:
    """Return the SHA-256 of the codes of a fixed set of operands, for every rounding and saturation."""
    operands = sweep_operands(fmt)
    exact = [oracle.decode(bits, catalog.BINARY32) for bits in operands.view(np.uint32).tolist()]
    size = fmt.code_bits // 8
    found = {}
    for name, projection in _projections():
        codes = b"".join(oracle.project(value, fmt, projection).to_bytes(size, "little") for value in exact)
        found[name] = hashlib.sha256(codes).hexdigest()
    return {
        "operands": "binary32, lowprec.verify.inputs.conversions.inputs(format, 'float32', sparse=True)",
        "count": int(operands.size),
        "operands_sha256": hashlib.sha256(operands.astype("<f4").tobytes()).hexdigest(),
        "codes_sha256": found,
    }


def _verify_sweep(fmt: Format, sweep: dict[str, Any]) -> None:
    operands = sweep_operands(fmt)
    for name, projection in _projections():
        codes = encode(operands, fmt, projection=projection)
        digest = hashlib.sha256(codes.astype(codes.dtype.newbyteorder("<")).tobytes()).hexdigest()
        if digest != sweep["codes_sha256"][name]:
            raise Disagreement(f"oracle and kernels differ in encoding to {fmt.name} under {name}")


def _vectors(target: str, rounding: str, saturation: str) -> bytes:
    """Return vectors whose results are the oracle's too; those before the random ones are sorted."""
    formats = (catalog.BINARY32, catalog.format(target))
    projection = Projection(rounding=rounding, saturation=saturation)
    options = f"--rounding {rounding} --saturation {saturation}"
    command = f"lowprec vectors convert binary32 {target} {options} --samples {_SAMPLES} --seed 0"
    made = suite("convert", formats, projection, samples=_SAMPLES, command=f"{command}, chosen ones sorted")
    (operands,) = made.operands
    drawn = conversions.sample(np.float32, _SAMPLES)
    left_out = np.count_nonzero(np.isnan(drawn)) if made.left_out else 0
    chosen = operands.size - (_SAMPLES - left_out)
    order = np.concatenate([np.argsort(operands[:chosen]), np.arange(chosen, operands.size)])
    made = replace(made, operands=(operands[order],), results=made.results[order])
    codes = [oracle.cast(code, *formats, projection) for code in made.operands[0].tolist()]
    results = np.array(codes, dtype=made.results.dtype)
    _must_agree(results, made.results, f"converting binary32 to {target} under {projection}")
    return made.render("text")


def _bits(values: Array) -> Array:
    return values.view(np.uint64)


def _must_agree(truth: Array, fast: Array, what: str) -> None:
    if not np.array_equal(truth, fast):
        raise Disagreement(f"oracle and kernels differ in {what}")
