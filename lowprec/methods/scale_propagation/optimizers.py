"""Adam and gradient descent with momentum, whose weights and states are arrays with scales in narrow formats.

Each step is ordinary NumPy code under the rules: its arithmetic is in binary32, each operation rounded once,
and what is kept is rounded once to its format, at the end, as fused kernels do it. States begin as zeros of
scale 0, which leave the scale to the gradient. With plain arrays the same code runs without scales.

Floor 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import as_array
from lowprec.arrays.doubles import real
from lowprec.methods.scale_propagation.scaled_array import ScaledArray, holds_no_scale
from lowprec.methods.scale_propagation.transform import Norm, cast, dynamic_rescale, rebalance
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.rounding import Rounding, rounding

Like = Format | str | npt.DTypeLike


@dataclass(frozen=True, eq=False)
class OptimizerState:
    """State of an optimizer for an array of parameters after a number of steps.

    Parameters
    ----------
    weights : ScaledArray or array, shape (...)
        The parameters, which the network computes with.
    first, second : ScaledArray or array, shape (...)
        The moments m and v. SGD has no second one: None.
    steps : int
    """

    weights: Any
    first: Any
    second: Any = None
    steps: int = 0


@dataclass(frozen=True, kw_only=True)
class _Optimizer:
    """Formats of what is kept, and how it is rounded."""

    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    weights: Like = "binary16"
    first: Like = "binary16"
    rescale: Norm | None = "l2"
    rounding: Rounding | str = "nearest_even"
    rng: int | np.random.Generator | None = None

    _limits: ClassVar[dict[str, float]] = {"learning_rate": math.inf, "weight_decay": math.inf}

    def __post_init__(self) -> None:
        for name, end in self._limits.items():
            given = getattr(self, name)
            if not 0 <= real(given, f"{name} of {type(self).__name__}") < end:
                below = "a finite number" if end == math.inf else f"below {end:g}"
                raise ValueError(f"{name}={given!r} of {type(self).__name__} must be {below}, 0 or more")
        for name in ("weights", "first", "second"):
            if hasattr(self, name):
                object.__setattr__(self, name, catalog.format(getattr(self, name)))
        if self.rescale not in (*get_args(Norm), None):
            known = ", ".join(get_args(Norm))
            raise ValueError(
                f"rescale={self.rescale!r} of {type(self).__name__} is unknown; use one of {known}, or None"
            )
        object.__setattr__(self, "rounding", rounding(self.rounding))
        if self.rng is not None:
            object.__setattr__(self, "rng", np.random.default_rng(self.rng))

    def start(self, values: Any) -> OptimizerState:
        """Return the state before the first step: the parameters in their format, and moments of zero.

        Parameters
        ----------
        values : ScaledArray or array of float, shape (...)
            With scales the moments have scale 0; plain arrays are kept without scales.
        """
        given = values if isinstance(values, ScaledArray) else as_array(values)
        zeros = np.zeros_like(cast(given, catalog.BINARY32))
        return OptimizerState(self._kept(given, self.weights), *self._moments(zeros))

    def step(self, state: OptimizerState, gradient: Any) -> OptimizerState:
        """Take a step, and return the next state.

        Parameters
        ----------
        state : OptimizerState, shape (...)
        gradient : ScaledArray or array of float, shape (...)
            Of the loss, without loss scale: a division by one changes the scale alone.

        Raises ValueError: a gradient of another shape.
        """
        shape = state.weights.shape
        if np.shape(gradient) != shape:
            raise ValueError(f"gradient of shape {np.shape(gradient)} is not of the weights' shape {shape}")
        given = gradient if isinstance(gradient, ScaledArray) else as_array(gradient)
        wide, steps = cast(given, catalog.BINARY32), state.steps + 1
        update, moments = self._update(state, wide, steps)
        w = cast(state.weights, catalog.BINARY32)
        kept = w * (1 - self.learning_rate * self.weight_decay) if self.weight_decay else w
        return OptimizerState(self._kept(kept - update, self.weights), *moments, steps=steps)

    def _moments(self, zeros: Any) -> tuple[Any, Any]:
        raise NotImplementedError

    def _update(self, state: OptimizerState, g: Any, steps: int) -> tuple[Any, tuple[Any, Any]]:
        """Return what is subtracted from the parameters, and the new moments."""
        raise NotImplementedError

    def _kept(self, x: Any, fmt: Any) -> Any:
        """Round to the format in which something is kept; its scale first becomes the statistic's."""
        rescaled, how = dynamic_rescale(x, self.rescale) if self.rescale else x, rounding(self.rounding)
        return cast(rescaled, fmt, rounding=how, saturation="finite", rng=self.rng if how.bits else None)


