"""All float32 inputs: the steps are the oracle's, planted errors are found, and a crash changes no digest."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.arrays import threads
from lowprec.cli.main import main
from lowprec.oracle.convert import project
from lowprec.oracle.exact import from_float
from lowprec.spec import catalog
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES
from lowprec.verify.frameworks import FRAMEWORKS
from lowprec.verify.sweeps import exhaustive, keeping, processes
from lowprec.verify.sweeps.exhaustive import Found, Steps, Sweep, plan, steps_of
from tests.programs import need_package

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "tables"
E4M3FN = catalog.E4M3FN


def exact(pattern):
    """What a binary32 bit pattern stands for, as the oracle takes it; NaNs with their sign."""
    sign, rest = pattern >> 31, pattern & 0x7FFFFFFF
    if rest > 0x7F800000:
        return from_float(struct.unpack(">d", struct.pack(">Q", sign << 63 | 0x7FF8 << 48))[0])
    return from_float(struct.unpack(">f", struct.pack(">I", pattern))[0])


def code_at(steps, pattern):
    return int(steps.codes[np.searchsorted(steps.firsts, pattern, "right") - 1])


def sweep_of(fmt=E4M3FN, subject="lowprec", **how):
    (sweep,) = plan([subject], [catalog.format(fmt)], **how)
    return sweep


def go(sweep, ranges, workers=None, keeper=None, watch=None):
    """One row of some ranges, in this process and keeping nothing unless told otherwise."""
    keeper = keeper or keeping.Keeper(None)
    (row,) = processes.run([sweep], workers or processes.Here(), keeper, ranges=ranges, watch=watch)
    return row


# -- steps ------------------------------------------------------------------------------------------

SMALL = [
    "e2m1fn",
    "e3m0fn",
    "e4m3fn",
    "e4m3fnuz",
    "e5m2",
    "e8m0fnu",
    "ue4m3",
    "int8f6",
    "int4",
    "uint8",
    "sm2f0",
]
HOW = [
    ("nearest_even", "none"),
    ("to_odd", "finite"),
    ("toward_negative", "propagate"),
    ("away_from_zero", "none"),
]


def assert_steps_are_the_oracle_s(sweep, stride):
    steps = steps_of(sweep)
    assert steps.firsts[0] == 0
    assert (np.diff(steps.firsts) > 0).all()
    firsts = steps.firsts.tolist()
    middles = [(low + high) // 2 for low, high in itertools.pairwise([*firsts, 1 << 32])]
    ends = [0x7F800000, 0x7F800001, 0x7FFFFFFF, 0x80000000, 0xFF800000, 0xFF800001, 0xFFFFFFFF]
    chosen = {first + near for first in firsts[::stride] + firsts[-3:] for near in (-1, 0, 1)} | {
        *middles[::stride],
        *ends,
    }
    for pattern in chosen - {-1, 1 << 32}:
        assert code_at(steps, pattern) == project(exact(pattern), sweep.fmt, sweep.projection), hex(pattern)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(("rounding", "saturation"), HOW)
def test_steps_are_what_the_oracle_says_at_every_boundary_and_beside_it(name, rounding, saturation):
    """Of both signs, with infinities and NaNs; unsigned, without NaN, without zero."""
    assert_steps_are_the_oracle_s(sweep_of(name, roundings=[rounding], saturations=[saturation]), 1)


@pytest.mark.apart
def test_steps_of_binary16_are_what_the_oracle_says():
    """One in 100 of 63,000."""
    assert_steps_are_the_oracle_s(sweep_of("binary16"), 100)


def test_steps_within_a_range_begin_with_its_first_pattern():
    """Counted from there."""
    steps = Steps(np.array([0, 5, 1 << 24, (1 << 24) + 7, 3 << 24]), np.array([1, 2, 3, 4, 5], np.uint8))
    parts = [(part.firsts.tolist(), part.codes.tolist()) for part in map(steps.within, range(5))]
    assert parts == [([0, 5], [1, 2]), ([0, 7], [3, 4]), ([0], [4]), ([0], [5]), ([0], [5])]


def test_a_sweep_uses_one_thread_and_whole_chunks():
    """Nothing is shared that is as small as this."""
    assert threads.SHARED_FROM > exhaustive.CHUNK
    assert exhaustive.SIZE % exhaustive.CHUNK == 0
    assert exhaustive.RANGES * exhaustive.SIZE == 1 << 32


# -- what is found ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["e8m0fnu", "e2m1fn", "e4m3fnuz", "int8", "ue5m3"])
@pytest.mark.parametrize(
    ("rounding", "saturation"), [("nearest_even", "none"), ("toward_positive", "finite")]
)
def test_the_kernels_are_right(name, rounding, saturation):
    """Zeros and subnormals of binary32, around one, NaNs, of both signs."""
    row = go(sweep_of(name, roundings=[rounding], saturations=[saturation]), [0, 63, 127, 128, 255])
    assert (row.inputs, row.differences, row.smallest) == (5 << 24, 0, None)


def test_the_digest_is_that_of_the_codes_range_by_range():
    """Someone else could recompute it so."""
    wide = lp.Format(name="wide", exponent_bits=4, trailing_bits=5, bias=7, infinity=True, nans=31)
    row = go(sweep_of(wide), [62, 190])
    wholes = []
    for index in (62, 190):
        patterns = np.arange(index << 24, (index + 1) << 24, dtype=np.uint32)
        wholes.append(
            hashlib.sha256(lp.encode(patterns.view(np.float32), wide).astype("<u2").tobytes()).digest()
        )
    assert row.sha256 == hashlib.sha256(b"".join(wholes)).hexdigest()
    assert row.as_json()["ranges"] == 2


@pytest.mark.parametrize(
    "where", [[0x3F880000, 0x3F880001, 0xBF800000], [0x3C123456], [0xBC000000, 0xBCFFFFFF]]
)
def test_a_wrong_bit_is_found_with_the_smallest_operand(monkeypatch, where):
    """Patterns ascend, so those of negative numbers come last."""

    def wrong(values, **given):
        codes = lp.encode(values, **given)
        codes[np.isin(values.view(np.uint32), where)] ^= 1
        return codes

    monkeypatch.setattr(exhaustive, "encode", wrong)
    row = go(sweep_of(), [0x3C, 0x3F, 0xBC, 0xBF])
    first = struct.unpack(">f", struct.pack(">I", where[0]))[0]
    want = project(from_float(first), E4M3FN)
    assert row.differences == len(where)
    assert dict(row.smallest.rows) == {
        "operand": f"{where[0]:#010x}",
        "value": first.hex(),
        "got": f"{want ^ 1:#04x}",
        "want": f"{want:#04x}",
    }


def test_frameworks_are_swept_too():
    """What ml_dtypes makes of NaN in e2m1fn, and where its powers of two go wrong."""
    assert go(sweep_of("e2m1fn", "ml_dtypes", nan="negative_zero"), [0x3F, 0x7F]).differences == 0
    row = go(sweep_of("e2m1fn", "ml_dtypes"), [0x3F, 0x7F])
    assert row.differences == (1 << 23) - 1
    assert dict(row.smallest.rows) == {"operand": "0x7f800001", "value": "nan", "got": "0x8", "want": "0x7"}
    wrong = go(sweep_of("e8m0fnu", "ml_dtypes"), [0x40])
    assert wrong.differences == 1
    assert wrong.smallest["operand"] == "0x40400000"  # 3, a tie: nearest_even takes the even code


def test_a_worker_with_another_version_refuses():
    """No result of it could be told from the right ones."""
    sweep = sweep_of("e4m3fn", "ml_dtypes")
    other = Sweep(sweep.subject, "0.0", sweep.fmt, sweep.projection)
    with pytest.raises(
        keeping.SweepError, match=r"has ml_dtypes .*, not 0\.0; workers need what the command has"
    ):
        go(other, [0])
    with pytest.raises(RuntimeError, match="runs other sources of lowprec, or other versions of Python"):
        steps_of(sweep, "another digest")


# -- what dies --------------------------------------------------------------------------------------

SOME = [0, 60, 61, 62, 63, 64, 127, 128, 190, 255]


@pytest.fixture(scope="module")
def digest():
    """Of some ranges, done here in order."""
    return go(sweep_of(), SOME).sha256


@pytest.mark.apart
def test_a_killed_worker_changes_nothing(digest):
    """A real process, by SIGKILL, in mid-sweep; two times."""
    before = set(multiprocessing.active_children())
    killed = []

    def kill(done, total, what):
        if done in (2, 5) and done not in killed:
            killed.append(done)
            (set(multiprocessing.active_children()) - before).pop().kill()

    row = go(sweep_of(), SOME, workers=processes.Processes(2), watch=kill)
    assert killed
    assert (row.sha256, row.differences) == (digest, 0)
    until = time.monotonic() + 300  # or until they have ended
    while set(multiprocessing.active_children()) != before and time.monotonic() < until:
        time.sleep(0.05)
    assert set(multiprocessing.active_children()) == before


class Mortal(processes.Here):
    """Dies of some ranges."""

    died = (ChildProcessError,)

    def __init__(self, deadly):
        self.deadly, self.deaths = deadly, 0

    def submit(self, function, *given):
        """Do a task, or die."""
        if function is exhaustive.sweep_range and self.deadly(given[1]):
            self.deaths += 1
            return super().submit(self.die)
        return super().submit(function, *given)

    def die(self):
        """As the task of a worker that was killed."""
        raise ChildProcessError


@pytest.mark.apart
def test_a_range_that_kills_every_worker_ends_the_run(tmp_path):
    """After the others are done and kept."""
    keeper = keeping.Keeper(tmp_path)
    with pytest.raises(
        keeping.SweepError, match=r"workers died 4 times in a row, last at lowprec to e4m3fn, nearest"
    ):
        go(sweep_of(), SOME, workers=Mortal(lambda index: index == 255), keeper=keeper)
    assert sorted(keeper.ranges(sweep_of())) == SOME[:-1]


@pytest.mark.apart
def test_workers_that_die_now_and_then_do_not(digest):
    """Every other time."""
    workers = Mortal(lambda index: workers.deaths <= SOME.index(index))
    assert go(sweep_of(), SOME, workers=workers).sha256 == digest
    assert workers.deaths == len(SOME)


# -- what is kept -----------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch):
    """Indices of the ranges that are done, None for steps."""
    done = []

    def ranged(sweep, index, *given):
        done.append(index)
        return exhaustive.sweep_range(sweep, index, *given)

    def stepped(*given):
        done.append(None)
        return steps_of(*given)

    monkeypatch.setattr(processes, "sweep_range", ranged)
    monkeypatch.setattr(processes, "steps_of", stepped)
    return done


def interrupted(keeper):
    """A run that Ctrl-C ends after four ranges."""

    def stop(done, total, what):
        assert total == len(SOME)
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go(sweep_of(), SOME, keeper=keeper, watch=stop)


def test_a_run_goes_on_where_it_was_interrupted(tmp_path, counted, digest):
    """No range is done twice, and the digest is that of an unbroken run."""
    interrupted(keeping.Keeper(tmp_path))
    assert counted == [None, *SOME[:4]]
    row = go(sweep_of(), SOME, keeper=keeping.Keeper(tmp_path))
    assert counted == [None, *SOME]
    assert (row.sha256, row.kept) == (digest, 4)
    assert go(sweep_of(), SOME, keeper=keeping.Keeper(tmp_path)).kept == len(SOME)
    assert counted == [None, *SOME]
    assert go(sweep_of(), SOME, keeper=keeping.Keeper(tmp_path, fresh=True)).sha256 == digest
    assert counted == [None, *SOME] * 2


@pytest.mark.parametrize("fresh", [False, True])
def test_runs_of_other_ranges_keep_what_each_other_did(tmp_path, fresh):
    """One begins and ends while another is under way, and both share a folder."""

    def other(done, total, what):
        if done == 2:
            go(sweep_of(), SOME[4:], keeper=keeping.Keeper(tmp_path, fresh=fresh))

    go(sweep_of(), SOME[:4], keeper=keeping.Keeper(tmp_path, fresh=fresh), watch=other)
    assert sorted(keeping.Keeper(tmp_path).ranges(sweep_of())) == sorted(SOME)


@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "forge", "other"])
def test_damaged_state_is_done_again(tmp_path, counted, digest, harm):
    """And told of; its own digest must be right, and it must be of this very sweep."""
    interrupted(keeping.Keeper(tmp_path))
    (path,) = tmp_path.glob("*.json")
    head, body = path.read_bytes().split(b"\n")
    if harm == "flip":
        body = body.replace(b'"ranges": [[0, 0,', b'"ranges": [[0, 1,')
    elif harm == "cut":
        body = body[:-20]
    elif harm == "empty":
        head, body = b"", b""
    elif harm == "forge":
        body = b'{"ranges": 3}'
        head = hashlib.sha256(body).hexdigest().encode()
    else:
        body = body.replace(b'"nearest', b'"farthest').replace(b"e4m3fn", b"e4m3fx")
        head = hashlib.sha256(body).hexdigest().encode()
    path.write_bytes(head + b"\n" + body)
    (steps,) = tmp_path.glob("*.steps")
    steps.write_bytes(steps.read_bytes()[:-1])
    keeper = keeping.Keeper(tmp_path)
    row = go(sweep_of(), SOME, keeper=keeper)
    assert counted == [None, *SOME[:4], None, *SOME]
    assert (row.sha256, row.kept) == (digest, 0)
    assert [line.split(" is not used, so what it kept is done again: ")[0] for line in keeper.damaged] == [
        str(path),
        str(steps),
    ]
    assert go(sweep_of(), SOME, keeper=keeping.Keeper(tmp_path)).kept == len(SOME)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        *((0, 256), (0, -1), (0, "0"), (0, 1.0), (1, 1), (1, -1), (1, True), (1, 1 << 25)),
        *((2, [0, 1]), (2, [1 << 24, 0, 0]), (2, ["0", 0, 0]), (2, {})),
        *((3, None), (3, "0" * 63), (3, "../x"), (4, "1"), (4, -1), (4, float("nan"))),
    ],
)
def test_ranges_that_cannot_be_are_done_again(tmp_path, place, wrong):
    """Although the digest of the file is right."""
    found = [0, 1 if place == 2 else 0, None, "0" * 64, 1.0]
    found[place] = wrong
    body = json.dumps({"sweep": sweep_of().identity(), "ranges": [found]}).encode()
    keeper = keeping.Keeper(tmp_path)
    keeper.store(path := f"{keeping._digest(sweep_of().identity())}.json", body)
    assert keeper.ranges(sweep_of()) == {}
    assert keeper.damaged[0].startswith(f"{tmp_path / path} is not used, so what it kept is done again: ")


@pytest.mark.parametrize("steps", [[], [[1, 0]], [[0, 0], [5, 1], [5, 2]], [[0, 256]]])
def test_steps_that_cannot_be_are_made_again(tmp_path, steps):
    """Although the digest of the file is right."""
    firsts, codes = np.array(steps, np.int64).reshape(-1, 2).T
    keeper = keeping.Keeper(tmp_path)
    keeper.keep_steps(sweep_of(), Steps(firsts, codes))
    assert keeper.steps(sweep_of()) is None
    assert "its steps do not ascend" in keeper.damaged[0]


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_what_is_planted_in_a_folder_of_state_is_neither_waited_for_nor_followed(tmp_path, kind):
    """The names of its files are known to all."""
    victim, folder = tmp_path / "victim", tmp_path / "state"
    victim.write_text("precious")
    keeper = keeping.Keeper(folder)
    path = folder / f"{keeping._digest(sweep_of().identity())}.json"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to(victim)
    assert keeper.ranges(sweep_of()) == {}
    keeper.keep_ranges(sweep_of(), [Found(0, 0, None, "0" * 64, 1.0)])
    assert victim.read_text() == "precious"
    assert not path.is_symlink()
    assert list(keeper.ranges(sweep_of())) == [0]
    assert folder.stat().st_mode & 0o077 == path.stat().st_mode & 0o077 == 0  # nobody else plants results


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid(), reason="needs root, for two users")
def test_state_that_another_user_wrote_is_not_used(tmp_path):
    """In a folder that all may write; who owns the folder may have written what is in it."""
    keeper = keeping.Keeper(tmp_path)
    keeper.keep_ranges(sweep_of(), [Found(0, 0, None, "0" * 64, 1.0)])
    path = tmp_path / f"{keeping._digest(sweep_of().identity())}.json"
    os.chown(path, 54321, -1)
    assert keeper.ranges(sweep_of()) == {}
    assert keeper.damaged == [
        f"{path} is not used, so what it kept is done again: it is another user's, who could say that "
        f"nothing differs"
    ]
    os.chown(tmp_path, 54321, -1)
    assert list(keeper.ranges(sweep_of())) == [0]


def test_state_of_other_sources_is_not_used(tmp_path, counted, monkeypatch):
    """Nor that of another version, format or projection."""
    interrupted(keeping.Keeper(tmp_path))
    for other in (
        sweep_of("e5m2"),
        sweep_of(saturations=["finite"]),
        Sweep("lowprec", "0", E4M3FN, Projection()),
    ):
        assert keeping.Keeper(tmp_path).ranges(other) == {}
    assert len(keeping.Keeper(tmp_path).ranges(sweep_of())) == 4
    monkeypatch.setattr(exhaustive, "SOURCES", "edited")
    monkeypatch.setattr(processes, "SOURCES", "edited")
    assert go(sweep_of(), SOME[:4], keeper=keeping.Keeper(tmp_path)).kept == 0
    assert counted == [None, *SOME[:4]] * 2


def test_state_of_another_codebook_of_the_name_is_not_used(tmp_path):
    """One value between the others was no difference; nor was a threshold, or a stop on the way."""

    def swept(*values, via=False, **how):
        book = lp.Codebook("mine", values, **how)
        fmt, projection = (E4M3FN, Projection(via=(book,))) if via else (book, Projection())
        return Sweep("lowprec", "0", fmt, projection)

    keeper, found = keeping.Keeper(tmp_path), exhaustive.Found(0, 0, None, "0" * 64, 1.0)
    for via in (False, True):
        first = swept(0, 1, 2, 4, via=via)
        keeper.keep_ranges(first, [found])
        keeper.keep_steps(first, Steps(np.arange(1), np.zeros(1, np.uint8)))
        assert keeper.ranges(swept(0, 1, 2, 4, via=via)) == {0: found}
        others = swept(0, 1, 3, 4, via=via), swept(0, 2, 1, 4, via=via)
        others += (
            swept(0, 1, 2, 4, thresholds=[0.5, 1.25, 3], via=via),
            swept(0, 1, 2, 4, ties="away", via=via),
        )
        others += (swept(0, 1, 2, 4, overflow="never", via=via), swept(0, 1, 2, 4, overflow=4.5, via=via))
        for other in others:
            assert (keeper.ranges(other), keeper.steps(other)) == ({}, None)


def test_an_edited_file_makes_other_sources(tmp_path, monkeypatch):
    """Any file of the package."""
    package = tmp_path / "lowprec"
    for name in ("verify/sweeps/exhaustive.py", "kernels/scalar/convert.py"):
        (package / name).parent.mkdir(parents=True)
        (package / name).write_text("x = 1\n")
    monkeypatch.setattr(exhaustive, "__file__", str(package / "verify" / "sweeps" / "exhaustive.py"))
    before = exhaustive._sources()
    assert exhaustive._sources() == before
    (package / "kernels" / "scalar" / "convert.py").write_text("x = 2\n")
    assert exhaustive._sources() != before


def test_where_state_is_kept(monkeypatch, tmp_path):
    """Beside the compiled kernels; nowhere if those are kept nowhere."""
    monkeypatch.setenv("LOWPREC_CACHE_DIR", str(tmp_path))
    assert keeping.state_folder() == tmp_path / "sweeps"
    monkeypatch.setenv("LOWPREC_CACHE_DIR", "")
    assert keeping.state_folder() is None
    monkeypatch.delenv("LOWPREC_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert keeping.state_folder() == tmp_path / "lowprec" / "sweeps"


# -- a cluster --------------------------------------------------------------------------------------


@pytest.mark.apart
def test_a_cluster_gives_the_same_digest_and_survives_a_killed_worker(digest, tmp_path):
    """A real one, by its address; its worker dies in mid-sweep."""
    need_package("distributed")
    from distributed import Client, LocalCluster

    killed = []
    quiet = {"dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(n_workers=1, threads_per_worker=1, **quiet) as cluster:
        with Client(cluster) as client:
            (pid,) = client.run(os.getpid).values()

        def kill(done, total, what):
            if done == 3 and not killed:
                killed.append(os.kill(pid, signal.SIGKILL))

        row = go(sweep_of(), SOME, workers=processes.Cluster(cluster.scheduler_address), watch=kill)
        given = ["--target", "e4m3fn", "--ranges", ",".join(map(str, SOME)), "--state", tmp_path, "--json"]
        code, out, said = command(*given, "--scheduler", cluster.scheduler_address)
    assert killed
    assert (row.sha256, row.differences) == (digest, 0)
    assert (code, said, json.loads(out)["rows"][0]["sha256"]) == (0, [], digest)


def test_without_dask_it_says_what_to_install(monkeypatch):
    """One line."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, _, said = command("--target", "e2m1fn", "--scheduler", "tcp://127.0.0.1:1")
    assert (code, said) == (2, ['Error: --scheduler needs dask.distributed; pip install "lowprec[dask]"'])


