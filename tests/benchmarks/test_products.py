"""Matrix products are timed only if right, beside peers that give the same, at rates that compare."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console
from threadpoolctl import ThreadpoolController

import lowprec as lp
from benchmarks import peers, run
from benchmarks.__main__ import main
from benchmarks.contest import WrongResult, same_floats
from benchmarks.data import matrices
from benchmarks.products import accumulation_of, has_product, product_contest
from benchmarks.report import Report, Row
from benchmarks.timing import Contender, Timed, interleave
from benchmarks.topics import TARGETS, TOPICS, Job
from lowprec.arrays.dots import dot as dots
from lowprec.export import cards
from lowprec.spec import catalog
from tests.benchmarks.conftest import checked, wrong

pytestmark = pytest.mark.apart

E4M3FN, E5M2 = catalog.E4M3FN, catalog.E5M2
VARIANTS, KINDS = TOPICS["matmul"].variants, ("normal", "hard")


def command(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in ("matmul", *arguments)])


def job(variant, fmt=E4M3FN, size=20, kind="normal"):
    return Job("matmul", variant, fmt, size, kind, 1)


def product(variant, fmt=E4M3FN, size=20, kind="normal"):
    return peers.Work(variant, matrices(kind, fmt, size), fmt, how=accumulation_of(variant, fmt))


# -- the rows ---------------------------------------------------------------------------------------


def test_rows_are_of_formats_that_have_the_accumulation_and_a_type():
    """Hopper has not all of FP8; other data than normal and hard make no row, and no matrix is too large."""
    rows = run.plan(
        ["matmul"], formats=[E5M2, catalog.E3M4, catalog.UE4M3, catalog.BINARY64], sizes=[8, 1 << 20]
    )
    assert {row.size for row in rows} == {8}
    assert [row.variant for row in rows if row.fmt == E5M2] == list(VARIANTS)
    left = [variant for variant in VARIANTS if "hopper" not in variant]
    assert [row.variant for row in rows if row.fmt == catalog.E3M4] == left
    assert {row.fmt.name for row in rows} == {"e5m2", "e3m4"}
    assert {row.size for row in run.plan(["matmul"], sizes=[1 << 20])} == {192, 384, 768}
    assert not has_product(E4M3FN, "exact", "nan")
    assert not has_product(catalog.MXFP4, "exact", "normal")


@pytest.mark.usefixtures("core")
def test_rows_run_to_the_end_with_the_core_dependencies_only():
    """All variants, on codes and float32, beside np.matmul and the oracle; the JSON has speed and share."""
    result = command("--size", 20, "--budget", 0, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["not_found"]["mmasim"] == "not installed"
    assert [row["variant"] for row in found["rows"]] == list(VARIANTS)
    for row in found["rows"]:
        names = {one["name"]: one for one in row["contenders"]}
        slow = {"own Fractions"} if row["variant"] in ("hopper_wgmma codes", "exact codes") else set()
        assert set(names) == {"lowprec", "np.matmul"} | slow
        assert row["gflops"] == pytest.approx(2 * 20**3 / names["lowprec"]["median_s"] / 1e9)
        assert row["alloc"]["to_stream"] == pytest.approx(
            names["np.matmul"]["median_s"] / names["lowprec"]["median_s"]
        )
        assert row["out"]["median_s"] is None
        assert all(names[name]["share"] == 8 * 8 / 400 for name in slow)
        assert row["targets"] == []  # which are for 384 and 768


@pytest.mark.usefixtures("core")
def test_a_product_that_is_wrong_ends_the_run(monkeypatch):
    """With exit code 1."""
    monkeypatch.setattr(dots, "matmul", wrong(dots, "matmul", (0, 0)))
    monkeypatch.setattr(run, "interleave", None)
    result = command("--size", 8)
    assert result.exit_code == 1
    assert (
        "lowprec is wrong and is not timed: matmul fp32_fma codes e4m3fn normal n=8, without out=: 1 of"
        in result.stderr
    )


def test_times_of_a_part_are_of_the_whole_in_proportion():
    """A quarter of the work in a second takes four for the whole."""
    now = [0.0]

    def call():
        now[0] += 1.0

    contenders = [Contender("whole", "ours", False, call), Contender("part", "peer", False, call, share=0.25)]
    whole, part = interleave(contenders, 0, clock=lambda: now[0])
    assert (whole.median, part.median) == (1.0, 4.0)
    assert part.as_json()["share"] == 0.25


def test_tables_show_speed_ratios_floors_and_aims():
    """All that has a rate of its own in a line of its own; 120 columns hold it."""

    def timed(name, role, seconds, differ=None):
        return Timed(name, role, False, lambda: None, seconds=(seconds,) * 5, differ=differ)

    rows = [
        Row(
            job(variant, size=size),
            (
                timed("lowprec", "ours", 0.01),
                timed("np.matmul", "yardstick", 0.0025),
                timed("own Fractions", "own", 5e3),
                timed("VeriFloat", "peer", 0.15, 3),
                timed("mmasim", "peer", 12.0, 0),
            ),
            TARGETS,
        )
        for variant in ("fp32_sequential codes", "hopper_wgmma codes")
        for size in (384, 768)
    ]
    machine = {"cpu": "a processor", "cores": 2, "load_before": None, "load_after": None, "python": "3.13"}
    console = Console(width=120, record=True, highlight=False)
    cards.show(Report(tuple(rows), 1.0, machine, {}, {}).table(), console)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 120
    title = next(place for place, line in enumerate(lines) if "Gflop/s" in line)
    assert lines[title].split() == ["n", "Gflop/s", "np.matmul", "others", "noise", "target"]
    said = "fp32_sequential codes 384 11.3 0.25 500000 own Fractions 0.0% ok 0.25 of 0.2 (0.7) np.matmul"
    assert " ".join(lines[title + 1].split()) == said
    assert " ".join(lines[title + 2].split()) == "15.0 VeriFloat* short 15.0 of 20 VeriFloat"
    assert sum(line.strip() == "1200 mmasim" for line in lines) == 4
    assert sum("ok 1200 of 1000 mmasim" in line for line in lines) == 2
    assert any(
        "A floor is followed by its aim." in " ".join(lines[place : place + 2]) for place in range(len(lines))
    )
    assert [target["aim"] for target in rows[0].as_json()["targets"]] == [0.7, None]


# -- right results only -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "row", "column", "by"),
    [
        ("fp32_fma codes", 3, 7, "a loop in NumPy"),
        ("fp32_sequential", 3, 7, "a loop in NumPy"),
        ("bf16_sequential", 3, 7, "a loop in NumPy"),
        ("groups_of_16 codes", 3, 7, "a loop in NumPy"),
        ("exact codes", 19, 0, "a loop in NumPy"),
        ("hopper_wgmma codes", 19, 19, "the oracle"),
        ("hopper_wgmma", 0, 0, "the oracle"),
    ],
)
def test_a_wrong_result_is_not_timed(monkeypatch, variant, row, column, by):
    """One of all where there is a loop, one of six places where there is none."""
    monkeypatch.setattr(dots, "matmul", wrong(dots, "matmul", (row, column)))
    said = (
        f"1 of {400 if 'NumPy' in by else 6} results are not those of {by}, the first at row {row}, "
        f"column {column}: "
    )
    with pytest.raises(WrongResult, match=f"{variant} e4m3fn normal n=20, without out=: {said}"):
        checked(product_contest(job(variant)))


@pytest.mark.parametrize("fmt", [E4M3FN, E5M2, catalog.BFLOAT16, catalog.E2M1FN], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_timed_is_right(fmt, kind):
    """Loops stand aside where they would round; nothing that is right is refused."""
    for variant in VARIANTS:
        if has_product(fmt, variant, kind):
            kept, _ = checked(product_contest(job(variant, fmt, 18, kind)))
            assert kept[0].name == "lowprec"


def test_loops_stand_aside_where_they_are_not_exact():
    """Where products overflow or a group's sum is cut."""
    for variant, fmt, kind, has_any in (
        ("fp32_fma", E5M2, "normal", True),
        ("bf16_sequential", E5M2, "hard", False),
        ("exact", E5M2, "hard", False),
        ("groups_of_16", E4M3FN, "normal", True),
        ("groups_of_16", E4M3FN, "hard", False),
        ("fp32_fma", catalog.BFLOAT16, "hard", False),
        ("hopper_wgmma", E4M3FN, "normal", False),
    ):
        found = product_contest(job(variant, fmt, 20, kind))._looped(np.arange(20))
        assert (found is not None) == has_any, (variant, fmt.name, kind)