@dataclass(frozen=True, kw_only=True)
class SGD(_Optimizer):
    """Gradient descent with momentum: m <- momentum * m + g, then w <- w - learning_rate * m.

    >>> from lowprec.methods import scale_propagation as sp
    >>> optimizer = SGD(learning_rate=0.5, momentum=0.5)
    >>> state = optimizer.start(sp.as_scaled(np.float32([1.0, -2.0]), 1.0))
    >>> state.first
    ScaledArray([0., 0.], scale=0.0, format='binary16')
    >>> for _ in range(2):
    ...     state = optimizer.step(state, sp.as_scaled(np.float32([1e-12, 3e-12]), 2.0**-40))
    >>> state.first
    ScaledArray([0.8247, 2.475 ], scale=1.8189894035458565e-12, format='binary16')

    Parameters
    ----------
    learning_rate, weight_decay : float, 0 or more
        Weights are multiplied by 1 - learning_rate * weight_decay in each step.
    momentum : float, 0 or more and below 1
    weights, first : Format, str or dtype
        What weights and moment are kept in.
    rescale : {"l2", "max", "l1"}, optional
        The statistic that becomes the scale of what is kept, as of `dynamic_rescale`. None leaves scales to
        the rules alone.
    rounding : Rounding or str
        Of what is kept; it saturates. Formats of 8 bits need a stochastic one, such as "stochastic(16)", for
        steps are smaller than half their last place.
    rng : int or Generator, optional
        For stochastic rounding. An integer is the seed of a generator, which is drawn from at each rounding.

    Raises ValueError: numbers out of range, unknown formats.

    Source: [SCALIFY], which keeps weights and states in FP16.
    """

    momentum: float = 0.9

    _limits: ClassVar[dict[str, float]] = {**_Optimizer._limits, "momentum": 1.0}

    def _moments(self, zeros: Any) -> tuple[Any, Any]:
        return self._kept(zeros, self.first), None

    def _update(self, state: OptimizerState, g: Any, steps: int) -> tuple[Any, tuple[Any, Any]]:
        m = cast(state.first, catalog.BINARY32) * self.momentum + g
        return m * self.learning_rate, (self._kept(m, self.first), None)


@dataclass(frozen=True, kw_only=True)
class Adam(_Optimizer):
    """Adam, and with weight_decay AdamW.

    m <- beta1 * m + (1 - beta1) * g, v <- beta2 * v + (1 - beta2) * g * g, and
    w <- w - learning_rate / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps) in step t.

    >>> from lowprec.methods import scale_propagation as sp
    >>> optimizer = Adam(learning_rate=2.0**-6)
    >>> for scaled in (True, False):
    ...     w, g = np.float32([1.0, -2.0]), np.float32([1e-5, -3e-5])
    ...     state = optimizer.start(sp.as_scaled(w, 1.0) if scaled else w)
    ...     for _ in range(10):
    ...         state = optimizer.step(state, sp.as_scaled(g, 2.0**-16) if scaled else g)
    ...     print(sp.stop_scaling(state.second), sp.stop_scaling(state.weights))
    [0. 0.] [ 0.8438 -1.844 ]
    [0. 0.] [ 0.64941406 -1.6484375 ]

    As values of binary16 the second moment is 0 in both; with scales it is kept nevertheless.

    Parameters
    ----------
    learning_rate, weight_decay, weights, first, rescale, rounding, rng
        As of `SGD`.
    betas : pair of float, 0 or more and below 1
    eps : float, 0 or more
        Added to the root of v.
    second : Format, str or dtype
        What v is kept in. It has twice as many binades as the gradient: binary16, bfloat16 or E5M2.

    Raises ValueError: numbers out of range, unknown formats.

    Notes
    -----
    Before the root is taken the scale of v becomes a power of four, so that the root of the scale is a power
    of two.

    Source: [SCALIFY], which keeps weights and states in FP16.
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    second: Like = "binary16"

    _limits: ClassVar[dict[str, float]] = {**_Optimizer._limits, "eps": math.inf}

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.shape(self.betas) != (2,) or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas={self.betas} of Adam must be two numbers, at least 0 and below 1")

    def _moments(self, zeros: Any) -> tuple[Any, Any]:
        return self._kept(zeros, self.first), self._kept(zeros, self.second)

    def _update(self, state: OptimizerState, g: Any, steps: int) -> tuple[Any, tuple[Any, Any]]:
        old_m, old_v = (cast(each, catalog.BINARY32) for each in (state.first, state.second))
        beta1, beta2 = self.betas
        m = old_m * beta1 + g * (1 - beta1)
        v = old_v * beta2 + np.square(g) * (1 - beta2)
        below = np.sqrt(_even(v / (1 - beta2**steps))) + self.eps
        update = m / below * (self.learning_rate / (1 - beta1**steps))
        return update, (self._kept(m, self.first), self._kept(v, self.second))


def _even(x: Any) -> Any:
    """Return the same values at a scale that is a power of four, where it is a power of two."""
    if not isinstance(x, ScaledArray) or holds_no_scale(x):
        return x
    return rebalance(x, 2.0) if math.frexp(float(x.scale))[1] % 2 == 0 else x
