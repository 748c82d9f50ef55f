"""A scoreboard keeps a device's transactions, and fails a test with what differs and why."""

import asyncio
import re
import sys
import types

import numpy as np
import pytest

import lowprec as lp
from lowprec.testing import Scoreboard

UNIT = lp.accumulations["hopper_wgmma_e4m3fn_binary32"]


class Signal:
    """A value with a width, as a simulator has it; x where it is unknown."""

    def __init__(self, bits, width):
        self.bits, self.width = bits, width

    def __len__(self):
        return self.width

    def __int__(self):
        if self.bits is None:
            raise ValueError("x")
        return self.bits

    def __str__(self):
        return "x" * self.width if self.bits is None else f"{self.bits:0{self.width}b}"


def test_right_transactions_pass_and_wrong_ones_are_told():
    board = Scoreboard("convert", "binary16", "e4m3fn")
    codes = np.arange(0, 1 << 14, 7, dtype=np.uint16)
    results = lp.cast(codes, "binary16", "e4m3fn", rounding="toward_zero")
    for code, result in zip(codes.tolist(), results.tolist(), strict=True):
        board.add(code, result=result)
    with pytest.raises(AssertionError) as failed:
        board.check(limit=1)
    text = str(failed.value)
    assert text.startswith("873 of 2,341 results differ (37.3%)")
    assert text.index("explained by truncation: rounded toward zero") < text.index("\n\nindex ")
    right = Scoreboard("convert", "binary16", "e4m3fn", rounding="toward_zero")
    for code, result in zip(codes.tolist(), results.tolist(), strict=True):
        right.add(Signal(code, 16), result=Signal(result, 8))
    assert right.check().compared == len(right) == codes.size


@pytest.mark.parametrize("form", ["sequence", "array", "signal"])
def test_vectors_are_lanes_from_the_lowest_bits(form):
    """Their order matters: sums in bfloat16 lose bits."""
    rng = np.random.default_rng(0)
    board = Scoreboard("dot", "e4m3fn", "e4m3fn", accumulation="bf16_sequential")
    for _ in range(20):
        x, y = rng.integers(0, 0x70, (2, 6), dtype=np.uint8)
        c = int(lp.encode(rng.standard_normal(), "bfloat16"))
        values, addend = (lp.decode(side, "e4m3fn") for side in (x, y)), lp.decode(np.uint16(c), "bfloat16")
        result = int(lp.dot(*values, "bf16_sequential", addend=addend, dtype=np.uint16))
        if form == "signal":
            x, y = (Signal(int.from_bytes(side.tobytes(), "little"), 48) for side in (x, y))
        elif form == "sequence":
            x, y = x.tolist(), y.tolist()
        board.add(x, y, result=result, addend=c)
    assert board.check().compared == 20
    board.add([0x38] * 6, [0x38] * 6, result=0, addend=0)
    with pytest.raises(AssertionError, match="1 of 21 results differ"):
        board.check()


@pytest.mark.apart
def test_another_order_passes_by_its_budget():
    x, y = (
        np.asarray(lp.quantize(np.random.default_rng(s).standard_normal((30, 64)), "bfloat16"))
        for s in (1, 2)
    )
    boards = [
        Scoreboard("dot", "bfloat16", "bfloat16", accumulation="fp32_fma", ulps=u) for u in (None, "auto")
    ]
    results = lp.dot(x[:, ::-1], y[:, ::-1], "fp32_fma", dtype=np.uint32)
    for board in boards:
        for row in zip(x, y, results, strict=True):
            codes = [lp.encode(side, "bfloat16").tolist() for side in row[:2]]
            board.add(*codes, result=int(row[2]))
    with pytest.raises(AssertionError, match="explained by order reversed instead of sequential: 13 of 13"):
        boards[0].check()
    assert boards[1].check().spent.within > 0


