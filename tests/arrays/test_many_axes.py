"""Arrays of 33 to 64 axes, which some of NumPy's functions do not take, have the results of fewer axes."""

import re

import numpy as np
import pytest

import lowprec as lp
from lowprec import p3109
from lowprec.arrays.axes import broadcast_shapes
from lowprec.methods import expansion, fp8, scale_propagation as sp, unit_scaling as us

VALUES = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
SHAPE = (2, *(1,) * 20, 3, *(1,) * 17, 4)
MANY, ROW = VALUES.reshape(SHAPE), VALUES[:1, :1].reshape(*(1,) * 39, 4)
CODES, CODE_ROW = lp.encode(MANY, "e4m3fn", backend="oracle"), lp.encode(ROW, "e4m3fn", backend="oracle")


def _few(values):
    return np.squeeze(values)


PAIRS = [(MANY, ROW), (_few(MANY), _few(ROW))]


VERBS = {
    "add": lambda x, y, **to: lp.add(x, y, "e4m3fn", **to),
    "fma of a number": lambda x, y, **to: lp.fma(x, y, 2.0, "e4m3fn", **to),
    "pow": lambda x, y, **to: lp.pow(np.abs(x), y, "e4m3fn", **to),
    "oracle": lambda x, y, **to: lp.add(x, y, "e4m3fn", backend="oracle", **to),
    "stochastic": lambda x, y, **to: lp.add(x, y, "e4m3fn", rounding="stochastic(8)", rng=1, **to),
    "nextafter": lambda x, y, **to: lp.nextafter(x, y, "e4m3fn"),
    "dot": lambda x, y, **to: lp.dot(x, y, "fp32_fma"),
    "dot and addend": lambda x, y, **to: lp.dot(x, y, "fp32_fma", addend=x[..., 0]),
    "matmul": lambda x, y, **to: lp.matmul(x, np.swapaxes(y, -1, -2) if y.ndim > 1 else y, "fp32_fma"),
}


@pytest.mark.parametrize("name", VERBS)
def test_results_are_those_of_fewer_axes(name):
    made, want = VERBS[name](MANY, ROW), VERBS[name](_few(MANY), _few(ROW))
    assert _few(made).tolist() == want.tolist()
    assert made.shape == (SHAPE[:-1] if "dot" in name else (*SHAPE[:-1], 1) if name == "matmul" else SHAPE)


def test_flags_of_many_axes():
    flags = np.zeros(SHAPE, np.uint8)
    assert lp.multiply(MANY, 1e9 * ROW, "e4m3fn", flags=flags).shape == SHAPE
    fewer = np.zeros(VALUES.shape, np.uint8)
    lp.multiply(VALUES, 1e9 * _few(ROW), "e4m3fn", flags=fewer)
    assert _few(flags).tolist() == fewer.tolist()


@pytest.mark.parametrize("compare", [lp.equal, lp.less, lp.total_order])
def test_comparisons_are_those_of_fewer_axes(compare):
    made = compare(CODES, CODE_ROW, "e4m3fn")
    assert made.shape == SHAPE
    assert _few(made).tolist() == compare(_few(CODES), _few(CODE_ROW), "e4m3fn").tolist()


def test_random_integers_of_a_box_are_those_of_the_whole():
    whole = (3, *(1,) * 58, 2, 5)
    made = lp.random_bits((2, *(1,) * 58, 1, 3), 7, 8, origin=(1, *(0,) * 58, 1, 2), within=whole)
    assert made.shape == (2, *(1,) * 58, 1, 3)
    assert _few(made).tolist() == lp.random_bits((3, 2, 5), 7, 8)[1:, 1, 2:].tolist()


def test_lazy_arrays_of_many_axes():
    array = pytest.importorskip("dask.array")
    lazy = array.from_array(MANY, chunks=(1, *SHAPE[1:-1], 2))
    stochastic = {"rounding": "stochastic(8)", "rng": 1}
    assert (
        lp.encode(lazy, "e4m3fn", **stochastic).compute() == lp.encode(MANY, "e4m3fn", **stochastic)
    ).all()
    whole = array.from_array(MANY)  # Dask itself does not change chunks of so many axes
    assert (lp.add(whole, ROW, "e4m3fn").compute() == lp.add(MANY, ROW, "e4m3fn")).all()