# -- the command ------------------------------------------------------------------------------------


def command(*arguments):
    """Exit code, what is printed, and the lines of complaint."""
    result = CliRunner().invoke(main, ["conform", "--exhaustive", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr.splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["tensorflop"],
            "unknown framework 'tensorflop'; use one of lowprec, ml_dtypes, numpy, torch, jax, mlx",
        ),
        (
            ["--target", "tf32"],
            "'tf32' has 19 bits, and steps for every code; exhaustive sweeps go to formats of at most",
        ),
        (["--target", "e4m3"], "format 'e4m3' is ambiguous: use 'e4m3fn'"),
        (["--rounding", "up"], "unknown rounding 'up'; use one of nearest_even"),
        (
            ["--rounding", "stochastic(8)"],
            "rounding 'stochastic(8, A)' needs a random integer for each operand",
        ),
        (["--saturation", "some"], "unknown saturation 'some'; use one of none, finite, propagate"),
        (["--target", "uint8", "--nan", "negative_zero"], "NaN cannot become 'negative_zero' in 'uint8'"),
        (["--nan", "error"], "'error' is not one of"),
        (["--source", "float32"], "--source does not go with --exhaustive, which tries every float32"),
        (["--samples", "7"], "--samples does not go with --exhaustive"),
        (
            ["--workers", "2", "--scheduler", "tcp://x:1"],
            "--workers are processes of this machine, and --scheduler has",
        ),
        (["--workers", "4097"], "4097 is not in the range 1<=x<=4096"),
        (["--ranges", "3,256"], "--ranges '3,256' must be such as 0,60-63, of ranges 0 to 255"),
        (["--ranges", "0", "--check"], "--check takes whole sweeps; leave --ranges out"),
        (["--shard", "1/2", "--write"], "--write takes whole sweeps; leave --shard out"),
        (["--shard", "0/4"], "'0/4' is no shard; give I/N, such as 1/4 to 4/4, with at most 256 shards"),
        (["--shard", "5/4"], "'5/4' is no shard; give I/N, such as 1/4 to 4/4, with at most 256 shards"),
        (["--shard", "a/b"], "'a/b' is no shard; give I/N, such as 1/4 to 4/4, with at most 256 shards"),
        (
            ["ml_dtypes", "--write"],
            "--write is for the digests of lowprec's own kernels; leave ml_dtypes out",
        ),
        (
            ["--target", "binary8p3se", "--write"],
            "--write keeps formats of the catalog; 'binary8p3se' is none",
        ),
        (["--check", "--write"], "--write and --check are two runs; say one of them"),
        (
            ["--check", "--tables", "nowhere"],
            "there is no file 'nowhere/digests.json'; name its folder with --tables",
        ),
    ],
)
def test_bad_arguments_exit_2_and_say_what_would_do(arguments, message):
    """Before any work."""
    code, out, said = command(*arguments)
    assert (code, out) == (2, "")
    assert message in " ".join(said)