@pytest.mark.apart
def test_library_calls_have_scales_and_a_bias():
    """Floats or codes in binary32; without any the call has none, and what is left out is named."""
    rng, call = np.random.default_rng(5), "ada_cublaslt_fp8(output=e4m3fn)"
    x, y = (lp.encode(rng.standard_normal((40, 64)), "e4m3fn") for _ in range(2))
    scales, bias = rng.uniform(0.1, 2, (2, 40)).astype(np.float32), rng.standard_normal(40).astype(np.float32)
    values = tuple(lp.decode(side, "e4m3fn") for side in (x, y))
    for given in ({}, {"scale": scales}, {"scale": scales, "bias": bias}):
        pair = tuple(each[:, None] for each in given["scale"]) if given else None
        results = lp.dot(*values, call, scales=pair, bias=given.get("bias"), dtype=np.uint8)
        boards = [
            Scoreboard("dot", accumulation=each)
            for each in (call, lp.library_calls["ada_cublaslt_fp8"](output="e4m3fn"), call)
        ]
        for row in range(40):
            said = {"scale": scales[:, row].tolist(), "bias": float(bias[row])}
            codes = {
                "scale": [int(each) for each in scales[:, row].view(np.uint32)],
                "bias": int(bias.view(np.uint32)[row]),
            }
            for board, kept in zip(boards, (said, codes, {"scale": (1.0, 1.0)}), strict=True):
                chosen = {name: value for name, value in kept.items() if name in given or board is boards[2]}
                board.add(x[row].tolist(), y[row].tolist(), result=int(results[row]), **chosen)
        assert boards[0].check().compared == boards[1].check().compared == 40
        if given:
            with pytest.raises(AssertionError, match="of 40 results differ"):
                boards[2].check()
        else:
            boards[2].check()


