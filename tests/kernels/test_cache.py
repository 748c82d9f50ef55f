"""Kernels on disk are never stale and never fatal, whoever wrote, edited or damaged what is there.

Processes of their own compile and load them: in one process a kernel that is compiled is not loaded
again.
"""

import hashlib
import importlib.util
import json
import os
import pathlib
import pickle
import re
import shutil
import stat
import subprocess
import sys
import tempfile

import numba
import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_name

import lowprec as lp
from lowprec import files
from lowprec.kernels import cache
from lowprec.kernels.jit import jit
from lowprec.kernels.lower.vector import shapes, specialized
from lowprec.kernels.request import Elementwise
from lowprec.kernels.vector import program as vector
from lowprec.kernels.vector.convert import kernel
from lowprec.spec import catalog
from tests.support import (
    CATALOG_UP_TO_8,
    MODE_PROJECTIONS,
    assert_same_codes,
    both_signs,
    stepped,
    value_and_tie,
)

pytestmark = [
    pytest.mark.apart,
    pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="without the compiler there is no cache"),
]

ROOT = pathlib.Path(__file__).parents[2]

CONVERT = """
import json, sys
import numpy as np
import lowprec as lp
from lowprec import files
from lowprec.kernels import engine
from lowprec.kernels.engine import MANY, lower
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.spec import catalog

engine.PAYS = 0
values, found, kernels = np.load(sys.argv[1]), {}, set()
for job in sys.argv[2:]:
    name, mode = job.split()
    found[job] = lp.encode(np.resize(values, MANY), name, rounding=mode)[: values.size].tolist()
    request = Elementwise(CONVERT, (catalog.BINARY32,), lp.format(name), lp.Projection(rounding=mode))
    kernels.add(lower(request).kernels[1])
found["package"] = lp.__file__
found["loaded"] = sum(sum(kernel.stats.cache_hits.values()) for kernel in kernels)
found["compiled"] = sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels)
print(json.dumps(found))
"""

COUNT = """
import json, os, sys
from lowprec.kernels.jit import jit

answers, kernels = [], []
for n, folder in enumerate(sys.argv[1:]):
    os.environ["LOWPREC_CACHE_DIR"] = folder
    kernels.append(jit(eval(f"lambda x: x + {n}"), f"plus_{n}"))
    answers.append(kernels[-1](100))
loaded = [sum(kernel.stats.cache_hits.values()) for kernel in kernels]
print(json.dumps({"right": answers == [100 + n for n in range(len(answers))], "loaded": loaded}))
"""

NEAREST, TO_ODD, NARROW = "e4m3fn nearest_even", "e4m3fn to_odd", "e2m1fn nearest_even"


def _values():
    """Every value and tie of e4m3fn as float32, with its neighbours; both signs."""
    points = [point for magnitude in range(0x80) for point in value_and_tie(magnitude, catalog.E4M3FN)]
    bits = np.array(points, np.float32).view(np.int32)
    around = np.unique(np.concatenate([bits - 1, bits, bits + 1]))
    return both_signs(around[around >= 0].view(np.float32))


VALUES = _values()


def _assert_right(found, *jobs):
    """All codes are the oracle's."""
    for job in jobs:
        name, mode = job.split()
        fmt, rule = lp.format(name), lp.Projection(rounding=mode)
        assert_same_codes(found[job], stepped(VALUES.astype(np.float64), fmt, rule), fmt, VALUES, rule)