def test_options_of_sweeps_need_exhaustive():
    """They would be ignored otherwise."""
    result = CliRunner().invoke(main, ["conform", "--rounding", "to_odd"])
    assert result.exit_code == 2
    assert "--rounding goes with --exhaustive only" in result.stderr


def test_nothing_compared_exits_3():
    """The framework lacks the format."""
    code, out, said = command("numpy", "--target", "e4m3fn")
    assert (code, out) == (3, "")
    assert said == ["nothing was compared: no framework has such a cast from float32"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    """With the option that names another."""
    (tmp_path / "file").touch()
    code, _, said = command("--target", "e2m1fn", "--state", tmp_path / "file" / "below", "--ranges", "0")
    folder = str(tmp_path / "file" / "below")
    why = f"Error: cannot keep what is done in {folder!r}: Not a directory; name another folder with --state"
    assert (code, said) == (2, [why])


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="ownership is POSIX's")
def test_what_is_kept_by_default_is_not_believed_where_others_may_write(tmp_path, monkeypatch, caplog):
    """As compiled kernels are not: who may write there could plant a sweep that agrees."""
    monkeypatch.setenv("LOWPREC_CACHE_DIR", str(tmp_path / "shared"))
    assert keeping.state_folder() == tmp_path / "shared" / "sweeps"
    assert (tmp_path / "shared" / "sweeps").stat().st_mode & 0o777 == 0o700
    (tmp_path / "shared").chmod(0o777)
    assert keeping.state_folder() is None
    assert f"others may write {str(tmp_path / 'shared')!r} (mode 0777)" in caplog.text


