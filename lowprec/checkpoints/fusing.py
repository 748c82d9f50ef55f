"""Layers that servers join into one matrix product: their weights have one tensor scale."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["JOINING", "fused"]

#: Parts of names of layers that are joined.
_FUSED = (("gate_proj", "up_proj"), ("q_proj", "k_proj", "v_proj"), ("w1", "w3"))
#: Families of schemes that such servers load, with scales of tensors.
JOINING = ("compressed-tensors", "modelopt", "torchao")


def fused(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the names of weights that are joined, of two and more, in the order of layers.

    >>> fused(["a.v_proj.weight", "a.o_proj.weight", "a.q_proj.weight", "b.q_proj.weight"])
    [('a.q_proj.weight', 'a.v_proj.weight')]
    """
    known = dict.fromkeys(names)
    found = {
        tuple(each for each in (name.replace(f".{part}.", f".{other}.") for other in layers) if each in known)
        for layers in _FUSED
        for part in layers
        for name in known
        if f".{part}." in name
    }
    return sorted(group for group in found if len(group) > 1)