class Process:
    """A program that runs beside this one, with a package of its own."""

    def __init__(self, package, program, *arguments, **environment):
        """Start it."""
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", program, *map(str, arguments)],
            cwd=package,
            env={
                **os.environ,
                "PYTHONPATH": str(package),
                **{key: str(value) for key, value in environment.items()},
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def result(self):
        """What it printed, once it has ended well."""
        output, errors = self._process.communicate(timeout=300)
        assert self._process.returncode == 0, errors
        assert errors == ""
        return json.loads(output)


def _copied(package, to):
    shutil.copytree(package / "lowprec", to / "lowprec", ignore=shutil.ignore_patterns("__pycache__"))
    return to


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package as it is now: who works on it while the tests run does not disturb them."""
    return _copied(ROOT, tmp_path_factory.mktemp("package"))


@pytest.fixture
def another(package, tmp_path):
    """A copy of the package elsewhere, to edit."""
    return _copied(package, tmp_path / "copy")


@pytest.fixture(scope="module")
def convert(package, tmp_path_factory):
    """Start a process that encodes all values as the jobs say."""
    path = tmp_path_factory.mktemp("values") / "values.npy"
    np.save(path, VALUES)
    return lambda folder, *jobs, package=package: Process(
        package, CONVERT, path, *jobs, LOWPREC_CACHE_DIR=folder
    )


@pytest.fixture(scope="module")
def first(tmp_path_factory, convert):
    """A folder that three processes found empty at the same time, and what they gave."""
    folder = tmp_path_factory.mktemp("kernels") / "made" / "by" / "them"
    jobs = [NEAREST, TO_ODD, NEAREST]
    processes = [convert(folder, job) for job in jobs]
    return folder, [(job, process.result()) for job, process in zip(jobs, processes, strict=True)]


@pytest.fixture
def folder(first, tmp_path):
    """A copy of what they left."""
    return shutil.copytree(first[0], tmp_path / "kernels")


def _content(folder):
    """The files of a folder by name: what is in them, and when that was written."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def _is_whole(path):
    """Whether a file is named by a digest and holds what it says it holds."""
    stored = path.read_bytes()
    return bool(re.fullmatch("[0-9a-f]{64}", path.name)) and _sealed(path.name, stored[32:]) == stored


def _edit(path, before, after):
    """Replace what occurs once in a file."""
    text = path.read_text()
    assert text.count(before) == 1, (
        f"{path.name} has changed: tell this test what to edit instead of {before!r}"
    )
    path.write_text(text.replace(before, after))


# -- several processes ------------------------------------------------------------------------------


def test_processes_that_find_the_folder_empty_at_the_same_time_are_all_right(first):
    """None reads half of what another one writes; each kernel is kept once, and nothing else is left.

    Both jobs have a kernel of their own, and share the one that exchanges the processor's modes.
    """
    folder, found = first
    for job, answer in found:
        _assert_right(answer, job)
        assert answer["loaded"] + answer["compiled"] == 1
    assert len(list(folder.iterdir())) == 3
    assert all(map(_is_whole, folder.iterdir()))


def test_a_later_process_loads_all_and_writes_nothing(folder, another, convert):
    """Its package lies elsewhere: it is the code that counts."""
    before = _content(folder)
    found = convert(folder, NEAREST, TO_ODD, package=another).result()
    assert pathlib.Path(found["package"]).is_relative_to(another)
    assert (found["loaded"], found["compiled"]) == (2, 0)
    _assert_right(found, NEAREST, TO_ODD)
    assert _content(folder) == before


def test_kernels_of_several_processes_are_not_mixed_up(folder, convert):
    """Machine code is linked by name. Two processes each compiled a first kernel; this one compiles its own.

    numba counts the functions of a process, and the count is all that would tell their names apart.
    """
    found = convert(folder, NEAREST, NARROW, TO_ODD).result()
    assert (found["loaded"], found["compiled"]) == (2, 1)
    _assert_right(found, NEAREST, NARROW, TO_ODD)


def test_all_kernels_have_names_of_their_own():
    """And the functions that they are made of too, in every format of at most 8 bits and every mode."""
    kernels, drawing = set(), set()
    for fmt in (*CATALOG_UP_TO_8, catalog.BINARY16, catalog.BFLOAT16):
        for rule in (*MODE_PROJECTIONS, lp.Projection(rounding="stochastic(8)")):
            for carrier in (None, catalog.BINARY32, *[catalog.BFLOAT16] * catalog.BFLOAT16.contains(fmt)):
                way = vector.lower(Elementwise("convert", (catalog.BINARY32,), fmt, rule, carrier))
                if way is not None:
                    kinds = shapes(way.plan) if specialized(way.plan) else ((),) * 4
                    kernels |= {*way.kernels, kernel(kinds, False)}
                    drawing.add(kernel(kinds, True))
    parts = {_held(function, "everything") for function in drawing}
    for functions in (kernels | drawing, parts):
        assert len({function.py_func.__qualname__ for function in functions}) == len(functions) > 20


def _held(function, name):
    """The compiled function that another one closes over by that name."""
    closed = dict(zip(function.py_func.__code__.co_freevars, function.py_func.__closure__, strict=True))
    return closed[name].cell_contents


def test_a_kernel_that_is_made_in_a_function_must_be_given_a_name():
    """Else two that close over different constants would have the same one."""
    with pytest.raises(AssertionError, match="needs a name of its own"):
        jit(lambda x: x)


def test_code_for_another_processor_is_not_loaded(package, tmp_path):
    """A folder may be shared by machines that are not alike."""
    places = [tmp_path / "kernels"] * 3
    assert Process(package, COUNT, *places).result() == {"right": True, "loaded": [0, 0, 0]}
    name = get_host_cpu_name() if numba.config.CPU_NAME == "generic" else "generic"
    other = Process(package, COUNT, *places, NUMBA_CPU_NAME=name, NUMBA_CPU_FEATURES="").result()
    assert other == {"right": True, "loaded": [0, 0, 0]}
    assert len(list(places[0].iterdir())) == 6


# -- edits ------------------------------------------------------------------------------------------


def test_an_edited_helper_is_noticed(folder, another, convert):
    """Half up, not half to even, in `nearest_even`; a copy without it loads the kernel, as tested above."""
    _edit(
        another / "lowprec" / "kernels" / "vector" / "rounding.py",
        "(word + half + ((word >> shift) & 1))",
        "(word + half + 1)",
    )
    found = convert(folder, NEAREST, package=another).result()
    assert (found["loaded"], found["compiled"]) == (0, 1)
    even, away = (
        stepped(VALUES.astype(np.float64), catalog.E4M3FN, lp.Projection(rounding=mode))
        for mode in ("nearest_even", "nearest_away")
    )
    normal = np.abs(VALUES) >= catalog.E4M3FN.min_normal
    assert_same_codes(found[NEAREST], np.where(normal, away, even), catalog.E4M3FN, VALUES)
    assert (away != even)[normal].any()


ABOVE = """
import json, pathlib, sys
import numpy as np
from lowprec.kernels.vector.block import largest_magnitude

for path in sys.argv[1:]:  # an edit while this runs, before anything was compiled
    path = pathlib.Path(path)
    path.write_text(path.read_text().replace(*{edit!r}))
largest = largest_magnitude(np.array([1, 200], np.uint8), np.uint32(255), np.uint32(255))
print(json.dumps([largest, sum(largest_magnitude.stats.cache_hits.values())]))
"""

#: In the function `greater` of the lanes: the lesser. Then the largest of all is 0.
LESSER = (
    'builder.select(builder.icmp_unsigned(">", left, right), left, right)',
    'builder.select(builder.icmp_unsigned(">", left, right), right, left)',
)


def test_an_edit_while_a_process_runs_is_noticed_by_the_next(another, tmp_path):
    """It compiles the old code, which it has read, and must not keep that as if it were the new.

    The edit is of no function of a kernel but of the instruction that one becomes.
    """
    program, place = ABOVE.format(edit=LESSER), tmp_path / "kernels"
    lanes = another / "lowprec" / "kernels" / "vector" / "ir" / "lanes.py"
    assert Process(another, program, lanes, LOWPREC_CACHE_DIR=place).result() == [200, 0]
    assert lanes.read_text().count(LESSER[1]) == 1
    assert Process(another, program, LOWPREC_CACHE_DIR=place).result() == [0, 0]


def _digest(package):
    """The digest of the sources, as the code in that package computes it."""
    spec = importlib.util.spec_from_file_location(
        "lowprec_copied_cache", package / "lowprec" / "kernels" / "cache.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.sources()


def test_an_edit_of_any_source_changes_the_digest(package, another):
    """One character more in each file of the kernels and the specifications; one file more; another name."""
    sources = sorted(
        path for name in ("kernels", "spec") for path in (another / "lowprec" / name).glob("*.py")
    )
    digests = [_digest(package), _digest(another)]
    assert digests[0] == digests[1]
    for path in sources:
        with path.open("a") as file:
            file.write("#")
        digests.append(_digest(another))
    more = another / "lowprec" / "kernels" / "more.py"
    more.write_text("")
    digests.append(_digest(another))
    more.rename(more.with_name("other.py"))
    digests.append(_digest(another))
    assert len(set(digests)) == len(digests) - 1 == len(sources) + 3
    assert len(sources) > 12


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        (numba, "__version__", "0"),
        (np, "__version__", "0"),
        (numba.config, "OPT", 1),
        (numba.config, "BOUNDSCHECK", 1),
    ],
)
def test_another_version_or_setting_changes_the_digest(package, monkeypatch, where, name, value):
    """Of what compiles the sources, and of how it does."""
    before = _digest(package)
    monkeypatch.setattr(where, name, value)
    assert _digest(package) != before


