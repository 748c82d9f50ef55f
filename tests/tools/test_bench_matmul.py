"""Products of matrices are timed with right results only, beside peers that give the same, at rates that compare."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

import lowprec as lp
from lowprec.arrays import dot as dots
from lowprec.cli.main import main
from lowprec.export import cards
from lowprec.spec import catalog
from lowprec.tools import bench, blas, dotcontests, dotpeers, peers
from lowprec.tools.benchreport import Job, Report, Row
from lowprec.tools.contests import WrongResult
from lowprec.tools.dotcontests import accumulation_of, dot_contest, dot_operands, has_work
from lowprec.tools.timing import Contender, Timed, interleave

E4M3FN, E5M2 = catalog.E4M3FN, catalog.E5M2


def lowprec(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in ("bench", "matmul", *arguments)])


def job(variant, fmt=E4M3FN, size=20, kind="normal"):
    return Job("matmul", variant, fmt, size, kind, 1)


def product(variant, fmt=E4M3FN, size=20, kind="normal"):
    return dotpeers.Product(variant, accumulation_of(variant, fmt), *dot_operands(kind, fmt, size), fmt)


def checked(work, found=()):
    with np.errstate(all="ignore"):
        return work.checked(list(work.contenders(found)), lambda *_: None)


# -- the rows ---------------------------------------------------------------------------------------


def test_rows_are_of_formats_that_have_the_accumulation_and_a_type():
    """Hopper has not all of FP8; other data than normal and hard make no row, and no matrix is too large."""
    rows = bench.plan(["matmul"], formats=[E5M2, catalog.E3M4, catalog.UE4M3, catalog.BINARY64], sizes=[8, 1 << 20])
    assert {row.size for row in rows} == {8}
    assert [row.variant for row in rows if row.fmt == E5M2] == list(dotcontests.VARIANTS)
    left = [variant for variant in dotcontests.VARIANTS if "hopper" not in variant]
    assert [row.variant for row in rows if row.fmt == catalog.E3M4] == left
    assert {row.fmt.name for row in rows} == {"e5m2", "e3m4"}
    assert {row.size for row in bench.plan(["matmul"], sizes=[1 << 20])} == {192, 384, 768}
    assert not has_work(E4M3FN, "exact", "nan")
    assert not has_work(catalog.MXFP4, "exact", "normal")
    assert bench.seconds(rows, 1.0) > len(rows)


@pytest.mark.usefixtures("core")
def test_rows_run_to_the_end_with_the_core_dependencies_only():
    """All variants, of codes and of float32, beside np.matmul and the oracle; the JSON has the speed and the share."""
    result = lowprec("--size", 20, "--budget", 0, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["not_found"]["mmasim"] == "not installed"
    assert [row["variant"] for row in found["rows"]] == list(dotcontests.VARIANTS)
    for row in found["rows"]:
        names = {one["name"]: one for one in row["contenders"]}
        slow = {"own Fractions"} if row["variant"] in ("hopper_wgmma codes", "exact codes") else set()
        assert set(names) == {"lowprec", "np.matmul"} | slow
        assert row["gflops"] == pytest.approx(2 * 20**3 / names["lowprec"]["median_s"] / 1e9)
        assert row["alloc"]["to_stream"] == pytest.approx(names["np.matmul"]["median_s"] / names["lowprec"]["median_s"])
        assert row["out"]["median_s"] is None
        assert all(names[name]["share"] == 8 * 8 / 400 for name in slow)
        assert row["targets"] == []  # which are for 384 and 768


@pytest.mark.usefixtures("core")
def test_a_product_that_is_wrong_ends_the_run(monkeypatch):
    """With exit code 1."""
    monkeypatch.setattr(dots, "matmul", wrong(0, 0))
    monkeypatch.setattr(bench, "interleave", None)
    result = lowprec("--size", 8)
    assert result.exit_code == 1
    assert "lowprec is wrong and is not timed: matmul fp32_fma codes e4m3fn normal n=8: 1 of" in result.stderr


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
        return Timed(name, role, False, 1, 1, (seconds,) * 5, differ)

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
            bench.TARGETS,
        )
        for variant in ("fp32_sequential codes", "hopper_wgmma codes")
        for size in (384, 768)
    ]
    machine = {"cpu": "a processor", "cores": 2, "load_before": None, "load_after": None, "python": "3.13"}
    console = Console(width=120, record=True, highlight=False)
    cards.show(Report(tuple(rows), {"matmul": "products"}, 1.0, machine, {}, {}).table(), console)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 120
    title = next(place for place, line in enumerate(lines) if "Gflop/s" in line)
    assert lines[title].split() == ["n", "Gflop/s", "np.matmul", "others", "noise", "target"]
    said = "fp32_sequential codes 384 11.3 0.25 500000 own Fractions 0.0% ok 0.25 of 0.2 (0.7) np.matmul"
    assert " ".join(lines[title + 1].split()) == said
    assert " ".join(lines[title + 2].split()) == "15.0 VeriFloat* short 15.0 of 20 VeriFloat"
    assert sum(line.strip() == "1200 mmasim" for line in lines) == 4
    assert sum("ok 1200 of 1000 mmasim" in line for line in lines) == 2
    assert any("A floor is followed by its aim." in " ".join(lines[place : place + 2]) for place in range(len(lines)))
    assert [target["aim"] for target in rows[0].as_json()["targets"]] == [0.7, None]


# -- right results only -----------------------------------------------------------------------------


def wrong(row, column):
    """A product that is wrong at one place."""
    right = dots.matmul

    @functools.wraps(right)
    def plant(*arguments, **keywords):
        made = right(*arguments, **keywords)
        made.view(np.uint32)[row, column] ^= 1
        return made

    return plant


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
    monkeypatch.setattr(dots, "matmul", wrong(row, column))
    message = f"{variant} e4m3fn normal n=20: 1 of {400 if 'NumPy' in by else 6} results are not those of {by}, the "
    with pytest.raises(WrongResult, match=f"{message}first at row {row}, column {column}: "):
        checked(dot_contest(job(variant)))


@pytest.mark.parametrize("fmt", [E4M3FN, E5M2, catalog.BFLOAT16, catalog.E2M1FN], ids=str)
@pytest.mark.parametrize("kind", dotcontests.KINDS)
def test_what_is_timed_is_right(fmt, kind):
    """Loops stand aside where they would round; nothing that is right is refused."""
    for variant in dotcontests.VARIANTS:
        if has_work(fmt, variant, kind):
            kept, _ = checked(dot_contest(job(variant, fmt, 18, kind)))
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
        found = dot_contest(job(variant, fmt, 20, kind))._witness(np.arange(20))
        assert (found is not None) == has_any, (variant, fmt.name, kind)


def test_a_peer_that_gives_other_results_is_counted(core, monkeypatch):
    """In the part that it makes."""

    def ways(given):
        def call():
            made = np.array(lp.matmul(*(lp.decode(codes, E4M3FN) for codes in given.corner(5, 1000)), "fp32_fma"))
            made[1, 1] += 1
            return made

        yield dotpeers.Corner(5, 5, call, np.asarray)

    monkeypatch.setitem(dotpeers._WAYS, "planted", ways)
    found = core | {"planted": peers.Peer("planted", ("numpy",), lambda work: iter(()))}
    monkeypatch.setattr(peers, "find", lambda threads: (found, {}))
    report = bench.run([job("fp32_fma codes")], budget=0)
    planted = report.rows[0].best_peer(False)
    assert (planted.name, planted.differ, planted.share) == ("planted", 1, 1 / 16)


# -- peers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["fp32_fma", "fp32_sequential", "bf16_sequential", "groups_of_16", "exact"])
def test_verifloat_gives_the_same_bits(variant):
    """Of normal data, whatever the order: groups are not cut there."""
    pytest.importorskip("verifloat")
    for fmt in (E4M3FN, E5M2):
        assert verdict("VeriFloat", product(variant, fmt, 40)) == [0]


def test_mmasim_gives_the_same_bits():
    """Hopper's FP8, on any data."""
    pytest.importorskip("mmasim")
    for fmt in (E4M3FN, E5M2):
        for kind in dotcontests.KINDS:
            assert verdict("mmasim", product("hopper_wgmma", fmt, 70, kind)) == [0]
    assert verdict("mmasim", product("exact")) == []