def test_a_peer_that_gives_other_results_is_counted(core, monkeypatch):
    """In the part that it makes."""

    def ways(work):
        parts, share = work.corner(5, 1000)

        def call():
            made = np.array(lp.matmul(*(lp.decode(codes, E4M3FN) for codes in parts), "fp32_fma"))
            made[1, 1] += 1
            return made

        yield peers.Way(False, call, np.asarray, share)

    found = core | {"planted": peers.Peer("planted", ("numpy",), ways)}
    monkeypatch.setattr(peers, "find", lambda threads: (found, {}))
    report = run.run([job("fp32_fma codes")], budget=0)
    planted = report.rows[0].best_peer(False)
    assert (planted.name, planted.differ, planted.share) == ("planted", 1, 1 / 16)


# -- peers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variant", ["fp32_fma", "fp32_sequential", "bf16_sequential", "groups_of_16", "exact"]
)
def test_verifloat_gives_the_same_bits(variant):
    """Of normal data, whatever the order: groups are not cut there."""
    pytest.importorskip("verifloat")
    for fmt in (E4M3FN, E5M2):
        assert verdict("VeriFloat", product(variant, fmt, 40)) == [0]


def test_mmasim_gives_the_same_bits():
    """Hopper's FP8, on any data."""
    pytest.importorskip("mmasim")
    for fmt in (E4M3FN, E5M2):
        for kind in KINDS:
            assert verdict("mmasim", product("hopper_wgmma", fmt, 70, kind)) == [0]
    assert verdict("mmasim", product("exact")) == []