# -- damage -----------------------------------------------------------------------------------------


def _flipped(data):
    """With the lowest bit of the byte in the middle changed."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def _sealed(name, data):
    """Under the digest that a file of this name needs to be believed."""
    return hashlib.sha256(name.encode() + data).digest() + data


DAMAGES = {
    "empty": lambda name, data: b"",
    "half of it": lambda name, data: data[: len(data) // 2],
    "another bit in it": lambda name, data: _flipped(data),
    "its first byte alone": lambda name, data: data[:1],
    "its digest alone": lambda name, data: data[:32],
    "one byte less": lambda name, data: data[:-1],
    "one byte more": lambda name, data: data + b"\0",
    "another digest": lambda name, data: bytes([data[0] ^ 128]) + data[1:],
    "nothing, sealed": lambda name, data: _sealed(name, b""),
    "noise, sealed": lambda name, data: _sealed(name, bytes(range(256))),
    "something else, sealed": lambda name, data: _sealed(name, pickle.dumps({"kernel": 7})),
    "a kernel with parts missing, sealed": lambda name, data: _sealed(
        name, pickle.dumps(pickle.loads(data[32:])[:3])
    ),
    "a kernel without machine code, sealed": lambda name, data: _sealed(
        name, pickle.dumps((("", "object", (b"", b"")), *pickle.loads(data[32:])[1:]))
    ),
}


def test_damaged_files_are_noticed_and_repaired(package, tmp_path):
    """Also what something else wrote, with a right digest; and a folder in its place, left alone."""
    place = tmp_path / "kernels"
    places = [place] * (len(DAMAGES) + 1)
    assert Process(package, COUNT, *places).result() == {"right": True, "loaded": [0] * len(places)}
    paths = sorted(place.iterdir())
    for path, damage in zip(paths[:-1], DAMAGES.values(), strict=True):
        path.write_bytes(damage(path.name, path.read_bytes()))
    paths[-1].unlink()
    paths[-1].mkdir()
    assert Process(package, COUNT, *places).result() == {"right": True, "loaded": [0] * len(places)}
    assert sorted(place.iterdir()) == paths
    assert all(map(_is_whole, paths[:-1]))
    assert list(paths[-1].iterdir()) == []
    again = Process(package, COUNT, *places).result()
    assert (again["right"], sum(again["loaded"])) == (True, len(DAMAGES))


def test_a_file_under_another_kernels_name_is_not_run(package, tmp_path):
    """It was whole, so it was run: 100 + 1 was 100."""
    place = tmp_path / "kernels"
    assert Process(package, COUNT, place, place).result() == {"right": True, "loaded": [0, 0]}
    first, second = place.iterdir()
    first.rename(tmp_path / "first")
    second.rename(first)
    (tmp_path / "first").rename(second)
    assert Process(package, COUNT, place, place).result() == {"right": True, "loaded": [0, 0]}
    assert Process(package, COUNT, place, place).result() == {"right": True, "loaded": [1, 1]}


# -- no place to write ------------------------------------------------------------------------------


def test_without_a_place_to_write_kernels_are_compiled_and_nothing_is_written(package, tmp_path):
    """Permissions do not stop root, but these do: a regular file in a folder's place or above it; no name."""
    (tmp_path / "file").write_text("mine")
    places = [tmp_path / "file", tmp_path / "file" / "below" / "it", "", tmp_path / ("long" * 100)]
    assert Process(package, COUNT, *places, TMPDIR=tmp_path).result() == {
        "right": True,
        "loaded": [0] * len(places),
    }
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


