"""AdamW on NumPy arrays; a strategy gives the formats and parts of parameters and states.

A step, elementwise, with gradient g, first moment m, second moment v and parameter x:

    m <- beta1 m + (1 - beta1) g
    v <- beta2 v + (1 - beta2) g^2
    update = - rate * m / (sqrt(v) + eps) - learning_rate * weight_decay * x
    x <- x + update

with rate = learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t) in step t. With eps_place="textbook" the first
term is - learning_rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps). Each operation is one of
`lowprec`, in the format of its result, with one rounding. Where m, v or x have several parts, products and
sums with them are `multiply` and `grow`; quotients are of first parts.

Floor 4. Source: [COLLAGE], its algorithm; for the order of operations its public code, as far as that does
what the paper says.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lowprec.arrays import arith
from lowprec.arrays.checks import Array, as_array, float_dtype
from lowprec.arrays.convert import quantize
from lowprec.arrays.doubles import real
from lowprec.arrays.random import random_bits
from lowprec.methods.expansion.sums import Expansion, grow, multiply, signed, split
from lowprec.methods.expansion.transforms import Like, fast_two_sum
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.rounding import stochastic

_WIDE = catalog.BINARY32


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """The numbers that an optimizer keeps, their formats, and the way of adding an update to a parameter.

    >>> Strategy(name="three parts", parameter=3, second=2, update="grow").bits(8)
    56

    Parameters
    ----------
    name : str
    parameter, first, second : int
        Parts of the parameter and of the two moments.
    wide : {"", "states", "master", "all"}
        What is in binary32: nothing; both moments and the update; also a master copy of the parameter;
        everything.
    update : {"add", "stochastic", "kahan", "grow"}
        An addition to nearest; with stochastic rounding; with the error of the last one added to the update
        first, which is then the parameter's second part; or `grow`.

    Raises ValueError: parts that the update does not use.
    """

    name: str
    parameter: int = 1
    first: int = 1
    second: int = 1
    wide: Literal["", "states", "master", "all"] = ""
    update: Literal["add", "stochastic", "kahan", "grow"] = "add"

    def __post_init__(self) -> None:
        for field in ("parameter", "first", "second"):
            if type(getattr(self, field)) is not int or getattr(self, field) < 1:
                raise ValueError(
                    f"{field}={getattr(self, field)!r} of a strategy must be an integer, 1 or more"
                )
        if self.wide not in ("", "states", "master", "all"):
            raise ValueError(
                f"wide={self.wide!r} of a strategy is unknown; use '', 'states', 'master' or 'all'"
            )
        parts = {"add": (1, 1), "stochastic": (1, 1), "kahan": (2, 2), "grow": (2, math.inf)}
        if self.update not in parts:
            raise ValueError(
                f"update={self.update!r} of a strategy is unknown; use one of {', '.join(parts)}"
            )
        least, most = parts[self.update]
        if not least <= self.parameter <= most:
            count = f"{least}" if least == most else f"{least} or more"
            raise ValueError(
                f"update={self.update!r} is for parameters of {count} part{'s' * (least > 1)}, not parameter="
                f"{self.parameter}"
            )

    def bits(self, width: int) -> int:
        """Return the bits per parameter, with gradient, moments and master copy, for a format's width."""
        weights = 32 if self.wide == "all" else width
        states = 32 if self.wide else width
        moments = states * (self.first + self.second)
        if self.wide == "master":  # all parts are the master's; the model has one more number
            return 2 * weights + moments + 32 * self.parameter
        return weights * (self.parameter + 1) + moments


#: The strategies of the paper, and two that it is compared with.
STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        strategy.name: strategy
        for strategy in (
            Strategy(name="fp32", wide="all"),
            Strategy(name="fp32_master", wide="master"),
            Strategy(name="fp32_states", wide="states"),
            Strategy(name="low"),
            Strategy(name="stochastic", update="stochastic"),
            Strategy(name="kahan", parameter=2, update="kahan"),
            Strategy(name="light", parameter=2, update="grow"),
            Strategy(name="plus", parameter=2, second=2, update="grow"),
        )
    }
)


