"""The shapes of the operands of dot products and of products of matrices.

Floor 3.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from lowprec.arrays.axes import broadcast_shapes

__all__ = ["Plain", "Shaped", "broadcast_outer", "check_joins", "check_shapes"]


def check_joins(name: str, given: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Refuse an addend, a bias or the like that does not broadcast to the result's shape."""
    try:
        broadcast = broadcast_shapes(given, shape)
    except ValueError:
        broadcast = ()
    if broadcast != shape:
        raise ValueError(
            f"{name} of shape {given} does not broadcast to the result's shape {shape}; give one number, or "
            f"one for each result"
        )


class Shaped(Protocol):
    """Whatever has a shape for its products, and one as it was given."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape for the products, with K in its place."""

    @property
    def given(self) -> tuple[int, ...]:
        """Shape as it was given, for messages."""


class Plain(NamedTuple):
    """The shape of an array that is as it was given."""

    shape: tuple[int, ...]

    @property
    def given(self) -> tuple[int, ...]:
        """Shape of the array, for messages."""
        return self.shape


def check_shapes(verb: str, x: Shaped, y: Shaped, axis: int) -> None:
    """Check that both have a K of one length: it is this axis of y, and the last of x."""
    if not x.shape or not y.shape:
        raise ValueError(
            f"{verb} of shapes {x.given} and {y.given}: a single number has no K; use multiply or fma"
        )
    if x.shape[-1] != y.shape[axis]:
        raise ValueError(
            f"{verb} of shapes {x.given} and {y.given}: x has {x.shape[-1]} elements along K, y has "
            f"{y.shape[axis]}; they must be equal"
        )


def broadcast_outer(
    verb: str, x: Shaped, y: Shaped, outer_x: tuple[int, ...], outer_y: tuple[int, ...]
) -> tuple[int, ...]:
    """Broadcast the axes in front."""
    try:
        return broadcast_shapes(outer_x, outer_y)
    except ValueError:
        raise ValueError(
            f"{verb} of shapes {x.given} and {y.given}: the axes in front, {outer_x} and {outer_y}, do not "
            f"broadcast; make them equal, or 1"
        ) from None
