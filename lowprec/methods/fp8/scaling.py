"""The scales of FP8 training: of the tensor at hand, or of those before it.

Floor 4. Source: [FP8] 3; [TRANSFORMER_ENGINE] for delayed scaling.
"""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lowprec.arrays.doubles import reals
from lowprec.arrays.measures import statistics
from lowprec.methods.fp8.codes import POLICIES, ScaledCodes, encode
from lowprec.spec import catalog
from lowprec.spec.format import Format

Like = Format | str | npt.DTypeLike
Role = Literal["x", "w", "grad"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The formats of a layer's operands, and how their scales are found.

    >>> Recipe(scaling="delayed").start().encode("x", [1.0, 500.0])       # nothing is known yet: a scale of 1
    ScaledCodes of e4m3fn, shape (2,), scale 1
    >>> Recipe().start().encode("grad", [1.0, 500.0])
    ScaledCodes of e5m2, shape (2,), scale 0.0087193083

    Parameters
    ----------
    x, w, grad : Format, str or dtype
        Of the input, the weight and the output's gradient.
    scaling : {"current", "delayed", "none"}
        Whether a scale is that of its tensor's largest magnitude; that of the largest one of the tensors
        before it, which begins as 1 and stays as it was while all of these are zeros; or 1 always. Larger
        values overflow.
    history : int, 1 or more
        How many tensors delayed scaling looks back; 1024 in Transformer Engine.
    margin : int
        Scales are multiplied by 2**margin, so that as many binades stay free at the top.
    policy : {"sat", "ovf", "paper"}
        What becomes of overflow: `POLICIES`.

    Raises ValueError: an unknown format, scaling or policy, a history below 1. TypeError: a history or a
    margin that is no integer.

    Source: [FP8] 3; [TRANSFORMER_ENGINE].
    """

    x: Like = "e4m3fn"
    w: Like = "e4m3fn"
    grad: Like = "e5m2"
    scaling: Literal["current", "delayed", "none"] = "current"
    history: int = 1024
    margin: int = 0
    policy: str = "sat"

    def __post_init__(self) -> None:
        for name in ("x", "w", "grad"):
            object.__setattr__(self, name, catalog.format(getattr(self, name)))
        for name in ("history", "margin"):
            object.__setattr__(self, name, operator.index(getattr(self, name)))
        if self.history < 1:
            raise ValueError(f"history={self.history} of a recipe must be 1 or more")
        if self.scaling not in ("current", "delayed", "none"):
            raise ValueError(
                f"scaling={self.scaling!r} of a recipe is unknown; use 'current', 'delayed' or 'none'"
            )
        if self.policy not in POLICIES:
            raise ValueError(
                f"policy={self.policy!r} of a recipe is unknown; use one of {', '.join(POLICIES)}"
            )

    def start(self) -> Scaling:
        """Return the scaling of one layer, which has seen nothing."""
        return Scaling(self)


class Scaling:
    """Record of what one layer has seen of each operand, and the scales that follow.

    >>> scaling = Recipe(scaling="delayed", history=2).start()
    >>> for largest in (4.0, 8.0, 1.0, 1.0):
    ...     print(scaling.encode("x", [largest, -0.5]).scale)
    1.0
    0.008928572
    0.017857144
    0.017857144

    Parameters
    ----------
    recipe : Recipe

    Attributes
    ----------
    scales : dict of str to float32
        Scales of the next "x", "w" and "grad", except for current scaling.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        first = np.float32(math.ldexp(1.0, recipe.margin) if recipe.scaling == "none" else 1.0)
        self.scales: dict[str, np.float32] = dict.fromkeys(("x", "w", "grad"), first)
        self._seen: dict[str, deque[float]] = {
            name: deque(maxlen=recipe.history) for name in ("x", "w", "grad")
        }

    def encode(self, role: Role, values: npt.ArrayLike) -> ScaledCodes:
        """Encode an operand, and remember its largest magnitude where scaling is delayed.

        NaNs and infinities take no part in scales.

        Parameters
        ----------
        role : {"x", "w", "grad"}
        values : array_like, shape (...)

        Returns
        -------
        codes : ScaledCodes
        """
        fmt = getattr(self.recipe, role)
        if self.recipe.scaling == "current":
            return encode(values, fmt, scale=self._scale_for(values, fmt), policy=self.recipe.policy)
        codes = encode(values, fmt, scale=self.scales[role], policy=self.recipe.policy)
        if self.recipe.scaling == "none":
            return codes
        sizes = np.abs(reals(values, "values").astype(np.float64))
        self._seen[role].append(float(np.max(sizes, where=np.isfinite(sizes), initial=0)))
        if largest := max(self._seen[role]):
            self.scales[role] = self._scale_for([largest], fmt)
        return codes

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """Return the scales, and the largest magnitudes that they follow from, as plain floats.

        >>> scaling, other = (Recipe(scaling="delayed").start() for _ in range(2))
        >>> codes = scaling.encode("x", [4.0])
        >>> other.load_state_dict(scaling.state_dict())
        >>> other.scales["x"]
        np.float32(0.008928572)
        """
        return {
            "scales": {name: float(scale) for name, scale in self.scales.items()},
            "seen": {name: list(seen) for name, seen in self._seen.items()},
        }

    def load_state_dict(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Go on from what `state_dict` returned."""
        self.scales = {name: np.float32(state["scales"][name]) for name in self.scales}
        self._seen = {name: deque(state["seen"][name], self.recipe.history) for name in self._seen}

    def _scale_for(self, values: npt.ArrayLike, fmt: Format) -> Any:
        scale = np.asarray(statistics.scale_for(values, fmt, "max"))
        with np.errstate(over="ignore"):  # of scales that are refused
            return np.ldexp(scale, min(max(self.recipe.margin, -1000), 1000))[()]  # a C integer