def test_a_full_disk_leaves_no_half_written_file(package, tmp_path):
    """A limit on the size of files makes every write beyond it fail, as a full disk does."""
    pytest.importorskip("resource", reason="limits are POSIX")
    limit = "import resource, sys; sys.dont_write_bytecode = True  # it would be cut, and stay\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))\n"
    place = tmp_path / "kernels"
    assert Process(package, limit + COUNT, place, place).result() == {"right": True, "loaded": [0, 0]}
    assert list(place.iterdir()) == []


def test_the_folder_is_the_one_that_was_chosen_else_the_users_cache(monkeypatch, tmp_path):
    """$LOWPREC_CACHE_DIR, which may be empty; $XDG_CACHE_HOME; ~/.cache."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOWPREC_CACHE_DIR", str(tmp_path / "chosen"))
    assert cache.directory() == tmp_path / "chosen"
    monkeypatch.setenv("LOWPREC_CACHE_DIR", "")
    assert cache.directory() is None
    monkeypatch.delenv("LOWPREC_CACHE_DIR")
    assert cache.directory() == tmp_path / "xdg" / "lowprec" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.directory() == pathlib.Path("~/.cache/lowprec/kernels").expanduser()


# -- who may have put it there ------------------------------------------------------------------------

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="ownership is POSIX's")
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, for two users"
)

#: Nobody's number.
ANOTHER = 54321

#: Two kernels: whether they are right, which were loaded, and what was logged.
LOGGED = """
import json, logging, os, sys
logged = []
handler = logging.Handler()
handler.emit = lambda record: logged.append([record.name, record.levelname, record.getMessage()])
logging.getLogger().addHandler(handler)
from lowprec.kernels.jit import jit

