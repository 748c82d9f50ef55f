"""Rules of u-muP: how learning rates and residual weights depend on width and depth.

u-muP is Unit Scaling with the maximal update parametrization: weights have unit variance, so that what muP
says of initial scales is in the operations, and what it says of learning rates is here.

Floor 4.
"""

from __future__ import annotations

import math

from lowprec.arrays.doubles import real

KINDS = ("weight", "bias", "norm", "output")


def learning_rate_scale(
    kind: str, fan_in: int, depth: int | None = None, *, readout_constraint: str | None = None
) -> float:
    """Return the factor of the learning rate of a parameter.

    >>> learning_rate_scale("weight", 1024), learning_rate_scale("weight", 1024, depth=16)
    (0.03125, 0.0078125)

    Parameters
    ----------
    kind : {"weight", "bias", "norm", "output"}
        "output" is the weight of `readout`.
    fan_in : int
        Values that each output is a sum of: of a convolution channels times size, of an embedding its
        width, of a bias or norm its length.
    depth : int, optional
        Layers of the residual stack that the parameter is in, if it is in one.
    readout_constraint : {None, "to_output_scale"}
        None: for Adam, and for SGD where weight gradients have unit variance. "to_output_scale": for SGD
        where the readout has that constraint, so that all gradients are smaller by its alpha.

    Returns
    -------
    scale : float
        fan_in**-1/2 for weights and 1 for others; of SGD behind a constrained readout fan_in**1/2 for
        weights, fan_in for bias and norm, and 1 for outputs; in a stack times depth**-1/2.

    Raises ValueError: an unknown kind or constraint, or numbers below 1.

    Source: [UMUP] table 2, and the library's `optim`.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r} of parameter; use one of {', '.join(KINDS)}")
    for name, value in (("fan_in", fan_in), ("depth", depth)):
        if value is not None and real(value, name) < 1:
            raise ValueError(f"{name}={value!r} of a parameter must be 1 or more")
    if readout_constraint not in (None, "to_output_scale"):
        raise ValueError(
            f"readout_constraint={readout_constraint!r} has no rule; use None or 'to_output_scale'"
        )
    powers = {"weight": -0.5} if readout_constraint is None else {"weight": 0.5, "bias": 1.0, "norm": 1.0}
    return float(fan_in ** powers.get(kind, 0.0)) * (1.0 if depth is None else depth**-0.5)


def weight_decay(decay: float, learning_rate: float) -> float:
    """Return the decay for an optimizer that multiplies it by the learning rate, which cancels that.

    >>> weight_decay(2**-13, 0.25)
    0.00048828125

    Parameters
    ----------
    decay : float, 0 or more
        Share of the weight that each step takes away.
    learning_rate : float, above 0
        Of this parameter, with its scale.

    Raises ValueError: a learning rate that is no positive number.

    Source: [UMUP] section on independent weight decay.
    """
    if not 0 < real(learning_rate, "learning_rate") < math.inf:
        raise ValueError(
            f"learning_rate={learning_rate!r} must be a positive number to have decay independent of it"
        )
    return real(decay, "decay") / learning_rate


def transformer_tau(index: int, layers: int, *, mult: float = 1.0, attention_ratio: float = 1.0) -> float:
    """Return tau of a residual layer of a transformer, whose attention and MLP layers take turns.

    Every attention layer adds the same to the result, and so does every MLP layer.

    >>> [round(transformer_tau(index, 4), 4) for index in range(4)]
    [0.7071, 0.5774, 0.5, 0.4472]

    Parameters
    ----------
    index : int, from 0 to layers - 1
        Of the residual layer: attention where it is even, MLP where it is odd.
    layers : int
        Residual layers in all: two in each block.
    mult : float, above 0
        What layers add in units of the embedding, as standard deviations: the root mean square of that of all
        attention layers together and that of all MLP layers together.
    attention_ratio : float, above 0
        The first of these in units of the second.

    Returns
    -------
    tau : float
        For `residual_apply`.

    Raises ValueError: an index that there is not, or numbers that are not positive.

    Source: [UMUP] appendix on the residual scheme.
    """
    if not 0 <= index < real(layers, "layers"):
        raise ValueError(
            f"index={index!r} of a residual layer must lie from 0 to layers - 1, which is {layers - 1}"
        )
    if not (0 < real(mult, "mult") < math.inf and 0 < real(attention_ratio, "attention_ratio") < math.inf):
        raise ValueError(f"mult={mult!r} and attention_ratio={attention_ratio!r} must be positive numbers")
    mlp = mult * math.sqrt(2) / math.hypot(1, attention_ratio)
    attention = attention_ratio * mlp
    parts = (layers / 2, 1), ((index + 1) // 2, attention), (index // 2, mlp)
    before = math.hypot(*(math.sqrt(count) * size for count, size in parts))
    return (mlp if index % 2 else attention) / before
