"""Threads share large arrays, and nobody can tell from the results, nor from how a process ends."""

import functools
import itertools
import os
import pathlib
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numba
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays import special, threads
from lowprec.arrays.threads import SHARED_FROM, share

ROOT = pathlib.Path(__file__).parents[2]

COUNTS = (1, 2, 3, 7)

#: Around the size from which threads are used, and beyond it; most are multiples of nothing.
SIZES = (SHARED_FROM - 1, SHARED_FROM, SHARED_FROM + 1, SHARED_FROM + 4099, 2 * SHARED_FROM + 12347)

#: Less than what is shared; no multiple of anything either.
PIECE = 99991


@pytest.fixture(autouse=True)
def _usual():
    """Each test leaves the number of threads as it was."""
    before = lp.get_threads()
    yield
    lp.set_threads(before)


with np.errstate(invalid="ignore"):
    VALUES = np.random.default_rng(20261121).integers(0, 1 << 32, SIZES[-1], np.uint32).view(np.float32)
CODES = VALUES.view(np.uint8)[::4].copy()


@functools.cache
def _random():
    """The integers that `rng=7` stands for, with eight bits."""
    return lp.random_bits(SIZES[-1], 7, 8)


def _in_place(verb, array, *formats):
    return verb(array, *formats, out=array)


#: Each verb on the elements from `start` to `stop`; `whole` tells it that these are all, so that a key will
#: do.
VERBS = {
    "encode": lambda start, stop, whole: lp.encode(VALUES[start:stop], "e4m3fn"),
    "decode": lambda start, stop, whole: lp.decode(CODES[start:stop], "e4m3fn"),
    "quantize_in_place": lambda start, stop, whole: _in_place(
        lp.quantize, VALUES[start:stop].copy(), "e4m3fn"
    ),
    "cast_in_place": lambda start, stop, whole: _in_place(
        lp.cast, CODES[start:stop].copy(), "e4m3fn", "e5m2"
    ),
    "random": lambda start, stop, whole: lp.encode(
        VALUES[start:stop], "e4m3fn", rounding="stochastic(8)", random=_random()[start:stop]
    ),
    "rng": lambda start, stop, whole: lp.encode(
        VALUES[start:stop],
        "e4m3fn",
        rounding="stochastic(8)",
        **({"rng": 7} if whole else {"random": _random()[start:stop]}),
    ),
}


@pytest.fixture(scope="module")
def expected():
    """The results of every verb, in pieces that no thread but the caller's sees."""
    borders = [*range(0, SIZES[-1], PIECE), SIZES[-1]]
    return {
        name: np.concatenate([verb(start, stop, False) for start, stop in itertools.pairwise(borders)])
        for name, verb in VERBS.items()
    }


def test_the_expected_codes_are_those_of_ml_dtypes(expected):
    """Once; all else is compared with these."""
    with np.errstate(all="ignore"):
        theirs = VALUES.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
        assert np.array_equal(expected["encode"], theirs)
        values = CODES.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert np.array_equal(expected["decode"], values, equal_nan=True)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", VERBS)
def test_results_do_not_depend_on_the_number_of_threads(name, count, expected):
    """Bit for bit, for sizes that do not divide; each element has its own random integer whoever draws it."""
    lp.set_threads(count)
    for size in SIZES:
        assert VERBS[name](0, size, True).tobytes() == expected[name][:size].tobytes(), size


SOME = np.random.default_rng(6).standard_normal((2640, 1140)).astype(np.float32) * 3
DRAWN = {"rounding": "stochastic(8)", "rng": 5}
LARGE = {
    "add": lambda: lp.add(SOME, SOME[::-1], "e5m2"),
    "erf": lambda: special.erf(np.float64(SOME)),
    "products": lambda: lp.matmul(SOME[:64, :96], SOME[:96, :90], "bf16_sequential"),
    "drawn products": lambda: lp.matmul(SOME[:64, :96], SOME[:96, :90], BFLOAT16_DRAWN, rng=1),
    **{
        f"{name}, {len(how)}": functools.partial(lp.encode, SOME, name, **how)
        for name in ("mxfp8_e4m3", "mxfp4", "mxint8", "nvfp4", "nvfp4_2d")
        for how in ({}, DRAWN)
    },
}
BFLOAT16_DRAWN = lp.Accumulation(
    accumulator=("bfloat16", "stochastic(8)"), output=("bfloat16", "stochastic(8)")
)