def test_the_drafts_operations_take_many_axes():
    u, how = "Binary8p4se", ("NearestTiesToEven", "SatNone")
    for name, count in (("Add", 2), ("FAA", 3), ("ScaledAdd", 4)):
        run = getattr(p3109, name)[(*[u] * count, u, how)]
        codes = [CODES, CODE_ROW] * (count // 2) + [CODES] * (count % 2)
        assert _few(run(*codes)).tolist() == run(*map(_few, codes)).tolist()


def test_methods_take_many_axes():
    scale = np.float32(ROW != 0) * 2
    scaled, few = (fp8.ScaledCodes(*each, "e4m3fn") for each in ((CODES, scale), (_few(CODES), _few(scale))))
    assert _few(scaled.values()).tolist() == few.values().tolist()
    sums = [
        expansion.add(*(expansion.split(each, 2, "bfloat16") for each in pair)).values() for pair in PAIRS
    ]
    assert _few(sums[0]).tolist() == sums[1].tolist()
    x = VALUES.reshape(2, *(1,) * 37, 3, 4)
    made = [us.matmul(each, np.swapaxes(each, -1, -2))[0] for each in (x, VALUES)]
    assert _few(made[0]).tolist() == made[1].tolist()


def test_reports_of_one_scale_and_lists_of_many_axes():
    assert lp.error_report(MANY, "e4m3fn", scale=np.float32(2)) == lp.error_report(VALUES, "e4m3fn", scale=2)
    deep = np.reshape(2.0**60, (1,) * 40).tolist()
    assert lp.encode(deep, "binary32").item() == 0x5D800000
    assert sp.as_scaled(np.full(SHAPE, 3.0, np.float32)).to_array().tolist() == np.full(SHAPE, 3.0).tolist()


@pytest.mark.parametrize("name", ["mxfp4", "bnb_nf4", "nvfp4", "mxfp6_e2m3"])
@pytest.mark.parametrize("shape", [(*(1,) * 61, 2, 3, 40), (*(1,) * 60, 2, 1, 3, 40), (*(1,) * 63, 0)])
def test_blocks_of_as_many_axes_as_numpy_has(name, shape):
    """Leave room for the axes that blocks, and bytes of several codes, have on the way."""
    values = np.random.default_rng(0).standard_normal(shape)
    made, few = lp.encode(values, name), lp.encode(_few(values), name)
    for backend in (None, "scalar"):
        made = lp.encode(values, name, backend=backend)
        assert _few(made.codes).tolist() == few.codes.tolist()
        assert _few(lp.decode(made, backend=backend)).tolist() == few.values().tolist()
    whole = lp.BlockArray.unpack(
        made.packed(), made.scales, name, size=shape[-1], tensor_scale=made.tensor_scale
    )
    assert whole == made


def test_formats_are_tried_on_as_many_axes_as_numpy_has():
    how = {"elements": ["e2m1fn"], "sizes": [4], "scales": ["e8m0fnu"]}
    found = lp.sweep_formats(VALUES.reshape(*(1,) * 61, 2, 3, 4), **how)
    assert [row.sqnr for row in found.rows] == [row.sqnr for row in lp.sweep_formats(VALUES, **how).rows]


@pytest.mark.parametrize("operation", ["dot", "matmul"])
def test_products_are_compared(operation):
    """Compare products of more axes than NumPy's function of shapes takes, which is 32."""
    y = np.swapaxes(ROW, -1, -2) if operation == "matmul" else ROW
    made = np.array(getattr(lp, operation)(MANY, y, "fp32_fma"))
    report = lp.compare((MANY, y), made, operation=operation, accumulation="fp32_fma")
    assert (report.agrees, report.compared) == (True, 6)
    made.reshape(-1)[3] *= 2
    report = lp.compare((MANY, y), made, operation=operation, accumulation="fp32_fma", why=False)
    assert (report.mismatches, report.details[0].data["index"]) == (1, 3)


def test_shapes_that_do_not_broadcast_are_refused():
    message = f"add takes operands that broadcast together, not of shapes {SHAPE} and (3,)"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        lp.add(MANY, np.ones(3), "e4m3fn")
    message = (
        f"dot of shapes {SHAPE} and {(5, *SHAPE[1:])}: the axes in front, {SHAPE[:-1]} and "
        f"{(5, *SHAPE[1:-1])}, do not broadcast; make them equal, or 1"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        lp.dot(MANY, np.ones((5, *SHAPE[1:])), "fp32_fma")


@pytest.mark.parametrize(
    ("shapes", "wanted"),
    [
        (((1,) * 40, (0,)), (*(1,) * 39, 0)),
        (((2, *(1,) * 40), (3, 1), ()), (2, *(1,) * 38, 3, 1)),
        (((1,) * 64,), (1,) * 64),
        (((2, 1), (3,)), (2, 3)),
    ],
)
def test_shapes_broadcast_as_numpys_do(shapes, wanted):
    assert broadcast_shapes(*shapes) == wanted