@pytest.mark.apart
@pytest.mark.parametrize("form", ["signal", "sequence", "floats"])
def test_instructions_in_blocks_have_their_own_scales(form):
    """Codes in the scales' format, a lane for each block, or their values."""
    rng, name = np.random.default_rng(6), "blackwell_tcgen05_e4m3fn_binary32_e8m0fnu_1"
    x, y = (lp.encode(rng.standard_normal((30, 64)), "mxfp8_e4m3") for _ in range(2))
    results = lp.dot(x, y, name, dtype=np.uint32)
    board, other = Scoreboard("dot", accumulation=name), Scoreboard("dot", accumulation=name)
    for row in range(30):
        codes = [side.codes[row].tolist() for side in (x, y)]
        scales = [side.scales[row].tolist() for side in (x, y)]
        for kept, changed in ((board, scales), (other, [scales[0], [code + 1 for code in scales[1]]])):
            if form == "signal":
                changed = [Signal(code[0] | code[1] << 8, 16) for code in changed]
            elif form == "floats":
                changed = [lp.decode(np.uint8(code), "e8m0fnu") for code in changed]
            kept.add(*codes, result=int(results[row]), scale=changed)
    assert board.check().compared == 30
    with pytest.raises(AssertionError, match="30 of 30 results differ"):
        other.check()
    for scale, message in (
        (None, "needs scale=: those of the blocks of x, and of y"),
        ((0x7F, 0x7F), "operands of transaction 30: x has 1 scales, and 64 lanes make 2 blocks of 32"),
        (([0x7F] * 2, [0x7F, 0x100]), "operands of transaction 30: 0x100 is no code of 'e8m0fnu'"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            board.add(*codes, result=0, scale=scale)


def test_floats_of_every_width_are_numbers_and_no_codes():
    """A float32 of NumPy is no float of Python's."""
    board = Scoreboard("dot", "e4m3fn", "e4m3fn", accumulation="fp32_fma")
    half = np.float32(0.5)
    board.add([0x38], [0x38], result=0x3FA00000, addend=half, scale=(half, np.float16(0.5)), bias=half)
    assert board.report().agrees  # 1 * 0.25 + 0.5 + 0.5


def test_scales_of_a_dot_product_are_a_pair():
    board = Scoreboard("dot", accumulation=UNIT)
    for wrong in (2.0, (1.0, 2.0, 3.0)):
        with pytest.raises(
            ValueError, match=r"^operands of transaction 0: scale= of 'dot' is a pair, for x and for y$"
        ):
            board.add([0x38], [0x38], result=0x3F800000, scale=wrong)
    with pytest.raises(ValueError, match=r"^bias= is for 'dot'; the operands of add come"):
        Scoreboard("add", "e5m2", "e5m2", "e5m2").add(0x3C, 0x3C, result=0x40, bias=1.0)


def test_flags_are_part_of_a_transaction():
    board = Scoreboard("divide", "e5m2", "e5m2", "e5m2", flags=True)
    board.add(0x3C, 0x00, result=0x7C, flags=8)
    board.check()
    board.add(0x3C, 0x00, result=0x7C, flags=Signal(0, 5))
    with pytest.raises(AssertionError, match="divide by zero missing"):
        board.check()
    with pytest.raises(ValueError, match="transaction 2 has no flags"):
        board.add(0x3C, 0x00, result=0x7C)


@pytest.mark.parametrize("operation", ["dot", "block", "add"])
def test_no_transactions_fail(operation):
    how = {
        "dot": ({"accumulation": UNIT}, ()),
        "block": ({}, ("binary32", "mxfp4")),
        "add": ({}, ("e4m3fn", "e4m3fn", "e4m3fn")),
    }
    options, formats = how[operation]
    with pytest.raises(AssertionError, match="nothing was compared"):
        Scoreboard(operation, *formats, **options).check()


@pytest.mark.parametrize("result", [np.int8(-64), 2**64, 64.7, np.float32(64)])
def test_results_that_are_no_unsigned_integers_are_refused_at_once(result):
    """Report on the other transactions."""
    board = Scoreboard("add", "e4m3fn", "e4m3fn", "e4m3fn")
    board.add(0x38, 0x38, result=0x40)
    with pytest.raises(
        ValueError, match=r"^result of transaction 1: .* is (no code|not between 0 and 2\*\*64)"
    ):
        board.add(0x38, 0x38, result=result)
    assert board.check().compared == 1
    values, scale, codes = (side[0] for side in blocks_of())
    blocks = Scoreboard("block", "binary32", "mxfp4")
    with pytest.raises(
        ValueError, match=r"^result of transaction 0: .* is (no code|not between 0 and 2\*\*64)"
    ):
        blocks.add(values, result=[result, *codes[1:]], scale=scale)
    for wrong in (-1, 256):
        with pytest.raises(ValueError, match="is no code of 'e8m0fnu'"):
            blocks.add(values, result=codes, scale=wrong)


def test_undefined_results_and_no_transactions_fail():
    board = Scoreboard("convert", "binary16", "e4m3fn")
    with pytest.raises(AssertionError, match="nothing was compared"):
        board.check()
    board.add(0x3C00, result=0x38)
    board.check()
    board.add(0x3C00, result=Signal(None, 8))
    with pytest.raises(AssertionError) as failed:
        board.check()
    assert str(failed.value) == "1 results have x or z, the first in transaction 1"


def test_results_that_are_no_codes_differ():
    board = Scoreboard("convert", "binary16", "e4m3fn")
    board.add(0x3C00, result=0x138)
    with pytest.raises(AssertionError, match="no code of e4m3fn"):
        board.check()


def test_the_report_is_written(tmp_path):
    board = Scoreboard("convert", "binary16", "e4m3fn")
    board.add(0x3C00, result=0x39)
    with pytest.raises(AssertionError):
        board.check(junit=tmp_path / "report.xml")
    assert 'failures="1"' in (tmp_path / "report.xml").read_text()


def simulate(monkeypatch, clock, signals, rows):
    """Let each clock give signals the values of a row; behind the last the simulation ends."""
    left = iter(rows)

    class RisingEdge:
        def __init__(self, signal):
            assert signal is clock

        def __await__(self):
            if (row := next(left, None)) is None:
                raise asyncio.CancelledError
            for signal, bits in zip(signals, row, strict=True):
                signal.value = Signal(bits, signal.value.width)
            return iter(())

    module = types.ModuleType("cocotb.triggers")
    module.RisingEdge = RisingEdge
    monkeypatch.setitem(sys.modules, "cocotb.triggers", module)


def test_a_pipeline_is_followed_clock_by_clock(monkeypatch):
    """Results come two clocks after their operands, and not at every clock."""
    clock, x, result, given, done = (
        types.SimpleNamespace(value=Signal(0, width)) for width in (1, 16, 8, 1, 1)
    )
    rows = [  # operands valid, operand, result valid, result
        (1, 0x3C00, 0, None),
        (0, None, 0, None),
        (1, 0x4000, 1, 0x38),
        (1, 0x4200, 0, None),
        (0, None, 1, 0x40),
    ]

    simulate(monkeypatch, clock, (given, x, done, result), rows)
    board = Scoreboard("convert", "binary16", "e4m3fn")

    async def simulation():
        await board.follow(clock, [x], result, given=given, done=done)

    with pytest.raises(asyncio.CancelledError):
        simulation().send(None)
    assert len(board) == 2
    with pytest.raises(AssertionError) as failed:
        board.check()
    assert str(failed.value) == "1 operands have no result"


def test_operands_of_the_last_clock_need_no_result(monkeypatch):
    """Where results are those of the clock before."""
    clock, x, result = (types.SimpleNamespace(value=Signal(0, width)) for width in (1, 16, 8))
    rows = [(0x3C00, 0), (0x4000, 0x38), (0x4200, 0x40)]

    simulate(monkeypatch, clock, (x, result), rows)
    board = Scoreboard("convert", "binary16", "e4m3fn")
    with pytest.raises(asyncio.CancelledError):
        board.follow(clock, [x], result).send(None)
    assert board.check().compared == 2


def test_scales_and_a_bias_are_followed_beside_the_operands(monkeypatch):
    """Of a dot product: two signals, and one, of the clock at which its operands were valid."""
    clock, x, y, sx, sy, bias, result = (
        types.SimpleNamespace(value=Signal(0, width)) for width in (1, 16, 16, 32, 32, 32, 32)
    )
    one = 0x3F800000
    second = (0x3840, one, 0x40000000, one, 0x40000000)
    rows = [(0x3838, one, one, 0, 0), second, (0, one, one, 0, 0x41300000)]

    simulate(monkeypatch, clock, (x, y, sx, sy, bias, result), [(row[0], *row) for row in rows])
    board = Scoreboard("dot", "e4m3fn", "e4m3fn", accumulation="fp32_fma")
    with pytest.raises(asyncio.CancelledError):
        board.follow(clock, [x, y], result, scale=(sx, sy), bias=bias).send(None)
    assert board.report().agrees  # 1 + 1 + 0, and (4 + 1) * 1 * 2 + 1
    assert len(board) == 2


def test_following_needs_cocotb(monkeypatch):
    monkeypatch.setitem(sys.modules, "cocotb.triggers", None)
    with pytest.raises(ModuleNotFoundError) as missing:
        Scoreboard("convert", "binary16", "e4m3fn").follow(None, [], None).send(None)
    assert str(missing.value) == 'following signals needs cocotb: pip install "lowprec[cocotb]"'


REFUSED = {
    "operation": (("sum", "e5m2"), {}, "unknown operation 'sum'; use dot, block or one of "),
    "formats": (("add", "e5m2", "e5m2"), {}, "add has 3 formats here, not 2"),
    "no accumulation": (("dot", "e5m2", "e5m2"), {}, "a scoreboard of 'dot' needs accumulation="),
    "rounding": (
        ("dot",),
        {"accumulation": UNIT, "rounding": "to_odd"},
        "rounding= says nothing about 'dot'",
    ),
    "mode": (("add", "e5m2", "e5m2", "e5m2"), {"rounding": "up"}, "unknown rounding 'up'"),
    "addition": (("add",), {"accumulation": UNIT}, "accumulation= is for 'dot', not for 'add'; leave it out"),
    "factors": (("dot",), {"accumulation": "fp32_fma"}, "dot has 2 formats here, not 0"),
}


@pytest.mark.parametrize(("given", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_requests_that_cannot_be_are_refused(given, options, message):
    with pytest.raises(ValueError, match=r"\w") as refused:
        Scoreboard(*given, **options)
    assert str(refused.value).startswith(message)


WRONG = {
    "few": (lambda board: board.add(result=0), "dot takes 2 operands, not 0"),
    "integer": (
        lambda board: board.add(5, 5, result=0),
        "operands of transaction 0: 0x5 does not say how many lanes",
    ),
    "x": (
        lambda board: board.add(Signal(None, 8), Signal(0, 8), result=0),
        "operands of transaction 0: x",
    ),
    "wide": (
        lambda board: board.add([0x100], [0], result=0),
        "operands of transaction 0: 0x100 is no code of",
    ),
}


@pytest.mark.parametrize(("add", "message"), WRONG.values(), ids=WRONG)
def test_transactions_that_cannot_be_are_refused(add, message):
    board = Scoreboard("dot", accumulation=UNIT)
    with pytest.raises(ValueError, match=r"\w") as refused:
        add(board)
    assert str(refused.value).startswith(message)


def test_an_addend_is_for_dots():
    board = Scoreboard("fma", "e5m2", "e5m2", "e5m2", "e5m2")
    board.add(0x3C, 0x3C, 0x3C, result=0x40)
    board.check()
    with pytest.raises(
        ValueError, match="addend= is for 'dot'; the operands of fma come one after the other"
    ):
        board.add(0x3C, 0x3C, 0x3C, result=0x40, addend=1.0)


def test_vectors_of_another_length_are_refused():
    board = Scoreboard("dot", accumulation=UNIT)
    board.add([0x38], [0x38], result=0x3F800000)
    with pytest.raises(ValueError, match="transaction 1 has vectors of another length"):
        board.add([0x38] * 2, [0x38] * 2, result=0x40000000)


def blocks_of(fmt="mxfp4", **how):
    """Codes of values, scales and elements."""
    x = np.random.default_rng(0).standard_normal((40, 32)).astype(np.float32)
    made = lp.encode(x, fmt, **how)
    return x.view(np.uint32), made.scales[:, 0], made.codes


@pytest.mark.parametrize("form", ["sequence", "signal"])
def test_blocks_are_kept_and_judged(form):
    """A scale and elements for each; the other rule is named, and places are transaction and lane."""
    for rule, agrees in (("floor", True), ("rceil", False)):
        board = Scoreboard("block", "binary32", "mxfp4")
        for values, scale, codes in zip(*blocks_of(rule=rule), strict=True):
            if form == "signal":
                packed = sum(int(code) << 4 * lane for lane, code in enumerate(codes))
                values, codes = Signal(int.from_bytes(values.tobytes(), "little"), 1024), Signal(packed, 128)
                scale = Signal(int(scale), 8)
            board.add(values, result=codes, scale=scale)
        assert len(board) == 40
        report = board.report()
        assert report.agrees == agrees
        assert report.compared == 40 * 32
    assert "rule 'rceil'" in report.cause.words
    assert report.details[0].data["at"][1] < 32
    profiled = Scoreboard("block", "binary32", "mxfp4", profile="torchao_rceil")
    for values, scale, codes in zip(*blocks_of(rule="rceil"), strict=True):
        profiled.add(values, result=codes, scale=scale)
    profiled.check()


def test_blocks_with_x_or_no_code_fail():
    values, scale, codes = (side[0] for side in blocks_of())
    board = Scoreboard("block", "binary32", "mxfp4")
    board.add(values, result=codes, scale=scale)
    board.check()
    board.add(values, result=codes, scale=Signal(None, 8))
    board.add(values, result=Signal(None, 128), scale=scale)
    with pytest.raises(AssertionError, match=r"^2 results have x or z, the first in transaction 1$"):
        board.check()
    board = Scoreboard("block", "binary32", "mxfp4")
    board.add(values, result=[0x13, *codes[1:]], scale=scale)
    with pytest.raises(AssertionError, match="no code of e2m1fn"):
        board.check()


NO_BLOCKS = {
    "formats": (("binary32",), {}, "block has 2 formats here, that of the values and a block format, not 1"),
    "source": (("binary64", "mxfp4"), {}, "blocks are made of floats that binary32 has, not of 'binary64'"),
    "tensor": (("binary32", "nvfp4"), {}, "'nvfp4' has a scale of the tensor, or blocks of two dimensions"),
    "flags": (("binary32", "mxfp4"), {"flags": True}, "flags= says nothing about 'block'; leave it out"),
    "element": (("binary32", "e4m3fn"), {}, "unknown block format 'e4m3fn'"),
}


@pytest.mark.parametrize(("formats", "options", "message"), NO_BLOCKS.values(), ids=NO_BLOCKS)
def test_blocks_that_cannot_be_are_refused(formats, options, message):
    with pytest.raises(ValueError, match=r"\w") as refused:
        Scoreboard("block", *formats, **options)
    assert str(refused.value).startswith(message)


def test_transactions_of_blocks_that_cannot_be_are_refused():
    values, scale, codes = (side[0] for side in blocks_of())
    board = Scoreboard("block", "binary32", "mxfp4")
    for given, message in (
        ({"result": codes}, "a transaction of 'block' needs scale=, the code of the scale"),
        ({"result": 5, "scale": scale}, "result of transaction 0: 0x5 does not say how many lanes it has"),
        (
            {"result": codes[:5], "scale": scale},
            "transaction 0 has 32 values and 5 elements; a block of 'mxfp4' has 32",
        ),
    ):
        with pytest.raises(ValueError, match=r"\w") as refused:
            board.add(values, **given)
        assert str(refused.value).startswith(message)
    with pytest.raises(ValueError, match="scale= is for 'block', not for 'convert'; leave it out"):
        Scoreboard("convert", "binary16", "e4m3fn").add(0x3C00, result=0x38, scale=1)


@pytest.mark.parametrize(
    ("how", "zero"), [("exact", 0x80000000), ("fp32_pairwise", 0x80000000), ("fp32_fma", 0)]
)
def test_a_sum_without_an_addend_has_the_zero_of_such_a_sum(how, zero):
    """By docs/dot-products.md: of exact sums and pairs of -0 it is -0, of sums that begin with +0 not."""
    for result in (0, 0x80000000):
        board = Scoreboard("dot", "e4m3fn", "e4m3fn", accumulation=how)
        board.add([0x80, 0x80], [0x38, 0x38], result=result)
        assert board.report().agrees == (result == zero)


def test_addends_are_given_always_or_never():
    board = Scoreboard("dot", "e4m3fn", "e4m3fn", accumulation="fp32_fma")
    with pytest.raises(ValueError, match="0x80000000000 is no code"):
        board.add([56], [56], result=0x3F800000, addend=0x80000000000)
    board.add([56], [56], result=0x3F800000)  # what was refused is not counted
    with pytest.raises(ValueError, match=r"^transaction 1 has an addend; give one always, or never"):
        board.add([56], [56], result=0x3F800000, addend=0.0)


@pytest.mark.parametrize(
    ("formats", "options", "given", "message"),
    [
        (("convert", "binary32", "e4m3fn"), {}, {"operands": (1.0,), "result": 0x38}, "1.0 is no code; give"),
        (
            ("dot", "e4m3fn", "e4m3fn"),
            {"accumulation": "fp32_fma"},
            {"operands": ([56.7, 56], [56, 56]), "result": 0},
            "operands of transaction 0: 56.7 is no code; give integers",
        ),
        (
            ("dot", "e4m3fn", "e4m3fn"),
            {"accumulation": "fp32_fma"},
            {"operands": ([56, 56], [56]), "result": 0},
            "operands of transaction 0: x has 2 lanes, and y 1",
        ),
        (
            ("dot", "e4m3fn", "e4m3fn"),
            {"accumulation": "fp32_fma"},
            {"operands": ([56], [56]), "result": 0, "scale": (1.0, -2.0)},
            "operands of transaction 0: the scale of y is -2.0; scales are positive and finite",
        ),
        (
            ("block", "binary32", "mxfp4"),
            {},
            {"operands": ([0x3F800000] * 32,), "result": [6] * 32, "scale": 125.9},
            "scale of transaction 0: 125.9 is no code; give integers",
        ),
        (
            ("add", "e4m3fn", "e4m3fn", "e4m3fn"),
            {"flags": True},
            {"operands": (0x38, 0x38), "result": 0x40, "flags": -1},
            "flags of transaction 0: -1 is not between 0 and 2**63 - 1",
        ),
        (
            ("dot", "e4m3fn", "e4m3fn"),
            {"accumulation": "fp32_fma"},
            {"operands": (Signal(0xF3838, 20), Signal(0x3838, 20)), "result": 0},
            "20 bits are no whole number of lanes of 'e4m3fn', of 8 bits",
        ),
        (
            ("block", "binary32", "mxfp4"),
            {},
            {"operands": ([0x3F800000] * 32,), "result": Signal(0, 131), "scale": 125},
            "result of transaction 0: 131 bits are no whole number of lanes of 'e2m1fn', of 4 bits",
        ),
    ],
)
def test_what_would_be_cut_is_refused(formats, options, given, message):
    board = Scoreboard(*formats, **options)
    with pytest.raises(ValueError, match=re.escape(message)):
        board.add(*given.pop("operands"), **given)