def verdict(name, work):
    """Return how many results of a peer are not lowprec's, for each of its ways."""
    native, peer = lp.dtype(work.fmt), next(peer for peer in peers.PEERS if peer.name == name)
    ours = lp.matmul(*(codes.view(native) for codes in work.operands), work.how)
    found = []
    for way in peer.ways(work):
        made = way.read(way.call())
        assert made.dtype == np.float32
        assert made.size == round(ours.size * way.share)
        found.append(int((~same_floats(made, ours[tuple(map(slice, made.shape))])).sum()))
    return found


def test_fractions_are_the_oracles():
    """A corner of the product."""
    work = product("exact")
    way = peers.fractions(work)
    ours = lp.matmul(*(lp.decode(codes, E4M3FN) for codes in work.operands), "exact")
    np.testing.assert_array_equal(way.read(way.call()), ours[:8, :8])


# -- threads ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("core")
def test_products_of_numpy_have_as_many_threads_as_they_are_told():
    """And as many as before when the run is over."""
    libraries = peers.blas().lib_controllers
    if not libraries:
        pytest.skip("the library that makes NumPy's products cannot be told")
    before = [library.num_threads for library in libraries]
    with peers.blas().limit(limits=2):
        peers.switch(1)
        assert {library.num_threads for library in libraries} == {1}
        run.run([job("fp32_fma codes", size=4)], budget=0)
        assert {library.num_threads for library in libraries} == {1}
    assert [library.num_threads for library in libraries] == before


def test_a_library_that_cannot_be_told_its_threads_is_named(monkeypatch):
    """In a note."""
    monkeypatch.setattr(peers, "blas", lambda: ThreadpoolController().select(user_api="none"))
    report = run.run([job("fp32_fma codes", size=4)], budget=0)
    assert any("np.matmul has as many threads as its library likes" in note for note in report.notes)


# -- data -------------------------------------------------------------------------------------------


def test_operands_are_values_of_the_format_and_reproducible():
    """Finite, of either sign but for unsigned formats, and two different matrices."""
    for kind in KINDS:
        x, y = matrices(kind, E4M3FN, 50)
        assert np.isfinite(lp.decode(np.stack([x, y]), E4M3FN)).all()
        assert (x != y).any()
        np.testing.assert_array_equal(x, matrices(kind, E4M3FN, 50)[0])
    assert np.unique(matrices("hard", E4M3FN, 50)[0]).size == 254
    assert (lp.decode(matrices("normal", E4M3FN, 50)[0], E4M3FN) < 0).any()
    assert (lp.decode(matrices("normal", catalog.UE4M3, 50)[0], catalog.UE4M3) >= 0).all()