def test_the_report_has_a_row_for_every_sweep(tmp_path):
    """As JSON and as text; every mode and policy."""
    given = [
        "--target",
        "e8m0fnu",
        "--target",
        "e2m1fn",
        "--target",
        "e8m0fnu",
        "--rounding",
        "all",
        "--ranges",
        "63",
        "--workers",
        "1",
    ]
    code, out, _ = command(*given, "--saturation", "finite", "--state", tmp_path, "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["schema"], document["inputs"], document["differences"]) == (
        "lowprec.exhaustive/1",
        16 << 24,
        0,
    )
    names = [(row["format"], row["rounding"], row["saturation"], row["nan"]) for row in document["rows"]]
    assert names == [
        (fmt, mode.name, "finite", nan)
        for fmt, nan in (("e8m0fnu", None), ("e2m1fn", "max"))
        for mode in MODES
    ]
    assert list(document["rows"][0]) == [
        *("subject", "version", "format", "rounding", "saturation", "nan", "inputs", "differences"),
        *("smallest", "sha256", "seconds", "ranges", "ranges_kept"),
    ]
    code, out, _ = command(*given, "--saturation", "finite", "--state", tmp_path)
    assert code == 0
    assert (
        "16 sweeps, 268,435,456 inputs: 0 differ from the oracle; 16 of 16 ranges were done by an earlier run"
        in out
    )