@pytest.mark.parametrize("name", LARGE)
def test_large_results_do_not_depend_on_the_number_of_threads(name):
    """Operations, functions, products, which are shared out by rows, and blocks; random integers too."""
    found = []
    for count in COUNTS[:3]:
        lp.set_threads(count)
        made = LARGE[name]()
        parts = (made.codes, made.scales) if isinstance(made, lp.BlockArray) else (made,)
        found.append([part.tobytes() for part in parts])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("count", COUNTS)
def test_arrays_of_more_dimensions_are_shared_in_the_order_of_their_memory(count, expected):
    """C order and Fortran order; the codes are where the values were."""
    lp.set_threads(count)
    shape = (1021, 1031)
    assert shape[0] * shape[1] > SHARED_FROM
    want = expected["encode"][: shape[0] * shape[1]].reshape(shape)
    values = VALUES[: shape[0] * shape[1]].reshape(shape)
    out = np.empty(shape, np.uint8, order="F")
    assert np.array_equal(lp.encode(values, "e4m3fn"), want)
    assert np.array_equal(lp.encode(np.asfortranarray(values), "e4m3fn"), want)
    assert np.array_equal(lp.encode(np.asfortranarray(values), "e4m3fn", out=out), want)
    drawn = expected["rng"][: shape[0] * shape[1]].reshape(shape)
    for order in "CF":
        laid = np.asarray(values, order=order)
        assert np.array_equal(lp.encode(laid, "e4m3fn", rounding="stochastic(8)", rng=7), drawn)


# -- sharing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [*COUNTS, 1000])
@pytest.mark.parametrize("size", [0, 1, *SIZES, 1 << 24])
def test_the_parts_are_all_of_the_range_once(size, count):
    """In order without a gap, each from a multiple of 16 on; the largest result is that of all."""
    lp.set_threads(count)
    seen = []

    def part(start, stop):
        seen.append((start, stop))
        return stop

    assert share(part, size) == size
    seen.sort()
    assert [start for start, _ in seen] == [0, *(stop for _, stop in seen[:-1])]
    assert seen[-1][1] == size
    assert all(start % 16 == 0 for start, _ in seen)
    assert len(seen) == 1 if size < SHARED_FROM else len(seen) <= count
    assert all(start < stop for start, stop in seen) or size == 0


def test_as_many_parts_run_at_the_same_time_as_there_are_threads():
    """Each waits for the others: in fewer threads none would get on."""
    for count in (2, 3, 7):
        lp.set_threads(count)
        together = threading.Barrier(count, timeout=60)
        names = set()

        def part(start, stop, together=together, names=names):
            together.wait()
            names.add(threading.get_ident())
            return 0

        assert share(part, 16 * SHARED_FROM) == 0
        assert len(names) == count
        assert threading.get_ident() in names


@pytest.mark.parametrize("failing", [0, 1])
def test_an_exception_in_any_part_reaches_the_caller(failing):
    """In the caller's own part, and in that of another thread."""
    lp.set_threads(2)

    def part(start, stop):
        if (start > 0) == failing:
            raise ValueError("in this part")
        return 0

    with pytest.raises(ValueError, match="in this part"):
        share(part, SHARED_FROM)


