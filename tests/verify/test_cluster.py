"""Comparisons and vectors on a cluster: the same report and the same bytes, whoever worked."""

from __future__ import annotations

import re
import sys
from concurrent.futures import CancelledError, Future

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.export.vectors import suite
from lowprec.spec import catalog
from lowprec.spec.projection import DEFAULT
from lowprec.verify.compare import sample
from lowprec.verify.compare.judging import judge
from lowprec.verify.dumps.files import Held, open_dump
from lowprec.verify.questions.blocks import blocks
from lowprec.verify.questions.blocks.blocks import BlockQuestion
from lowprec.verify.questions.elements import elements
from lowprec.verify.questions.elements.elements import ElementQuestion
from lowprec.verify.sweeps import cluster, keeping, processes
from tests.programs import need_package

pytestmark = pytest.mark.apart

VALUES = (np.random.default_rng(1).standard_normal((640, 96)) * 30).astype(np.float32)
E4M3FN = lp.format("e4m3fn")


class Shuffled(processes.Here):
    """Workers that take several tasks, and finish the last one first."""

    ahead = 5

    def wait(self, pending):
        """Return one of them has ended."""
        return {list(pending)[-1]}


def element_question(*, nan=False):
    values = VALUES.copy()
    if nan:
        values[::7, 3] = np.nan
    target = lp.format("e2m1fn") if nan else E4M3FN
    how = lp.Projection(nan="zero", saturation="finite")
    got = np.asarray(lp.encode(values, target, projection=how))
    got[5, 5] ^= 1
    got[300:302, 5] ^= target.sign_code  # in two pieces the sign alone
    got.reshape(-1)[40_000:] = lp.encode(
        values, target, projection=lp.Projection(nan="zero", rounding="toward_zero", saturation="finite")
    ).reshape(-1)[40_000:]
    formats = (catalog.BINARY32, target)
    return ElementQuestion("convert", [Held(values)], formats, DEFAULT, Held(got))


def block_question():
    made = lp.encode(VALUES, "mxfp4", rule="even")
    return BlockQuestion(Held(VALUES), catalog.MXFP4, Held(made.codes), scales=Held(made.scales))


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Many pieces of a few thousand results."""
    monkeypatch.setattr(elements, "_PIECE", 3001)
    monkeypatch.setattr(blocks, "_PIECE", 3001)
    monkeypatch.setattr(cluster, "_TOGETHER", 2)


@pytest.mark.parametrize("address", ["garbage", "tcp://", "127.0.0.1", "http://a:1", "inproc://x"])
def test_what_is_no_address_of_a_scheduler_is_refused_at_once(address):
    with pytest.raises(keeping.SweepError, match="is no address of a Dask scheduler, such as tcp://"):
        processes.Cluster(address)


@pytest.mark.parametrize("limit", [0, 7, None])
@pytest.mark.parametrize(
    "question",
    [element_question, lambda: element_question(nan=True), block_question],
    ids=["elements", "NaN", "blocks"],
)
def test_who_works_in_which_order_changes_no_report(question, limit):
    """Counts, first mismatches, sample and causes; with results that are left out too."""
    want = judge(question(), limit=limit)
    assert want.mismatches > 1000
    assert len(want.details) == (want.mismatches if limit is None else limit)
    assert want.tally.signs == 2 or isinstance(question(), BlockQuestion)
    assert want.diagnosis is not None
    for workers in (processes.Here(), Shuffled()):
        got = judge(question(), limit=limit, each=cluster.each_on(workers, question()))
        assert got.as_json() == want.as_json()
        assert got.as_text() == want.as_text()


@pytest.mark.parametrize("size", [1, 1000, 3001])
def test_a_sample_joins_to_the_same_however_it_is_cut(monkeypatch, size):
    """The lowest keys of all places, which a place has for itself."""
    monkeypatch.setattr(sample, "_MISMATCHES", 50)
    monkeypatch.setattr(sample, "MATCHES", 50)
    wrong = np.random.default_rng(3).random(9001) < 0.3
    whole, joined = sample.Sample(), sample.Sample()
    whole.add(0, wrong)
    for start in range(0, 9001, size):
        part = sample.Sample(joined.below)
        part.add(start, wrong[start : start + size])
        joined.join(part)
    keys = np.random.default_rng(0).random(9001, np.float32)
    for got, also, of in zip(joined.places(), whole.places(), (wrong, ~wrong), strict=True):
        lowest = np.sort(np.flatnonzero(of)[np.argsort(keys[of])[:50]])
        assert np.array_equal(got, lowest)
        assert np.array_equal(also, lowest)


def test_equal_keys_are_drawn_from_the_front():
    """Else two parts with such keys would join otherwise than one."""
    drawn = sample._Drawn(3)
    drawn.add(np.arange(6), np.array([5, 2, 2, 1, 2, 9], np.float32))
    drawn.add(np.array([6]), np.array([2], np.float32))
    assert drawn.held.tolist() == [1, 2, 3]


def test_results_come_in_the_order_of_tasks():
    """As many as there are, none too."""
    assert list(cluster.in_order(Shuffled(), pow, ((n, 2) for n in range(23)))) == [n * n for n in range(23)]
    assert list(cluster.in_order(Shuffled(), pow, iter(()))) == []


# -- what goes wrong --------------------------------------------------------------------------------


class Ends(processes.Here):
    """Workers whose tasks all end so."""

    died = (KeyError,)

    def __init__(self, error):
        self.error = error

    def submit(self, function, *given):
        """Fail."""
        future = Future()
        future.set_exception(self.error)
        return future


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("worker"), "workers died of a task again and again; give them more memory"),
        (CancelledError(), "the scheduler gave up its tasks; run the same again"),
        (ValueError("a reason"), "ValueError: a reason"),
    ],
)
def test_a_task_that_fails_ends_the_run(error, message):
    """With the reason."""
    with pytest.raises(keeping.SweepError, match=f"^{re.escape(message)}$"):
        list(cluster.in_order(Ends(error), pow, [(1, 2)]))


def test_a_file_that_workers_do_not_see_is_named(tmp_path):
    """As the worker knows it."""
    np.save(tmp_path / "x.npy", VALUES)
    np.save(tmp_path / "codes.npy", lp.encode(VALUES, "e4m3fn"))
    dumps = [open_dump(str(tmp_path / name)) for name in ("x.npy", "codes.npy")]
    question = ElementQuestion("convert", dumps[:1], (catalog.BINARY32, E4M3FN), DEFAULT, dumps[1])
    (tmp_path / "codes.npy").unlink()
    message = (
        f"a worker does not see '{tmp_path / 'codes.npy'}': all of them must read the files that the command "
        f"reads, by the same names"
    )
    with pytest.raises(keeping.SweepError, match=f"^{re.escape(message)}$"):
        judge(question, each=cluster.each_on(processes.Here(), question))


def test_files_have_whole_names(tmp_path, monkeypatch):
    """A worker may stand in another folder."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", VALUES)
    dump = open_dump("x.npy")
    monkeypatch.chdir("/")
    assert np.array_equal(dump.read(0, 5), VALUES[0, :5])