def test_differences_exit_1(tmp_path):
    """Known ones are not excused."""
    given = ["--target", "e8m0fnu", "--ranges", "64", "--workers", "1", "--state", tmp_path]
    code, out, _ = command("ml_dtypes", *given)
    assert code == 1
    assert "0x40400000 0x1.8000000000000p+1 [0x81, want 0x80]" in out
    assert "1 sweeps, 16,777,216 inputs: 1 differ from the oracle" in out


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Sweeps of two ranges, and tables of their own."""
    monkeypatch.setattr(exhaustive, "RANGES", 2)
    (tmp_path / "digests.json").write_bytes((TABLES / "digests.json").read_bytes())
    return ["--target", "e2m1fn", "--workers", "1", "--state", tmp_path / "state", "--tables", tmp_path]


def test_digests_are_written_and_checked(small, tmp_path):
    """A digest that is missing or another fails; the rest of the file stays as it is."""
    path = tmp_path / "digests.json"
    for wrong in ([], {"e2m1fn": []}, {"e2m1fn": {"nearest_even/none/nan_max": {}}}):
        path.write_text(json.dumps({**json.loads(path.read_text()), "sweeps": wrong}))
        code, _, said = command(*small, "--check")  # before the work
        assert (code, "its sweeps have no digests" in " ".join(said)) == (2, True)
    path.write_text(json.dumps({**json.loads(path.read_text()), "sweeps": {"e5m2": {}}}))
    code, _, said = command(*small, "--check")
    assert code == 1
    assert said[0].startswith("e2m1fn nearest_even/none/nan_max is not in digests.json; its digest is ")
    assert said[1] == "1 digests are wrong"
    before = json.loads(path.read_text())
    code, _, said = command(*small, "--write")
    assert (code, said) == (0, [f"1 digests written to {path}"])
    after = json.loads(path.read_text())
    entry = after["sweeps"].pop("e2m1fn")
    assert after == before
    sha256 = entry["nearest_even/none/nan_max"].pop("sha256")
    assert entry["nearest_even/none/nan_max"] == {
        "inputs": 2 << 24,
        "ranges": 2,
        "projection": "nearest_even, saturation none, nan max",
        "command": "lowprec conform --exhaustive --target e2m1fn --rounding nearest_even --saturation "
        "none --nan max",
    }
    code, _, said = command(*small, "--check")
    assert (code, said) == (0, ["the digests are right"])
    path.write_text(path.read_text().replace(sha256, "0" * 64))
    code, _, said = command(*small, "--check")
    assert code == 1
    assert said == [
        f"e2m1fn nearest_even/none/nan_max in digests.json: sha256 '{'0' * 64}' must be '{sha256}'",
        "1 digests are wrong",
    ]


def test_shards_together_are_the_whole(small, tmp_path):
    """Each works on its own part; with one state the whole is then done, and its digest the same."""

    def row(*given):
        (found,) = json.loads(command(*small, *given, "--json")[1])["rows"]
        return found

    parts = [row("--shard", part) for part in ("1/2", "2/2")]
    assert [(part["ranges"], part["ranges_kept"], part["inputs"]) for part in parts] == [(1, 0, 1 << 24)] * 2
    whole = row()
    assert (whole["ranges"], whole["ranges_kept"]) == (2, 2)
    assert whole["sha256"] == row("--fresh")["sha256"]


def test_a_digest_of_wrong_codes_is_not_written(small, tmp_path, monkeypatch):
    """Exit 1, and the file stays."""
    before = json.loads((tmp_path / "digests.json").read_text())
    monkeypatch.setattr(exhaustive, "encode", lambda values, **given: lp.encode(values, **given) ^ 1)
    code, _, said = command(*small, "--write")
    assert (code, said) == (1, [f"0 digests written to {tmp_path / 'digests.json'}"])
    assert json.loads((tmp_path / "digests.json").read_text()) == before


def test_committed_digests_name_formats_of_the_catalog():
    """And the command that makes them."""
    for name, entries in json.loads((TABLES / "digests.json").read_text())["sweeps"].items():
        fmt = catalog.FORMATS[name]
        for key, entry in entries.items():
            rounding, saturation, *nan = key.split("/")
            assert bool(nan) is not fmt.has_nan
            how = Projection(rounding=rounding, saturation=saturation, nan="max" if nan else "error")
            assert entry["projection"] == str(how)
            assert f"--target {name} --rounding {rounding} --saturation {saturation}" in entry["command"]


def is_anyone_left(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.apart
def test_ctrl_c_ends_at_once_and_the_next_run_goes_on(tmp_path, digest):
    """The whole command, with its processes; also where the tests run as a job that Ctrl-C does not reach."""
    ranges = ",".join(map(str, SOME))
    given = [
        "conform",
        "--exhaustive",
        "--target",
        "e4m3fn",
        "--workers",
        "2",
        "--state",
        str(tmp_path),
        "--json",
    ]
    # More than can be done before the signal comes.
    many = ["--target", "e5m2", "--rounding", "all", "--saturation", "all"]
    reached = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    run = f"{reached}; from lowprec.cli.main import main; main()"
    program = [sys.executable, "-c", run, *given, *many]
    whole = subprocess.Popen(
        program, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    kept = keeping.Keeper(tmp_path)
    until = time.monotonic() + 600  # of a slow machine, where kernels are compiled first
    # Of this sweep, as the others' steps may be found sooner, and one of those that are asked for again.
    while not set(SOME) & set(kept.ranges(sweep_of())) and whole.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(whole.pid, signal.SIGINT)
    out, said = whole.communicate(timeout=300)
    assert (whole.returncode, out) == (130, b"")
    assert said.decode() == "interrupted; the same command goes on from here\n"
    while is_anyone_left(whole.pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_anyone_left(whole.pid)
    code, out, _ = command(*given[2:], "--ranges", ranges)
    assert code == 0
    (row,) = json.loads(out)["rows"]
    assert row["sha256"] == digest
    assert row["ranges_kept"] > 0


def test_every_framework_of_float32_can_be_named():
    """Those that are installed are swept by default formats that they have."""
    for name, framework in FRAMEWORKS.items():
        if framework.version is not None and "float32" in framework.sources:
            sweeps = plan([name])
            assert {sweep.fmt for sweep in sweeps} == {
                fmt for fmt in framework.targets() if fmt.width <= 16 and fmt in catalog.FORMATS.values()
            }
            assert {sweep.projection.rounding for sweep in sweeps} <= {framework.projection.rounding}
            assert {sweep.projection.saturation for sweep in sweeps} <= {framework.projection.saturation}


def test_values_are_taken_for_their_codes(monkeypatch):
    """What lies between two values of the format has none; NaNs are all alike."""
    right = dataclasses.replace(
        FRAMEWORKS["ml_dtypes"],
        cast=lambda values, fmt: lp.quantize(values, fmt, rounding="nearest_even") * np.float32(1),
    )
    monkeypatch.setitem(FRAMEWORKS, "ml_dtypes", right)
    (sweep,) = plan(["ml_dtypes"], [E4M3FN])
    for index in (63, 127, 255):
        assert exhaustive.sweep_range(sweep, index, steps_of(sweep).within(index)).differences == 0
    monkeypatch.setitem(FRAMEWORKS, "ml_dtypes", dataclasses.replace(right, cast=lambda values, fmt: values))
    found = exhaustive.sweep_range(sweep, 63, steps_of(sweep).within(63))
    assert found.differences > 0
    assert found.smallest[1] == 0xFFFFFFFF
