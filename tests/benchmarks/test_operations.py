"""Operations are timed only if right, on codes beside peers that give the same, and on the data named."""

import itertools
import json

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from benchmarks import operations, peers, run
from benchmarks.__main__ import main
from benchmarks.contest import WrongResult
from benchmarks.data import KINDS, has_data, operation_operands
from benchmarks.operations import operation_contest
from benchmarks.report import Row
from benchmarks.topics import TOPICS, Job
from lowprec.arrays import arith
from lowprec.spec import catalog
from tests.benchmarks.conftest import checked, wrong

pytestmark = pytest.mark.apart

E4M3FN = catalog.E4M3FN
OPERATIONS = ("add", "multiply", "divide", "sqrt", "fma")


def command(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in ("arith", *arguments)])


def job(variant, fmt=E4M3FN, size=500, kind="normal"):
    return Job("arith", variant, fmt, size, kind, 1)


# -- the rows ---------------------------------------------------------------------------------------


def test_every_operation_has_a_row_of_values_and_one_of_codes():
    """Of codes only where NumPy or ml_dtypes has a type for them, none of integers."""
    rows = run.plan(["arith"], sizes=[8])
    wanted = [*OPERATIONS, *(f"{operation} codes" for operation in OPERATIONS)]
    assert [(row.variant, row.fmt.name) for row in rows] == list(
        itertools.product(wanted, ("e4m3fn", "e5m2"))
    )
    few = run.plan(["arith"], formats=[catalog.UE4M3, catalog.INT8, catalog.BFLOAT16], sizes=[8])
    assert [str(row) for row in few if row.variant.startswith("add")] == [
        "arith add ue4m3 normal n=8",
        "arith add int8 normal n=8",
        "arith add bfloat16 normal n=8",
        "arith add codes bfloat16 normal n=8",
    ]