def bytes_per_parameter(strategy: Strategy | str, fmt: Like = "bfloat16") -> float:
    """Return the bytes that training keeps for each parameter: parameter, gradient, moments, master copy.

    >>> [bytes_per_parameter(name) for name in ("low", "light", "plus", "fp32_states", "fp32_master")]
    [8.0, 10.0, 12.0, 12.0, 16.0]
    >>> bytes_per_parameter("plus", "e4m3fn")
    6.0

    Parameters
    ----------
    strategy : Strategy or str
        A strategy, or a key of `STRATEGIES`.
    fmt : Format, str or dtype

    Raises ValueError: an unknown name.

    Source: [COLLAGE], the lists of its states.
    """
    return known(strategy).bits(catalog.format(fmt).width) / 8


def known(strategy: Strategy | str) -> Strategy:
    """Return a strategy by its name, or itself."""
    if isinstance(strategy, Strategy):
        return strategy
    if strategy not in STRATEGIES:
        raise ValueError(
            f"strategy {strategy!r} is unknown; use a Strategy, or one of {', '.join(STRATEGIES)}"
        )
    return STRATEGIES[strategy]


@dataclass(frozen=True, eq=False)
class State:
    """The state of an optimizer for an array of parameters after a number of steps.

    Parameters
    ----------
    parameter : Expansion, shape (...)
    weights : array of float, shape (...)
        What a model computes with: the first part of the parameter; of a master copy its value in the low
        format.
    first, second : Expansion, shape (...)
        The moments m and v.
    steps : int
    update : array of float, shape (...)
        The update of the last step, in the format in which it was added; zeros at first.
    """

    parameter: Expansion
    weights: Array
    first: Expansion
    second: Expansion
    steps: int
    update: Array