def verdict(name, given):
    """How many results of a peer are not lowprec's, for each of its ways."""
    native = lp.dtype(given.fmt)
    ours = lp.matmul(given.x.view(native), given.y.view(native), given.how)
    found = []
    for way in dotpeers.ways(name, given):
        made = way.read(way.call())
        assert made.shape == (way.rows, way.columns)
        assert made.dtype == np.float32
        found.append(int(dotcontests._differing(made, ours[: way.rows, : way.columns]).sum()))
    return found


def test_fractions_are_the_oracles():
    """A corner of the product."""
    given = product("exact")
    way = dotpeers.fractions(given)
    ours = lp.matmul(*(lp.decode(codes, E4M3FN) for codes in (given.x, given.y)), "exact")
    np.testing.assert_array_equal(way.read(way.call()), ours[: way.rows, : way.columns])


# -- threads ----------------------------------------------------------------------------------------


def test_products_of_numpy_have_as_many_threads_as_they_are_told(monkeypatch):
    """And as many as before when the run is over."""
    told = []
    monkeypatch.setattr(blas, "_libraries", lambda: (blas._Library(told.append, 7),))
    assert blas.switch(3)
    bench.run([job("fp32_fma codes", size=4)], budget=0)
    assert told[0] == 3
    assert set(told[1:-1]) == {1}
    assert told[-1] == 7
    monkeypatch.setattr(blas, "_libraries", lambda: ())
    report = bench.run([job("fp32_fma codes", size=4)], budget=0)
    assert any("np.matmul has as many threads as its library likes" in note for note in report.notes)


def test_libraries_are_found_where_they_are_loaded(tmp_path):
    """By name, with and without a list of what is loaded."""
    maps = tmp_path / "maps"
    maps.write_text("7f-80 r-xp 0 00:1 7    /usr/lib/lib openblas.so\n80-81 r 0 0 0 /usr/lib/libc.so\n81-82 rw 0\n")
    assert list(blas._loaded(maps)) == ["/usr/lib/lib openblas.so"]
    assert all("openblas" in path or "mkl" in path for path in blas._loaded(tmp_path / "absent"))


# -- data -------------------------------------------------------------------------------------------


def test_operands_are_values_of_the_format_and_reproducible():
    """Finite, of either sign but for unsigned formats, and two different matrices."""
    for kind in dotcontests.KINDS:
        x, y = dot_operands(kind, E4M3FN, 50)
        assert np.isfinite(lp.decode(np.stack([x, y]), E4M3FN)).all()
        assert (x != y).any()
        np.testing.assert_array_equal(x, dot_operands(kind, E4M3FN, 50)[0])
    assert np.unique(dot_operands("hard", E4M3FN, 50)[0]).size == 254
    assert (lp.decode(dot_operands("normal", E4M3FN, 50)[0], E4M3FN) < 0).any()
    assert (lp.decode(dot_operands("normal", catalog.UE4M3, 50)[0], catalog.UE4M3) >= 0).all()