@pytest.mark.usefixtures("core")
def test_rows_run_to_the_end_with_the_core_dependencies_only():
    """Values beside quantize, codes beside ml_dtypes; what is not installed is named."""
    result = command("--size", 65536, "--format", "e4m3fn", "--budget", 0, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["not_found"]["VeriFloat"] == "not installed"
    assert len(found["rows"]) == 10
    for row in found["rows"]:
        codes = row["variant"].endswith("codes")
        names = {(one["name"], one["role"]) for one in row["contenders"]}
        peer = {("ml_dtypes", "peer")} if row["variant"] != "fma codes" else set()
        own = ("own with flags" if codes else "own quantize", "own")
        assert names == {("lowprec", "ours"), ("stream", "yardstick"), own} | (peer if codes else set())
        assert [one["against"] for one in row["targets"]] == (
            [name for name, _ in peer] if codes else ["own quantize"]
        )
        assert all(one["differ"] == 0 for one in row["contenders"] if one["role"] == "peer")
        assert row["out"]["to_stream"] > 0


@pytest.mark.usefixtures("core")
def test_tables_name_the_peer_that_is_absent():
    """As all others."""
    result = command("--size", 100, "--format", "e4m3fn", "--budget", 0)
    assert result.exit_code == 0
    assert "not found: torch, torchao, jax, gfloat, apytypes, qtorch, CPFloat, VeriFloat" in result.stdout
    assert "10 rows" in result.stderr


@pytest.mark.parametrize("operands", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_the_stream_moves_as_many_bytes(operands, dtype):
    """Each is read once and written once, in equally many words."""
    table, out = np.zeros((operands, 64), dtype), np.zeros(64, dtype)
    pairs = list(operations.moves(table, out))
    assert all(read.size == written.size for read, written in pairs)
    assert sum(read.nbytes for read, _ in pairs) == table.nbytes
    assert sum(written.nbytes for _, written in pairs) == out.nbytes
    for read, written in pairs:
        read += 1
        written += 1
    assert table.view(np.uint8).any(axis=1).all()
    assert out.view(np.uint8).any()


# -- right results only -----------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("variant", "place", "by"), [("", 0, "the oracle"), (" codes", 1001, "ml_dtypes or NumPy")]
)
def test_a_wrong_result_is_not_timed(monkeypatch, operation, variant, place, by):
    """One of 256 places where there is no witness, one code of 4,096 where there is one."""
    if operation == "fma":
        place, by = 0, "the oracle"
    monkeypatch.setattr(arith, operation, wrong(arith, operation, place))
    work = operation_contest(job(operation + variant, size=4096))
    count = "4,096" if by != "the oracle" else "256"
    message = (
        f"lowprec is wrong and is not timed: arith {operation}{variant} e4m3fn normal n=4096, with out=: "
        f"1 of {count} results are not those of {by}, the first at index {place}: "
    )
    with pytest.raises(WrongResult, match=message):
        checked(work)


@pytest.mark.usefixtures("core")
def test_a_wrong_result_ends_the_run(monkeypatch):
    """With exit code 1."""
    monkeypatch.setattr(arith, "add", wrong(arith, "add", 0))
    monkeypatch.setattr(run, "interleave", None)
    result = command("--size", 100, "--format", "e4m3fn")
    assert result.exit_code == 1
    assert "lowprec is wrong and is not timed: arith add e4m3fn normal n=100" in result.stderr


@pytest.mark.parametrize("variant", TOPICS["arith"].variants)
@pytest.mark.parametrize("name", ["e4m3fn", "int8"])
def test_what_is_timed_is_right(name, variant):
    """Formats with and without NaN, and with one sign only: none is refused, whatever the data."""
    fmt = catalog.format(name)
    for kind in KINDS if operations.has_operation(fmt, variant) else ():
        if has_data(fmt, kind):
            kept, _ = checked(operation_contest(job(variant, fmt, 3000, kind)))
            assert kept[0].name == "lowprec"


def test_a_peer_that_gives_other_results_has_its_asterisk(core, monkeypatch):
    """Here one that is wrong by one code at two places. Another NaN is no other result."""

    def ways(work):
        def call():
            made = lp.add(
                *(operand.view(lp.dtype(E4M3FN)) for operand in work.operands), E4M3FN, dtype=np.uint8
            )
            made[:2] ^= 1
            made[2] ^= 0x80
            return made

        yield peers.Way(False, call, np.asarray)

    found = core | {"planted": peers.Peer("planted", ("numpy",), ways)}
    operands = np.array([[0x38, 0x39, 0x7F, 0x38], [0x38, 0x38, 0x38, 0x38]], np.uint8)
    monkeypatch.setattr(operations, "operation_operands", lambda *_, **__: operands)
    monkeypatch.setattr(peers, "find", lambda threads: (found, {}))
    report = run.run([job("add codes", size=4)], budget=0)
    assert {one.name: one.differ for one in report.rows[0].timed if one.role == "peer"} == {
        "ml_dtypes": 0,
        "planted": 2,
    }
    fast = [one for one in report.rows[0].timed if one.name != "ml_dtypes"]
    row = Row(report.rows[0].job, tuple(fast))
    assert row.best_peer(True).differ == 2


# -- peers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ml_dtypes", "numpy", "jax", "apytypes", "VeriFloat"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_peers_do_the_work_that_they_are_timed_at(name, operation):
    """On normal data all of them agree with lowprec."""
    peer = next(peer for peer in peers.PEERS if peer.name == name)
    if peer.version is None:
        pytest.skip(f"{name} is not installed")
    tried = set()
    for fmt in (E4M3FN, catalog.E2M1FN, catalog.BINARY16):
        table = operation_operands(operation, "normal", fmt, 1000, codes=True)
        want = getattr(lp, operation)(*table.view(lp.dtype(fmt)), fmt, dtype=table.dtype)
        for way in peer.ways(peers.Work(operation, tuple(table), fmt)):
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(way.read(way.call()), want)
            tried.add(fmt.name)
    every = {"e4m3fn", "e2m1fn", "binary16"}
    lacking = {"fma": ("ml_dtypes", "numpy", "jax", "apytypes"), "sqrt": ("apytypes",)}
    if name in lacking.get(operation, ()):
        assert tried == set()
    else:
        assert tried == {
            "ml_dtypes": every - {"binary16"},
            "numpy": {"binary16"},
            "apytypes": {"binary16"},
            "VeriFloat": every,
        }.get(name, tried)


# -- data -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codes", [False, True], ids=["values", "codes"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("fmt", [E4M3FN, catalog.E5M2], ids=str)
def test_normal_operands_give_results_in_range(fmt, operation, codes):
    """Several binades of finite results, no division by zero, positive roots; at most 1 in 50 are zero."""
    table = operation_operands(operation, "normal", fmt, 5000, codes=codes)
    given = table.view(lp.dtype(fmt)) if codes else table
    made = lp.decode(getattr(lp, operation)(*given, fmt, dtype=np.uint8), fmt)
    assert np.isfinite(made).mean() > 0.99
    assert (made == 0).mean() < 0.02
    assert np.unique(np.frexp(made)[1]).size > 4
    assert (made < 0).any() == (operation != "sqrt")


def test_hard_operands_cancel_tie_and_are_special():
    """What a rounding can get wrong."""
    x, y = operation_operands("add", "hard", E4M3FN, 20_000)
    with np.errstate(all="ignore"):
        total = x.astype(np.float64) + y.astype(np.float64)
        near = np.abs(total) <= 2.0**-23 * np.abs(x)
    assert np.isnan(total).any()
    assert np.isinf(total).any()
    assert ((total == 0) & (x != 0)).sum() > 100
    assert (near & (total != 0)).sum() > 100
    tie = lp.decode(np.arange(1, 0x7E, dtype=np.uint8), E4M3FN).astype(np.float64)
    assert np.isin(np.abs(total), (tie[1:] + tie[:-1]) / 2).sum() > 100
    codes = operation_operands("fma", "hard", E4M3FN, 20_000, codes=True)
    assert all(np.unique(row).size == 256 for row in codes)


def test_operands_repeat_and_are_reproducible():
    """Whoever runs it times the same operation."""
    long = operation_operands("fma", "normal", E4M3FN, (1 << 20) + 5)
    np.testing.assert_array_equal(long[:, -5:], long[:, :5])
    for codes in (False, True):
        one, other = (operation_operands("add", "hard", E4M3FN, 50, codes=codes) for _ in range(2))
        np.testing.assert_array_equal(one, other)
