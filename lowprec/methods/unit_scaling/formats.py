"""The simulated formats, and quantizers around the operations that have them: E4M3 forward, E5M2 backward.

Every rounding is `lowprec.quantize`. Floor 4.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import as_array
from lowprec.arrays.convert import quantize
from lowprec.methods.unit_scaling import convolutions, products
from lowprec.methods.unit_scaling.softmaxes import attention
from lowprec.methods.unit_scaling.sums import multiply
from lowprec.methods.unit_scaling.vjp import Array, Vjp
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.rounding import Rounding, rounding as rounding_of, stochastic


def simulated(exponent_bits: int, trailing_bits: int) -> Format:
    """Make a format of the paper's simulation: bias 2**(E - 1), and every code is a number.

    The values of simulated(4, 3) and simulated(5, 2) are those of e4m3fnuz and e5m2fnuz, and -0.

    >>> fmt = simulated(2, 1)
    >>> fmt.max_finite, fmt.min_normal, fmt.min_subnormal
    (3.0, 0.5, 0.25)

    Parameters
    ----------
    exponent_bits : int, 1 or more
    trailing_bits : int, 0 or more

    Returns
    -------
    fmt : Format
        Named "e4m3_simulated" and so on; saturation="finite" is meant with it.

    Raises ValueError: no exponent bits, or more bits than a `Format` may have.

    Source: [UNIT_SCALING] its library, `FPFormat`; the bias is that of [FNUZ].
    """
    for name, bits in (("exponent_bits", exponent_bits), ("trailing_bits", trailing_bits)):
        if isinstance(bits, bool) or not isinstance(bits, (int, np.integer)):
            raise TypeError(f"{name}={bits!r} of a simulated format must be an integer")
    if exponent_bits < 1:
        raise ValueError(f"exponent_bits={exponent_bits!r} of a simulated format must be 1 or more")
    return Format(
        name=f"e{exponent_bits}m{trailing_bits}_simulated",
        exponent_bits=exponent_bits,
        trailing_bits=trailing_bits,
        bias=1 << (min(exponent_bits, 64) - 1),  # more are refused
        source="UNIT_SCALING",
    )


def simulated_rounding(fmt: Format | str, mode: str = "stochastic", bits: int = 0) -> Rounding:
    """Return a rounding of the authors' library, as one of `lowprec`.

    >>> str(simulated_rounding(E4M3)), str(simulated_rounding(E4M3, bits=13))
    ('stochastic(20, A)', 'stochastic(13, B)')
    >>> str(simulated_rounding(E4M3, "nearest"))
    'nearest_zero'

    Parameters
    ----------
    fmt : Format or str
    mode : {"stochastic", "nearest"}
        Its "nearest" adds a little less than half and cuts off: ties go toward zero.
    bits : int
        Random bits of stochastic rounding: `srbits`. 0 stands for all that binary32 has behind the
        format's last bit. Fewer are corrected by half of a step, which is variant B.

    Returns
    -------
    rounding : Rounding

    Raises ValueError: an unknown mode, bits of "nearest", or more bits than there are.

    Notes
    -----
    The library also rounds subnormals of its scaled binary32 before it rounds stochastically; so does the
    profile `unit_scaling`, for e4m3fnuz and e5m2fnuz.

    Source: [UNIT_SCALING] its library, `FPFormat.quantise`.
    """
    target = catalog.format(fmt)
    every = 23 - target.trailing_bits
    if mode == "nearest" and bits == 0:
        return rounding_of("nearest_zero")
    if mode != "stochastic":
        raise ValueError(
            f"mode={mode!r} with bits={bits!r} is no rounding of the simulation; use 'nearest', or "
            f"'stochastic', which alone takes bits"
        )
    if not 0 <= bits <= every or every < 1:
        raise ValueError(
            f"bits={bits!r} for {target.name!r} is out of range; binary32 has {every} behind its last bit"
        )
    return stochastic(every) if bits in (0, every) else stochastic(bits, "B")


#: What the paper's experiments have forward: maximum 240, least normal 2**-7, least subnormal 2**-10.
E4M3 = simulated(4, 3)
#: And backward: maximum 57344, least normal 2**-15, least subnormal 2**-17.
E5M2 = simulated(5, 2)

#: How many of the first operands of an operation are quantized: biases are not.
_OPERANDS: dict[Any, int] = {
    products.matmul: 2,
    products.linear: 2,
    products.readout: 2,
    multiply: 2,
    convolutions.conv1d: 2,
    convolutions.conv2d: 2,
    attention: 3,
}


def quantized(
    operation: Callable[..., tuple[Array, Vjp]],
    *,
    forward: Format | str | None = E4M3,
    backward: Format | str | None = E5M2,
    rounding: Rounding | str | None = None,
    saturation: str = "finite",
    rng: int | np.random.Generator | None = None,
    operands: int | None = None,
) -> Callable[..., tuple[Array, Vjp]]:
    """Put quantizers around an operation: its operands forward, the gradient of its output backward.

    Gradients pass the forward quantizers as they are. Both passes multiply quantized values: operands as in
    the forward pass with the quantized gradient.

    >>> linear = quantized(products.linear)
    >>> y, vjp = linear([[1.03, 500.0]], np.eye(2), constraint=None)
    >>> y
    array([[  0.70710678, 169.70562748]])
    >>> vjp([[1.1, 1e-6]])[0]
    array([[0.70710678, 0.        ]])

    Parameters
    ----------
    operation : callable
        Any that gives (y, vjp); `unscaled(linear)` and `functools.partial(linear, constraint=None)` too.
    forward, backward : Format, str or None
        None leaves values as they are.
    rounding : Rounding or str, default "nearest_even"
        Of both; `simulated_rounding` has those of the authors' library.
    saturation : str
    rng : int or Generator
        For stochastic rounding, and only then. Each call takes other random integers.
    operands : int, optional
        How many of the first operands are quantized: 3 of attention, 2 of the other products. For
        operations that are not of this module it must be given.

    Returns
    -------
    operation : callable
        With the same parameters, but the operands that are quantized are given by position.

    Raises ValueError: an operation that is not known, without `operands`; and what `lowprec.quantize`
    refuses.

    Source: [UNIT_SCALING] section 5 on FP8, and its library, `simulate_format`.
    """
    inner = operation
    while isinstance(inner, functools.partial) and not inner.args or hasattr(inner, "__wrapped__"):
        inner = inner.func if isinstance(inner, functools.partial) else inner.__wrapped__
    count = _OPERANDS.get(inner) if operands is None else operands
    if count is None:
        name = getattr(inner, "__name__", repr(inner))
        raise ValueError(f"it is not known how many operands of {name} are to be quantized; give operands=")
    source = None if rng is None else np.random.default_rng(rng)

    def rounded(values: npt.ArrayLike, fmt: Format | str | None) -> Any:
        if fmt is None:
            return values
        return quantize(as_array(values), fmt, rounding=rounding, saturation=saturation, rng=source)

    @functools.wraps(operation)
    def around(*given: Any, **settings: Any) -> tuple[Array, Vjp]:
        if len(given) < count:
            raise TypeError(
                f"the first {count} operands are quantized: give them by position, not {len(given)} of them"
            )
        y, vjp = operation(*(rounded(each, forward) for each in given[:count]), *given[count:], **settings)
        return y, dataclasses.replace(vjp, pull=lambda grad: vjp.pull(np.asarray(rounded(grad, backward))))

    return around