@pytest.mark.parametrize(
    "places", [(SIZES[-1] - 1,), (5, SIZES[-1] - 2), (SHARED_FROM,), (SIZES[-1] // 2 + 5000,)]
)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_refused_nan_is_reported_at_its_place(places, count):
    """Whoever meets it: all NaNs are counted, and the first is named; nothing is written."""
    lp.set_threads(count)
    values = np.ones(SIZES[-1], np.float32)
    values[list(places)] = np.nan
    size, are = len(places), "is" if len(places) == 1 else "are"
    message = (
        rf"^cannot encode NaN values as 'e2m1fn', which has no NaN code: {size} of {values.size:,} {are} "
        rf"NaN, the first at index \({places[0]},\)\. "
    )
    out, floats = np.full(values.size, 77, np.uint8), values.copy()
    with pytest.raises(ValueError, match=message):
        lp.encode(values, "e2m1fn")
    with pytest.raises(ValueError, match=message):
        lp.encode(values, "e2m1fn", out=out)
    with pytest.raises(ValueError, match=message):
        lp.quantize(floats, "e2m1fn", out=floats)
    assert (out == 77).all()
    assert floats.tobytes() == values.tobytes()


def test_a_part_is_done_once_even_if_no_thread_could_be_started(monkeypatch, expected):
    """If the system is out of threads, the caller does it all, and nothing is left for a later thread to do.

    Whoever did a part of a cast in place again would spoil it.
    """
    lp.set_threads(2)
    codes, start, failures = CODES.copy(), threading.Thread.start, [RuntimeError("can't start new thread")]

    def fail_once(thread):
        if failures:
            raise failures.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail_once)
    lp.cast(codes, "e4m3fn", "e5m2", out=codes)
    assert failures == []
    assert codes.tobytes() == expected["cast_in_place"].tobytes()
    assert lp.encode(VALUES, "e4m3fn").tobytes() == expected["encode"].tobytes()
    assert codes.tobytes() == expected["cast_in_place"].tobytes()


def test_a_part_that_could_not_be_given_away_is_done_before_the_call_ends(monkeypatch):
    """The second thread cannot start, but the first one takes its share, and is waited for."""
    lp.set_threads(3)
    start, started, done = threading.Thread.start, [], []

    def only_one(thread):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    def part(begin, stop):
        time.sleep((0.3, 0.0, 0.6)[min(2, begin * 3 // SHARED_FROM)])
        done.append(begin)
        return begin

    monkeypatch.setattr(threading.Thread, "start", only_one)
    largest = share(part, SHARED_FROM)
    assert len(done) == 3
    assert largest == max(done) > 0


# -- callers ----------------------------------------------------------------------------------------


def test_many_threads_may_call_at_once(expected):
    """Eight of them, each verb in turn, on arrays that are shared and on others."""
    lp.set_threads(3)
    jobs = [(name, size) for size in (1000, PIECE, *SIZES) for name in VERBS] * 2

    def right(job):
        name, size = job
        return VERBS[name](0, size, True).tobytes() == expected[name][:size].tobytes()

    with ThreadPoolExecutor(8) as callers:
        assert list(callers.map(right, jobs, timeout=300)) == [True] * len(jobs)


def test_the_number_of_threads_may_change_while_others_convert(expected):
    """A call that has begun ends with the threads that it has."""
    ended, size = threading.Event(), SIZES[-2]

    def convert():
        wrong = done = 0
        while not ended.is_set() or not done:
            wrong += lp.encode(VALUES[:size], "e4m3fn").tobytes() != expected["encode"][:size].tobytes()
            done += 1
        return wrong

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as callers:
            waiting = [callers.submit(convert) for _ in range(4)]
            try:
                for turn in range(300):
                    lp.set_threads(COUNTS[turn % len(COUNTS)])
                    ended.wait(0.001)
            finally:
                ended.set()
            assert [future.result(timeout=300) for future in waiting] == [0] * 4
    finally:
        sys.setswitchinterval(before)


# -- processes --------------------------------------------------------------------------------------

BEGIN = """
import atexit, os, signal, sys, threading, time
import numba
import numpy as np
import lowprec as lp

values = np.random.default_rng(1).standard_normal(1 << 20).astype(np.float32)
want = np.concatenate([lp.encode(part, "e4m3fn") for part in np.split(values, 64)]).tobytes()

def right():
    return lp.encode(values, "e4m3fn").tobytes() == want

"""


def _printed(program, **environment):
    """What a program prints that ends well, and soon."""
    run = subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        cwd=ROOT,
        env={**os.environ, "LOWPREC_NUM_THREADS": "3", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr, run.stderr
    return run.stdout.split()


FORK = """
def fork():
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # so that it ends even if it hangs
        sys.exit(0 if right() and right() else 1)
    if os.waitpid(child, 0)[1] != 0:
        os._exit(1)

fork()
print(right())
fork()
ended = threading.Event()
def convert():
    while not ended.is_set():
        right()
busy = threading.Thread(target=convert)
busy.start()
for _ in range(3):
    fork()
ended.set()
busy.join()
print(right())
"""


@pytest.mark.apart
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_after_a_fork_the_child_converts_large_arrays():
    """Before its parent uses threads, after, and during; a child waiting for lost threads would hang."""
    assert _printed(FORK) == ["True"] * 2


ENDING = """
print(right())
atexit.register(lambda: print(right()))
def late():
    threading.main_thread().join()
    time.sleep(0.1)
    print(right())
threading.Thread(target=late).start()
"""


def test_large_arrays_are_converted_while_the_interpreter_ends():
    """In a thread that outlives the main one, and in atexit functions: no thread can be started then."""
    assert _printed(ENDING) == ["True"] * 3


# -- settings ---------------------------------------------------------------------------------------


def test_the_number_of_threads_is_what_was_set():
    """Any integer, NumPy's too; it is given back as Python's."""
    for count in (1, 2, np.int64(3), np.uint8(7), 1000):
        lp.set_threads(count)
        assert lp.get_threads() == count
        assert type(lp.get_threads()) is int


@pytest.mark.parametrize("count", [0, -1, np.int8(-5)])
def test_less_than_one_thread_is_refused(count):
    """The number that was set before stays."""
    lp.set_threads(5)
    with pytest.raises(ValueError, match=rf"^the number of threads must be 1 or more, not {count}$"):
        lp.set_threads(count)
    assert lp.get_threads() == 5


@pytest.mark.parametrize(("count", "spelled"), [(True, "True"), (1.5, r"1\.5"), ("2", "'2'"), (None, "None")])
def test_what_is_no_integer_is_refused(count, spelled):
    """Nor is a truth value one."""
    lp.set_threads(5)
    with pytest.raises(TypeError, match=rf"^the number of threads must be an integer, not {spelled}$"):
        lp.set_threads(count)
    assert lp.get_threads() == 5


@pytest.mark.parametrize("asked", ["0", "-1", "two", "1.5", "1e3", " 2", "+2", "²"])
def test_an_environment_variable_that_is_no_number_of_threads_is_refused(asked, monkeypatch):
    """When it is first needed, and each time, until it is mended or a number is set."""
    monkeypatch.setattr(threads, "_threads", None)
    monkeypatch.setenv("LOWPREC_NUM_THREADS", asked)
    for _ in range(2):
        with pytest.raises(ValueError, match="LOWPREC_NUM_THREADS") as refused:
            lp.get_threads()
        assert str(refused.value) == (
            f"LOWPREC_NUM_THREADS={asked!r} is no number of threads; set it to 1 or more, or unset it"
        )
    with pytest.raises(ValueError, match="is no number of threads"):
        lp.encode(VALUES, "e4m3fn")
    lp.set_threads(2)
    assert lp.get_threads() == 2


def test_the_environment_variable_is_used_until_a_number_is_set(monkeypatch):
    """Unset or empty it means as many as there are processors for this process."""
    for asked, count in (("3", 3), ("", None), (None, None)):
        monkeypatch.setattr(threads, "_threads", None)
        if asked is None:
            monkeypatch.delenv("LOWPREC_NUM_THREADS")
        else:
            monkeypatch.setenv("LOWPREC_NUM_THREADS", asked)
        if count is None:
            count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        assert lp.get_threads() == count
        monkeypatch.setenv("LOWPREC_NUM_THREADS", "9")
        assert lp.get_threads() == count


FORK_AND_COMPILE = """
import os, sys, threading, time
import numba
import numpy as np
from lowprec.kernels.jit import jit

def compile_one(name):
    def add(x):
        return x[0] + 1
    jit(add, name)(np.ones(2))

def compile_many():
    for number in range(1000):
        compile_one(f"parent_{number}")

compile_one("first")
threading.Thread(target=compile_many, daemon=True).start()
for number in range(5):
    time.sleep(0.05)
    child = os.fork()
    if not child:
        compile_one(f"child_{number}")
        os._exit(0)
    until = time.monotonic() + 55
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, 9)
            sys.exit("a child hangs")
        time.sleep(0.01)
os._exit(0)
"""


@pytest.mark.apart
@pytest.mark.skipif(
    not hasattr(os, "fork") or bool(numba.config.DISABLE_JIT), reason="forks while kernels compile"
)
def test_a_child_that_is_forked_while_another_thread_compiles_compiles_too():
    """The compiler's lock is held by a thread that the child does not have, unless the fork waits for it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_AND_COMPILE],
        env={**os.environ, "LOWPREC_CACHE_DIR": ""}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