kernels = [jit(lambda x: x, "plus_0"), jit(lambda x: x + 1, "plus_1")]
right = [kernel(100) for kernel in kernels] == [100, 101]
print(json.dumps([right, [sum(kernel.stats.cache_hits.values()) for kernel in kernels], logged]))
"""

EVIL = """
class Evil:
    def __reduce__(self):
        import os
        return os.mkdir, (planted,)
"""


@pytest.fixture
def cached(package, tmp_path):
    """A folder with two kernels, in a private one."""
    (tmp_path / "home").mkdir(mode=0o700)
    place = tmp_path / "home" / "kernels"
    assert Process(package, LOGGED, LOWPREC_CACHE_DIR=place).result() == [True, [0, 0], []]
    assert Process(package, LOGGED, LOWPREC_CACHE_DIR=place).result() == [True, [1, 1], []]
    return place


def _plant(place, mark):
    """Replace each kernel by code that makes a folder when loaded, with the digest that it needs."""
    space = {"planted": str(mark)}
    exec(EVIL, space)
    for path in place.iterdir():
        path.write_bytes(_sealed(path.name, pickle.dumps(space["Evil"]())))


@posix
@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o750, 0o640), (0o755, 0o644)])
def test_a_kernel_may_be_read_by_those_who_may_read_its_folder(tmp_path, folder, file):
    tmp_path.chmod(folder)
    files.keep(tmp_path / "kernel", b"code")
    assert stat.S_IMODE((tmp_path / "kernel").stat().st_mode) == file


def test_what_is_made_is_for_this_user_alone(package, tmp_path):
    """Folders and files, whatever the umask."""
    place = tmp_path / "a" / "b" / "kernels"
    assert Process(package, "import os; os.umask(0)\n" + LOGGED, LOWPREC_CACHE_DIR=place).result()[:2] == [
        True,
        [0, 0],
    ]
    modes = [path.stat().st_mode & 0o777 for path in (place, *place.parents[:2], *place.iterdir())]
    assert modes == [0o700, 0o700, 0o700, 0o600, 0o600]


@posix
@pytest.mark.parametrize("what", ["folder", "file", "parent"])
def test_what_others_may_write_is_not_loaded(package, cached, tmp_path, what):
    """Planted code is not executed; one record says why, and what to do."""
    _plant(cached, tmp_path / "executed")
    changed = {"folder": [cached], "file": sorted(cached.iterdir()), "parent": [cached.parent]}[what]
    for path in changed:
        path.chmod(path.stat().st_mode | stat.S_IWGRP)
    way_out = "set LOWPREC_CACHE_DIR to a folder that only you can change, or to nothing for no cache"
    why = "others may write {!r} (mode {:04o}) and could put other code there; chmod go-w it, or {}"
    said = [why.format(str(path), path.stat().st_mode & 0o7777, way_out) for path in changed]
    right, loaded, logged = Process(package, LOGGED, LOWPREC_CACHE_DIR=cached).result()
    assert not (tmp_path / "executed").exists()
    assert (right, loaded) == (True, [0, 0])
    assert sorted(logged) == [
        ["lowprec", "WARNING", f"compiled kernels are not kept: {text}"] for text in said
    ]


@as_root
@pytest.mark.parametrize("what", ["folder", "file", "parent"])
def test_what_another_user_owns_is_not_loaded(package, cached, tmp_path, what):
    """Not by root either, as in a container whose image another user built."""
    _plant(cached, tmp_path / "executed")
    changed = {"folder": [cached], "file": sorted(cached.iterdir()), "parent": [cached.parent]}[what]
    for path in changed:
        os.chown(path, ANOTHER, ANOTHER)
    right, loaded, logged = Process(package, LOGGED, LOWPREC_CACHE_DIR=cached).result()
    assert not (tmp_path / "executed").exists()
    assert (right, loaded, len(logged)) == (True, [0, 0], len(changed))
    for path in changed:
        assert any(
            f"{str(path)!r} belongs to user {ANOTHER}, who could" in message for _, _, message in logged
        )
    assert all(
        "set LOWPREC_CACHE_DIR to a folder that only you can change" in message for _, _, message in logged
    )


@posix
def test_what_another_user_owns_is_refused_whoever_runs_this(cached, monkeypatch):
    """As above, where there is no second user: the system is made to say that one owns it."""

    def foreign(info):
        return os.stat_result((*info[:4], ANOTHER, *info[5:10]))

    path, lstat = next(cached.iterdir()), pathlib.Path.lstat
    assert cache.private(cached) == cached
    assert cache._read(path) == path.read_bytes()
    for owned in (cached, cached.parent):
        with monkeypatch.context() as patch:
            patch.setattr(
                pathlib.Path,
                "lstat",
                lambda at, owned=owned: foreign(lstat(at)) if at == owned else lstat(at),
            )
            assert cache.private(cached) is None
    fstat = os.fstat
    monkeypatch.setattr(os, "fstat", lambda descriptor: foreign(fstat(descriptor)))
    assert cache._read(path) is None


@as_root
def test_what_root_made_is_loaded_by_others(cached):
    """Root can put anything anywhere: an image may hold a cache that its users read."""
    with tempfile.TemporaryDirectory() as folder:
        place = shutil.copytree(cached, pathlib.Path(folder) / "kernels")
        for path in (place.parent, place, *place.iterdir()):
            path.chmod(0o755)
        os.seteuid(ANOTHER)
        try:
            assert cache.private(place) == place.resolve()
            assert all(cache._read(path) for path in place.iterdir())
        finally:
            os.seteuid(0)


@posix
def test_a_link_in_the_place_of_a_kernel_is_not_followed(package, cached, tmp_path):
    """Nor is a pipe waited for."""
    one, other = sorted(cached.iterdir())
    one.rename(tmp_path / "kernel")
    one.symlink_to(tmp_path / "kernel")
    other.unlink()
    os.mkfifo(other)
    right, loaded, _ = Process(package, LOGGED, LOWPREC_CACHE_DIR=cached).result()
    assert (right, loaded) == (True, [0, 0])
    assert Process(package, LOGGED, LOWPREC_CACHE_DIR=cached).result() == [True, [1, 1], []]


@posix
def test_a_folder_through_a_link_is_asked_for_where_it_is(cached, tmp_path):
    """And a folder such as /tmp, where nobody renames what is another's, may be above it."""
    (tmp_path / "link").symlink_to(cached)
    assert cache.private(tmp_path / "link") == cached
    cached.parent.chmod(0o1777)
    assert cache.private(cached) == cached
    cached.chmod(0o1777)  # but not it: anyone could put kernels there
    assert cache.private(cached) is None
    assert cache.private(cached.parent / "none") is None
    assert cache.private(cached.parent / "none", make=True) == cached.parent / "none"


NO_HOME = """
import pwd
def unknown(*_):
    raise KeyError("no such user")
pwd.getpwuid = unknown
"""


@posix
@pytest.mark.parametrize(
    ("name", "value"), [("XDG_CACHE_HOME", ""), ("XDG_CACHE_HOME", "cache"), ("HOME", "home")]
)
def test_without_a_home_no_kernels_are_loaded_from_the_current_folder(
    package, tmp_path, monkeypatch, name, value
):
    """`./~/.cache/lowprec/kernels` was: of who unpacks an archive, anyone's."""
    for variable in ("LOWPREC_CACHE_DIR", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    run = subprocess.run(
        [sys.executable, "-c", NO_HOME + LOGGED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package), name: value},
        capture_output=True,
        text=True,
        check=True,
    )
    right, loaded, logged = json.loads(run.stdout)
    assert (right, loaded) == (True, [0, 0])
    assert [record[:2] for record in logged] == [["lowprec", "WARNING"]]
    assert "no home folder is known, or XDG_CACHE_HOME is a relative path" in logged[0][2]
    assert "set LOWPREC_CACHE_DIR" in logged[0][2]
    assert list(tmp_path.iterdir()) == []
