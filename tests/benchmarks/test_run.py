"""A benchmark must time right results only, compute its ratios right, and say when it says nothing."""

import dataclasses
import functools
import itertools
import json

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

import lowprec as lp
from benchmarks import blocks, conversions, peers, run, startup
from benchmarks.__main__ import main
from benchmarks.contest import WrongResult
from benchmarks.data import values as data
from benchmarks.report import Report, Row
from benchmarks.timing import Contender, Timed, interleave
from benchmarks.topics import TARGETS, TOPICS, Job, Target
from lowprec.export import cards
from lowprec.oracle.convert import decode as decode_exactly
from lowprec.spec import catalog
from lowprec.verify.compare.lines import compare_lines

pytestmark = pytest.mark.apart

E4M3FN = catalog.E4M3FN


def command(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def rows_of(*arguments):
    result = command(*arguments, "--budget", 0, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def timed(name, role, out, *seconds, threads=1, differ=None):
    return Timed(name, role, out, lambda: None, threads=threads, seconds=seconds, differ=differ)


# -- the command ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("core")
def test_every_topic_runs_to_the_end_with_the_core_dependencies_only():
    """Tiny arrays; the JSON has what docs/bench.md promises."""
    topics = ["cast", "decode", "quantize", "modes", "stochastic", "f64", "small"]
    found = rows_of(*topics, "--size", 65, "--format", "e4m3fn")
    assert found["schema"] == "lowprec.bench/1"
    assert found["versions"]["ml_dtypes"]
    assert {"torch", "jax", "gfloat", "CPFloat"} <= set(found["not_found"])
    assert {"cpu", "cores", "usable_cores", "load_before", "load_after", "python"} <= set(found["machine"])
    assert {row["topic"] for row in found["rows"]} == set(topics)
    assert [row["variant"] for row in found["rows"] if row["topic"] == "modes"] == list(
        TOPICS["modes"].variants
    )
    for row in found["rows"]:
        assert (row["format"], row["size"], row["threads"]) == ("e4m3fn", 65, 1)
        assert row["noise"] >= 0
        assert row["too_noisy"] == (row["noise"] > found["noise_limit"])
        for memory in ("out", "alloc"):
            assert row[memory]["to_stream"] > 0
            peer = None if row["topic"] in ("modes", "stochastic") else "ml_dtypes"
            assert row[memory]["best_peer"] == peer
        for contender in row["contenders"]:
            assert len(contender["seconds"]) >= 5
            assert contender["differ"] == (0 if contender["role"] == "peer" else None)


@pytest.mark.usefixtures("core")
def test_hard_data_are_timed_beside_normal_data_and_judged():
    """Data of either kind must take as long: the two are in one row."""
    (row,) = rows_of("cast", "--data", "hard", "--size", 65536, "--format", "e4m3fn")["rows"]
    assert {"own normal", "stream", "lowprec"} <= {contender["name"] for contender in row["contenders"]}
    assert [target["against"] for target in row["targets"]] == ["own normal"]
    assert row["targets"][0]["verdict"] in ("ok", "short", "too noisy")


@pytest.mark.usefixtures("core")
def test_several_threads_are_timed_beside_one():
    """And the process is left with as many as it had."""
    before = lp.get_threads()
    try:
        lp.set_threads(3)
        found = rows_of("threads", "--threads", 2, "--size", 1 << 19, "--format", "e5m2")["rows"]
        assert lp.get_threads() == 3
    finally:
        lp.set_threads(before)
    assert [row["variant"] for row in found] == list(TOPICS["threads"].variants)
    for row in found:
        used = {contender["name"]: contender["threads"] for contender in row["contenders"]}
        assert (used["lowprec"], used["stream"], used["own 1 thread"]) == (2, 2, 1)


@pytest.mark.usefixtures("core")
def test_processes_are_timed_too():
    """The shortest of them; a folder of its own stands for a cold cache."""
    job = run.plan(["import"])[0]
    row = run.run([job], budget=0).rows[0]
    assert row.job.variant == "import"
    assert row.best_peer(False).name in ("numpy", "ml_dtypes")
    assert row.to_stream(False) > 0


def test_the_answers_that_compare_is_timed_with_are_right_and_of_the_size_said():
    """Else it would be timed at reporting errors."""
    text = startup._answers(100_000)
    assert 95_000 < len(text) <= 100_000
    report = compare_lines(text.decode().splitlines(), "convert", (catalog.BINARY32, E4M3FN))
    assert report.compared > 6000
    assert report.mismatches == 0


@pytest.mark.usefixtures("core")
def test_tables_name_the_verdicts_and_what_was_not_found():
    """What one reads without --json."""
    result = command("small", "cast", "--size", 100, "--format", "e4m3fn", "--budget", 0)
    assert result.exit_code == 0
    assert "what a call costs" in result.stdout
    assert " of 0.25 ml_dtypes, new" in result.stdout
    assert "not found: torch, torchao, jax, gfloat, apytypes, qtorch, CPFloat" in result.stdout
    assert "3 rows" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["smal"], "unknown topic 'smal'; use one of cast, decode, quantize, modes, stochastic, f64, small"),
        (["cast", "--data", "easy"], "unknown kind of data 'easy'; use one of normal, hard, subnormal, nan"),
        (["cast", "--format", "e4m3fm"], "unknown format 'e4m3fm'; did you mean 'e4m3fn'"),
        (
            ["cast", "--format", "e2m1fn", "--data", "nan"],
            "there is nothing to time: the formats have no such data",
        ),
    ],
)
def test_what_cannot_be_timed_is_refused_with_the_choices(arguments, said):
    """Exit code 2, as for all misuse."""
    result = command(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


# -- right results only -----------------------------------------------------------------------------


def wrong(place):
    """An encode that is wrong at one place."""

    @functools.wraps(lp.encode)
    def encode(values, fmt, **keywords):
        codes = lp.encode(values, fmt, **keywords)
        codes[place] ^= 1
        return codes

    return encode


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize(
    ("topic", "place", "by"), [("cast", 1001, "ml_dtypes or NumPy"), ("modes", 0, "the oracle")]
)
def test_a_wrong_result_is_refused_before_timing(monkeypatch, topic, place, by):
    """One wrong code of 4,096 suffices where there is a witness, one of 64 places where there is none."""
    monkeypatch.setattr(conversions, "encode", wrong(place))
    monkeypatch.setattr(run, "interleave", None)
    result = command(topic, "--size", 4096, "--format", "e4m3fn", "--data", "normal")
    assert result.exit_code == 1
    assert f"lowprec is wrong and is not timed: {topic}" in result.stderr
    assert (
        f"1 of {4096 if topic == 'cast' else 64:,} results are not those of {by}, the first at index {place}"
        in (result.stderr)
    )


@pytest.mark.usefixtures("core")
def test_a_witness_that_is_known_to_be_wrong_is_not_believed():
    """ml_dtypes rounds ties of powers of two up: that is no error of lowprec's, but the row shows it."""
    (row,) = rows_of("cast", "--data", "hard", "--size", 65536, "--format", "e8m0fnu")["rows"]
    assert all(contender["differ"] > 0 for contender in row["contenders"] if contender["role"] == "peer")


def test_a_peer_that_fails_is_left_out_and_named(core, monkeypatch):
    """Other libraries change; the rest of the row is timed all the same."""

    def ways(work):
        def fail():
            raise NotImplementedError("no such\ncast")

        yield peers.Way(True, fail, np.asarray)

    found = core | {"planted": peers.Peer("planted", ("numpy",), ways)}
    monkeypatch.setattr(peers, "find", lambda threads: (found, {}))
    report = run.run(run.plan(["cast"], formats=[E4M3FN], sizes=[9], kinds=["normal"]), budget=0)
    assert report.notes == (
        "planted takes no part in cast e4m3fn normal n=9: NotImplementedError: no such cast",
    )
    assert "planted" not in {one.name for one in report.rows[0].timed}


@pytest.mark.parametrize("name", ["ml_dtypes", "numpy", "torch", "jax", "gfloat", "apytypes"])
@pytest.mark.parametrize("verb", ["encode", "decode", "quantize"])
def test_peers_do_the_work_that_they_are_timed_at(name, verb):
    """On mild data all of them agree with lowprec."""
    peer = next(peer for peer in peers.PEERS if peer.name == name)
    if peer.version is None:
        pytest.skip(f"{name} is not installed")
    values = data("normal", catalog.BINARY16, 1000).clip(-200, 200)
    tried = 0
    for fmt in (E4M3FN, catalog.E5M2, catalog.E2M1FN, catalog.BFLOAT16, catalog.BINARY16):
        codes = lp.encode(values, fmt)
        want = codes if verb == "encode" else lp.decode(codes, fmt)
        for way in peer.ways(peers.Work(verb, (codes if verb == "decode" else values,), fmt)):
            np.testing.assert_array_equal(way.read(way.call()), want)
            tried += 1
    assert tried or (name == "apytypes" and verb != "encode")


# -- data -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", [E4M3FN, catalog.BFLOAT16, catalog.E2M1FN, catalog.UE4M3], ids=str)
def test_data_are_what_they_are_called(fmt):
    """Hard data have all that is hard, subnormal data nothing else, and no format gets what it refuses."""
    hard = data("hard", fmt, 20_000)
    tie = (fmt.max_finite + float(np.nextafter(np.float32(fmt.max_finite), np.float32(0)))) / 2
    assert np.isinf(hard).any()
    assert (np.abs(hard) < 2.0**-126).any()
    assert (np.abs(hard) > tie).any()
    assert np.isnan(hard).any() == fmt.has_nan
    assert (hard < 0).any() == (fmt is not catalog.UE4M3)
    normal = data("normal", fmt, 20_000)
    assert np.isfinite(normal).all()
    small = np.abs(lp.decode(lp.encode(data("subnormal", fmt, 20_000), fmt), fmt))
    assert (0 < small).all()
    assert (small < fmt.min_normal).all()
    if fmt.has_nan:
        assert np.isnan(data("nan", fmt, 2000)).all()


def test_data_repeat_and_are_reproducible():
    """Whoever runs it times the same conversion."""
    long = data("normal", E4M3FN, (1 << 20) + 5)
    np.testing.assert_array_equal(long[-5:], long[:5])
    np.testing.assert_array_equal(data("hard", E4M3FN, 50), data("hard", E4M3FN, 50))


# -- timing -----------------------------------------------------------------------------------------


def test_contenders_run_in_turn_and_slow_ones_less_often():
    """On a clock that only the contenders move: each call takes exactly what it says."""
    now, order = 0.0, []

    def takes(name, seconds):
        def call():
            nonlocal now
            now += seconds
            order.append(name)

        return Contender(name, "peer", True, call)

    contenders = [takes("a", 1 / 64), takes("b", 1 / 64), takes("slow", 1 / 8)]
    found = interleave(contenders, 3 / 8, least=3, clock=lambda: now)
    assert [one.median for one in found] == [1 / 64, 1 / 64, 1 / 8]
    assert [len(one.seconds) for one in found] == [8, 8, 3]
    assert (
        " ".join(order) == "a a b slow a b a b a b slow a b a b a b slow a b a b slow"
    )  # the first call wakes threads


def test_short_calls_are_repeated_within_a_sample():
    """A clock is too coarse for one of them."""
    now = 0.0

    def call():
        nonlocal now
        now += 2.0**-16

    (found,) = interleave([Contender("short", "ours", True, call)], 0.1, clock=lambda: now)
    assert found.calls == 132  # the next to 2 ms
    assert found.median == 2.0**-16


def test_threads_are_switched_only_where_they_change():
    """Each switch wakes threads anew, by a call that is not timed."""
    told = []
    contenders = [Contender(str(n), "ours", True, lambda: None, threads=n) for n in (2, 2, 1)]
    interleave(contenders, 0, least=2, switch=told.append, clock=itertools.count().__next__)
    assert told == [2, 1, 2, 1, 2, 1]


ROW = Row(
    Job("cast", "", E4M3FN, 1 << 24, "normal", 1),
    (
        timed("lowprec", "ours", True, 2.0, 2.0, 2.0),
        timed("lowprec", "ours", False, 4.0, 4.0, 4.0),
        timed("stream", "yardstick", True, 1.4, 1.5, 1.6),
        timed("stream", "yardstick", False, 1.0, 1.0, 1.0),
        timed("ml_dtypes", "peer", True, 50.0, 60.0, 70.0, differ=0),
        timed("ml_dtypes", "peer", False, 64.0, 64.0, 64.0, differ=0),
        timed("torch", "peer", True, 9.0, 3.0, 3.0, differ=7),
        timed("jax", "peer", False, 2.5, 2.6, 2.7, differ=0),
    ),
    (
        Target("cast", "ml_dtypes", 15, ("e4m3fn",), (1 << 24,)),
        Target("cast", "stream", 0.8),
        Target("cast", "torch", 1.2, out=False),
        Target("cast", "ml_dtypes", 17, out=False),
        Target("cast", "ml_dtypes", 1, ("e5m2",)),
        Target("cast", "ml_dtypes", 1, sizes=(1 << 16,)),
        Target("cast", "own normal", 0.9, kind="hard"),
        Target("decode", "stream", 0.9),
    ),
)


def test_ratios_are_of_medians_and_to_the_best_peer():
    """In given memory a peer that only allocates counts; in new memory one that needs memory does not."""
    assert ROW.best_peer(True).name == "jax"
    assert ROW.to(ROW.best_peer(True), True) == 1.3
    assert ROW.to(ROW.best_peer(False), False) == 0.65
    assert (ROW.to_stream(True), ROW.to_stream(False)) == (0.75, 0.25)
    found = ROW.as_json()
    assert found["out"] == {"median_s": 2.0, "best_peer": "jax", "to_best_peer": 1.3, "to_stream": 0.75}
    assert found["alloc"]["to_best_peer"] == 0.65


def test_targets_are_judged_where_they_apply_and_their_rival_took_part():
    """Peer torch has no way of its own into new memory here, and the last four are for other rows."""
    assert [(target.against, reached, said) for target, reached, said in ROW.judged()] == [
        ("ml_dtypes", 30.0, "ok"),
        ("stream", 0.75, "short"),
        ("ml_dtypes", 16.0, "short"),
    ]


def test_above_the_limit_of_noise_every_verdict_is_that():
    """What the stream cannot do twice alike, nothing can be measured by."""
    noisy = tuple(
        timed("stream", "yardstick", True, 1.0, 2.0, 3.0) if one.name == "stream" and one.out else one
        for one in ROW.timed
    )
    row = Row(ROW.job, noisy, ROW.targets)
    assert row.noise == 0.5
    assert {said for _, _, said in row.judged()} == {"too noisy"}
    assert row.as_json()["too_noisy"]


def test_rows_without_peers_or_targets_are_reported_too():
    """Nothing is divided by what is not there."""
    row = Row(ROW.job, tuple(one for one in ROW.timed if one.role in ("ours", "yardstick")), ())
    assert row.as_json()["out"]["to_best_peer"] is None
    assert row.judged() == []


def test_tables_fit_120_columns():
    """Where all cells are as wide as they come."""
    slow = tuple(
        dataclasses.replace(one, name="ml_dtypes*" if one.name == "jax" else one.name, differ=1)
        for one in ROW.timed
    )
    jobs = [
        Job("cast", "", catalog.E4M3FNUZ, 1 << 24, "subnormal", 1),
        Job("cast", "", catalog.BFLOAT16, 1 << 16, "hard", 1),
    ]
    rows = tuple(Row(job, slow, (Target("cast", "ml_dtypes", 15, kind=job.kind),)) for job in jobs)
    machine = {
        "cpu": "a processor",
        "cores": 2,
        "load_before": (1.0, 2.0, 3.0),
        "load_after": None,
        "python": "3.13",
    }
    versions = {f"library{number}": "1.2.3+local" for number in range(9)}
    report = Report(rows, 1.0, machine, versions, {"torch": "ImportError: [x]"}, ("a note " * 30,))
    console = Console(width=120, record=True, highlight=False)
    cards.show(report.table(), console)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 120
    assert any("not found: torch (ImportError: [x])" in line for line in lines)


def test_targets_name_topics_formats_and_contenders_that_exist():
    """A target that is never met with would never be missed."""
    for target in TARGETS:
        topic = TOPICS[target.topic]
        known = catalog.BLOCK_FORMATS if target.topic == "block" else catalog.FORMATS
        assert all(name in known for name in target.formats)
        assert not target.formats or set(target.formats) & set(topic.formats)
        assert target.kind in topic.kinds
        assert set(target.sizes) <= set(topic.sizes)
        assert set(target.variants) <= set(topic.variants)


@pytest.mark.usefixtures("core")
def test_blocks_are_timed_both_ways():
    """Encoding allocates, decoding may not; blocks of one axis and two; formats of one value take no part."""
    rows = rows_of("block", "cast", "--size", 1 << 12, "--format", "mxfp6_e3m2", "--format", "nvfp4_2d")
    assert [(row["format"], row["variant"]) for row in rows["rows"]] == [
        (name, variant) for variant in ("encode", "axis 0", "decode") for name in ("mxfp6_e3m2", "nvfp4_2d")
    ]
    for row in rows["rows"]:
        assert row["alloc"]["to_stream"] > 0
        assert (row["out"]["to_stream"] is not None) == (row["variant"] == "decode")
    assert "own last axis" in {contender["name"] for contender in rows["rows"][2]["contenders"]}


def test_blocks_that_are_wrong_are_not_timed(monkeypatch):
    """A code, and a value."""
    job = run.plan(["block"], formats=[catalog.MXFP4], sizes=[1 << 10])[0]
    encode, decode = blocks.encode, blocks.decode

    def wrong_code(*arguments, **keywords):
        blocks = encode(*arguments, **keywords)
        blocks.codes[0, 0] ^= 1
        return blocks

    def wrong_value(*arguments, **keywords):
        values = decode(*arguments, **keywords)
        values[0, 0] *= 2
        return values

    for name, wrong, message in (
        ("encode", wrong_code, r"block encode mxfp4 normal.*: block \(0, 0\) has scale \d+ and codes \["),
        ("decode", wrong_value, r"block encode mxfp4 normal.*: block \(0, 0\) decodes wrongly"),
    ):
        with monkeypatch.context() as planted:
            planted.setattr(blocks, name, wrong)
            work = blocks.block_contest(job)
            with pytest.raises(WrongResult, match=f"lowprec is wrong and is not timed: {message}"):
                work.checked([], lambda *_: None)


def test_nan_codes_of_any_kind_are_the_same_result():
    """Which NaN a conversion gives is for `lowprec conform` to say."""
    work = conversions.conversion(Job("cast", "", E4M3FN, 4, "normal", 1))
    nans = [code for code in range(256) if str(decode_exactly(code, E4M3FN)).endswith("NAN")]
    got, want = np.array([*nans, 1, nans[0]], np.uint8), np.array([*reversed(nans), 1, 2], np.uint8)
    assert work.differing(got, want).tolist() == [False, False, False, True]
