"""Contents of a checkpoint, weight by weight, by its headers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lowprec.checkpoints.folder import Checkpoint
from lowprec.checkpoints.weights import Weight, weights_of

__all__ = ["Summary", "inspect"]


@dataclass(frozen=True)
class Summary:
    """Result of `inspect`.

    Parameters
    ----------
    weights : tuple of Weight
    parameters, nbytes : int
        Values of all weights, and bytes of their parts.
    """

    weights: tuple[Weight, ...]
    parameters: int
    nbytes: int

    def schemes(self) -> dict[str, tuple[int, int, int]]:
        """Return of each scheme how many weights, parameters and bytes there are."""
        found: dict[str, tuple[int, int, int]] = {}
        for weight in self.weights:
            key = weight.scheme.name if weight.is_quantized else f"plain {weight.codes.tag}"
            count, parameters, size = found.get(key, (0, 0, 0))
            found[key] = (count + 1, parameters + math.prod(weight.shape), size + bytes_of(weight))
        return found

    def as_json(self) -> dict[str, Any]:
        """Return everything for JSON (schema lowprec.checkpoint.inspect/1)."""
        return {
            "schema": "lowprec.checkpoint.inspect/1",
            "parameters": self.parameters,
            "bytes": self.nbytes,
            "weights": [
                {
                    "name": weight.name,
                    "scheme": weight.scheme.name,
                    "element": weight.element,
                    "scale": weight.scale if weight.is_quantized else None,
                    "block": weight.blocks if weight.is_quantized else None,
                    "shape": list(weight.value_shape),
                    "bytes": bytes_of(weight),
                    "tensors": [part.name for part in weight.parts],
                    "problem": None if weight.problem is None else weight.problem[1],
                }
                for weight in self.weights
            ],
        }


def inspect(checkpoint: Checkpoint) -> Summary:
    """Return what a checkpoint holds. Only headers are read."""
    weights = weights_of(checkpoint)
    parameters = sum(math.prod(weight.shape) for weight in weights)
    return Summary(weights, parameters, sum(bytes_of(weight) for weight in weights))


def bytes_of(weight: Weight) -> int:
    """Return how many bytes the parts of a weight take."""
    return sum(part.nbytes for part in weight.parts)
