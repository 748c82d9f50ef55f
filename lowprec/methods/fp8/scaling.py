"""The scales of FP8 training: of the tensor at hand, or of those before it.

Floor 4. Source: [FP8] 3; [TRANSFORMER_ENGINE] for delayed scaling.
"""

from __future__ import annotations

import operator
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lowprec.arrays import statistics
from lowprec.methods.fp8.codes import POLICIES, ScaledCodes, encode
from lowprec.spec import catalog
from lowprec.spec.format import Format

__all__ = ["Recipe", "Scaling"]

Like = Format | str | npt.DTypeLike
Role = Literal["x", "w", "grad"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The formats of a layer's operands, and how their scales are found.

    >>> Recipe(history=16).start().encode("x", [1.0, 500.0])          # nothing is known yet: a scale of 1
    ScaledCodes of e4m3fn, shape (2,), scale 1
    >>> Recipe().start().encode("grad", [1.0, 500.0])
    ScaledCodes of e5m2, shape (2,), scale 0.0087193083

    Parameters
    ----------
    x, w, grad : Format, str or dtype
        Of the input, the weight and the output's gradient.
    history : int, 0 or more
        0: each scale is that of its tensor's largest magnitude (current scaling). Otherwise it is that of the
        largest one of so many tensors before it (delayed scaling), and 1 as long as all of these are zeros;
        what exceeds it saturates. Transformer Engine has 1024.
    margin : int
        Scales are multiplied by 2**margin, so that as many binades stay free at the top.
    policy : {"sat", "ovf", "paper"}
        What becomes of overflow: `POLICIES`.

    Raises ValueError: an unknown format or policy, a history below 0. TypeError: a history or a margin that
    is no integer.

    Source: [FP8] 3; [TRANSFORMER_ENGINE].
    """

    x: Like = "e4m3fn"
    w: Like = "e4m3fn"
    grad: Like = "e5m2"
    history: int = 0
    margin: int = 0
    policy: str = "sat"

    def __post_init__(self) -> None:
        for name in ("x", "w", "grad"):
            object.__setattr__(self, name, catalog.format(getattr(self, name)))
        for name in ("history", "margin"):
            object.__setattr__(self, name, operator.index(getattr(self, name)))
        if self.history < 0:
            raise ValueError(f"history={self.history} of a recipe must be 0, for current scaling, or more")
        if self.policy not in POLICIES:
            raise ValueError(
                f"policy={self.policy!r} of a recipe is unknown; use one of {', '.join(POLICIES)}"
            )

    def start(self) -> Scaling:
        """Return the scaling of one layer, which has seen nothing."""
        return Scaling(self)


class Scaling:
    """What one layer has seen of each operand, and the scales that follow.

    >>> scaling = Recipe(history=2).start()
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
        Of the next "x", "w" and "grad", where scaling is delayed.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.scales: dict[str, np.float32] = dict.fromkeys(("x", "w", "grad"), np.float32(1))
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
        if not self.recipe.history:
            return encode(values, fmt, scale=self._scale_for(values, fmt), policy=self.recipe.policy)
        codes = encode(values, fmt, scale=self.scales[role], policy=self.recipe.policy)
        sizes = np.abs(np.asarray(values))
        self._seen[role].append(float(np.max(sizes, where=np.isfinite(sizes), initial=0)))
        if largest := max(self._seen[role]):
            self.scales[role] = self._scale_for([largest], fmt)
        return codes

    def _scale_for(self, values: npt.ArrayLike, fmt: Format) -> Any:
        scale = np.asarray(statistics.scale_for(values, fmt))
        return np.ldexp(scale, self.recipe.margin)[()]