def test_a_worker_with_other_sources_refuses(monkeypatch):
    """What it would do may be something else."""
    monkeypatch.setattr(cluster, "SOURCES", "others")
    with pytest.raises(keeping.SweepError, match="runs other sources of lowprec"):
        list(cluster.in_order(processes.Here(), pow, [(1, 2)]))


def command(*words):
    run = CliRunner().invoke(main, [*map(str, words)])
    return run.exit_code, run.stderr.splitlines()[-1:]


def test_what_a_scheduler_is_not_for(tmp_path, monkeypatch):
    """Lines, and products, whose factors are in memory; and what to install."""
    np.save(tmp_path / "x.npy", np.ones((4, 4), np.float32))
    file = tmp_path / "x.npy"
    assert command("compare", "-", "add", "e4m3fn", "e4m3fn", "e4m3fn", "--scheduler", "tcp://x:1") == (
        2, ["Error: --scheduler is for files of arrays, which workers can read too"],
    )  # fmt: skip
    assert command("compare", file, file, file, "--operation", "matmul", "--scheduler", "tcp://x:1") == (
        2, ["Error: scheduler= is for dumps that are read in pieces, and matmul reads its factors at once; "
            "leave it out"],
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "distributed", None)
    for words in (("compare", file, file, "--to", "e4m3fn"), ("vectors", "convert", "e5m2", "e4m3fn")):
        assert command(*words, "--scheduler", "tcp://x:1") == (
            2, ['Error: --scheduler needs dask.distributed; pip install "lowprec[dask]"'],
        )  # fmt: skip


# -- a cluster --------------------------------------------------------------------------------------


@pytest.mark.apart
def test_a_cluster_gives_the_same_reports_and_vectors(tmp_path):
    """Two processes; by the commands."""
    need_package("distributed")
    from distributed import LocalCluster

    big = np.tile(VALUES, (20, 1))
    codes = np.asarray(lp.encode(big, "e4m3fn"))
    codes[600_0:] = lp.encode(big, "e4m3fn", rounding="toward_zero")[600_0:]
    made = lp.encode(big, "nvfp4", rule=None, rounding="toward_zero")
    flags = np.zeros(big.shape, np.uint8)
    lp.encode(big, "e4m3fn", flags=flags)
    flags[600_0:] = np.where(big[600_0:] > 0, flags[600_0:] ^ 1, flags[600_0:] & ~np.uint8(lp.Flag.UNDERFLOW))
    files = {"x": big, "codes": codes, "blocks": made.codes, "scales": made.scales, "flags": flags}
    for name, array in files.items():
        np.save(tmp_path / f"{name}.npy", array)
    files = {name: str(tmp_path / f"{name}.npy") for name in files}
    runs = [
        ["compare", files["x"], files["codes"], "--to", "e4m3fn", "--json"],
        ["compare", files["x"], files["codes"]],
        ["compare", files["x"], files["codes"], "--to", "e4m3fn", "--flags", files["flags"]],
        ["compare", files["x"], files["blocks"], "--to", "nvfp4", "--scales", files["scales"]],
        ["vectors", "fma", "e4m3fn", "e5m2", "binary32", "binary32", "--samples", "300000", "--as", "npy"],
        ["vectors", "convert", "binary32", "e2m1fn"],
    ]
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as dask:
        for words in runs:
            here = CliRunner().invoke(main, words)
            there = CliRunner().invoke(main, [*words, "--scheduler", dask.scheduler_address])
            assert (there.exit_code, there.stderr) == (here.exit_code, here.stderr)
            assert there.stdout_bytes == here.stdout_bytes
            assert len(here.stdout_bytes) > 300


def test_vectors_come_in_parts(monkeypatch):
    """With cases that are left out."""
    monkeypatch.setattr("lowprec.export.vectors._PART", 1000)
    monkeypatch.setattr(cluster, "cluster", lambda address: _As(Shuffled()))
    formats = (catalog.BINARY32, lp.format("e2m1fn"))
    want = suite("convert", formats)
    got = suite("convert", formats, scheduler="tcp://x:1")
    assert (got.left_out, got.render("text")) == (want.left_out, want.render("text"))
    assert want.left_out


class _As:
    """Something as a context."""

    def __init__(self, made):
        self.made = made

    def __enter__(self):
        return self.made

    def __exit__(self, *_):
        pass