@dataclass(frozen=True, kw_only=True)
class AdamW:
    """AdamW in a low-precision format, by one of the strategies of Collage and those it is compared with.

    >>> import numpy as np
    >>> for strategy in ("low", "light", "fp32"):
    ...     optimizer = AdamW(strategy=strategy, learning_rate=0.001)
    ...     state = optimizer.start(np.float32([1.0, 200.0]))
    ...     for _ in range(100):
    ...         state = optimizer.step(state, state.weights)
    ...     print(strategy, state.weights, state.parameter.values())
    low [  1. 200.] [  1. 200.]
    light [  0.90234375 200.        ] [  0.90385437 199.90234375]
    fp32 [  0.9017437 199.89929  ] [  0.90174371 199.89929199]

    >>> for place in ("published", "textbook"):                       # the first step, where g = eps = 1e-8
    ...     optimizer = AdamW(strategy="fp32", eps_place=place)
    ...     print(place, f"{optimizer.step(optimizer.start(0.0), 1e-8).update:.3g}")
    published -3.07e-05
    textbook -0.0005

    Parameters
    ----------
    learning_rate : float, 0 or more
    betas : pair of float
        Decay of the first and of the second moment, each at least 0 and below 1.
    eps : float, above 0
        Added to the square root of the second moment.
    eps_place : {"published", "textbook"}
        Before the bias of that root is corrected, as the published code does it; or after, as the paper of
        Adam and PyTorch do. Only gradients about as small as eps tell: in the first step, where the root is
        0.03 times the gradient for beta2 = 0.999, eps counts 30 times as much before.
    weight_decay : float, 0 or more
        Part of the update, with which it is rounded and accumulated ("compact").
    strategy : Strategy or str, default "plus"
        A strategy, or a key of `STRATEGIES`.
    format : Format, str or dtype, default "bfloat16"
        Of all numbers that the strategy does not have in binary32.
    scalars : {"wide", "format"}
        Whether scalars (betas, 1 - beta, the rate, eps) and the square of the gradient are in binary32, as
        PyTorch has them, or in the format of the states. Of a moment in several parts its beta is an
        expansion of as many in either case.
    stochastic_bits : int
        Random bits for each parameter, where the strategy adds updates with stochastic rounding.
    rng : int
        The key of the random bits, 0 to 2**64 - 1. Each step has bits of its own; arrays of parameters need
        optimizers with different keys, or are rounded alike.

    Raises ValueError: numbers out of range, an unknown strategy, an eps that is 0 in the format of the
    states. `step` checks stochastic_bits and rng.

    Notes
    -----
    Gradients may be multiplied by any power of two, to lie in the range of a narrow format; only eps has to
    go with them. Parameters that are kept scaled by s need s times the learning rate, and a weight decay
    divided by s.

    Source: [COLLAGE].
    """

    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    strategy: Strategy | str = "plus"
    format: Like = "bfloat16"
    scalars: Literal["wide", "format"] = "wide"
    stochastic_bits: int = 12
    rng: int = 0
    eps_place: Literal["published", "textbook"] = "published"

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", known(self.strategy))
        object.__setattr__(self, "format", signed(self.format))
        if self.scalars not in ("wide", "format"):
            raise ValueError(f"scalars={self.scalars!r} of AdamW is unknown; use 'wide' or 'format'")
        if self.eps_place not in ("published", "textbook"):
            raise ValueError(
                f"eps_place={self.eps_place!r} of AdamW is unknown; use 'published' or 'textbook'"
            )
        for name in ("learning_rate", "weight_decay", "eps"):
            if not 0 <= real(getattr(self, name), f"{name} of AdamW") < math.inf:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} of AdamW must be a finite number, 0 or more"
                )
        if np.shape(self.betas) != (2,) or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas={self.betas} of AdamW must be two numbers, at least 0 and below 1")
        if not float(quantize(np.float64(self.eps), self.states)) > 0:
            raise ValueError(
                f"eps={self.eps} of AdamW is 0 in {self.states.name!r}, and would not keep quotients finite; "
                f"the smallest number there is {self.states.min_subnormal or self.states.min_normal}"
            )

    @property
    def keeps(self) -> Strategy:
        """The strategy."""
        return known(self.strategy)

    @property
    def weights(self) -> Format:
        """The format of gradients, and of what the model computes with."""
        return _WIDE if self.keeps.wide == "all" else catalog.format(self.format)

    @property
    def states(self) -> Format:
        """The format of the moments, and of the update until it is added."""
        return _WIDE if self.keeps.wide else catalog.format(self.format)

    @property
    def parameters(self) -> Format:
        """The format of the parameter, or of its master copy."""
        return _WIDE if self.keeps.wide in ("all", "master") else catalog.format(self.format)

    def start(self, values: npt.ArrayLike) -> State:
        """Return the state before the first step.

        Parameters
        ----------
        values : array_like of float, shape (...)
            Parameters, which are expanded to as many parts as the strategy has.
        """
        parameter = split(values, self.keeps.parameter, self.parameters)
        zeros = np.zeros(parameter.shape)
        first, second = (split(zeros, parts, self.states) for parts in (self.keeps.first, self.keeps.second))
        update = zeros.astype(float_dtype(self.parameters)[0])
        return State(parameter, self._weights(parameter), first, second, 0, update)

    def step(self, state: State, gradient: npt.ArrayLike) -> State:
        """Take a step, and return the next state.

        Parameters
        ----------
        state : State, shape (...)
        gradient : array_like of float, shape (...)
            Of the loss, with respect to ``state.weights``; rounded to their format first.

        Raises ValueError: a gradient of another shape.
        """
        steps = state.steps + 1
        g = np.asarray(quantize(as_array(gradient), self.weights), float_dtype(self.weights)[0])
        if g.shape != state.parameter.shape:
            raise ValueError(
                f"gradient of shape {g.shape} is not of the parameter's shape {state.parameter.shape}"
            )
        first = self._decayed(state.first, self.betas[0], g)
        squares = arith.multiply(g, g, _WIDE if self.scalars == "wide" else self.states)
        second = self._decayed(state.second, self.betas[1], squares)
        update = self._update(state, first, second, steps)
        parameter = self._added(state, update, steps)
        return State(parameter, self._weights(parameter), first, second, steps, update)

    def _decayed(self, moment: Expansion, beta: float, term: Array) -> Expansion:
        """Return the moment times beta, plus the term times 1 - beta."""
        fmt, share = moment.format, self._scalar(1 - beta, term)
        if len(moment.parts) == 1:
            kept = arith.multiply(moment.parts[0], self._scalar(beta, term), fmt)
            return Expansion._made((arith.fma(term, share, kept, fmt),), fmt)
        return grow(
            multiply(moment, _expanded(beta, len(moment.parts), fmt)), arith.multiply(term, share, fmt)
        )

    def _update(self, state: State, first: Expansion, second: Expansion, steps: int) -> Array:
        """Return the update, in the format in which it is added to the parameter."""
        fmt, (m, v) = self.states, (first.parts[0], second.parts[0])
        unbiased, root = math.sqrt(1 - self.betas[1] ** steps), arith.sqrt(v, fmt)
        if self.eps_place == "published":
            rate = self.learning_rate * unbiased / (1 - self.betas[0] ** steps)
        else:
            rate = self.learning_rate / (1 - self.betas[0] ** steps)
            root = arith.divide(root, self._scalar(unbiased, v), fmt)
        below = arith.add(root, self._scalar(self.eps, v), fmt)
        update = arith.multiply(arith.divide(m, below, fmt), self._scalar(-rate, m), fmt)
        if self.weight_decay:
            x = state.parameter.parts[0]
            decay = arith.multiply(x, self._scalar(self.learning_rate * self.weight_decay, x), fmt)
            update = arith.subtract(update, decay, fmt)
        return np.asarray(update if fmt == self.parameters else quantize(update, self.parameters))

    def _added(self, state: State, update: Array, steps: int) -> Expansion:
        """Add the update to the parameter."""
        x, fmt = state.parameter, self.parameters
        match self.keeps.update:
            case "grow":
                return grow(x, update)
            case "kahan":
                return Expansion._made(fast_two_sum(x.parts[0], arith.add(update, x.parts[1], fmt), fmt), fmt)
            case "stochastic":
                bits = self.stochastic_bits
                words = random_bits(x.shape, self.rng, bits, stream=steps)
                total = arith.add(x.parts[0], update, fmt, rounding=stochastic(bits), random=words)
            case "add":
                total = arith.add(x.parts[0], update, fmt)
        return Expansion._made((total,), fmt)

    def _weights(self, parameter: Expansion) -> Array:
        if self.weights == parameter.format:
            return parameter.parts[0]
        return np.asarray(quantize(parameter.parts[0], self.weights))

    def _scalar(self, value: float, like: Array) -> Array:
        """Return a scalar for each element of an array, in binary32 or the format as `scalars` says."""
        rounded = _rounded(float(value).hex(), _WIDE if self.scalars == "wide" else self.states)
        return np.full(like.shape, rounded)


@functools.lru_cache(maxsize=256)
def _expanded(value: float, parts: int, fmt: Format) -> Expansion:
    """Expand a constant to several parts."""
    return split(value, parts, fmt)


@functools.lru_cache(maxsize=1 << 16)
def _rounded(digits: str, fmt: Format) -> Any:
    """Round a number to a format, in the type that carries it; hexadecimal, for 0.0 equals -0.0 as a key."""
    return float_dtype(fmt)[0].type(quantize(np.float64(float.fromhex(digits)), fmt))
