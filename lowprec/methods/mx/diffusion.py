"""Weights quantised after training by error diffusion: each makes up for the errors of those before it.

Floor 4. Source: [GPFQ], which the error diffusion of [MX] 5 goes back to.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowprec.arrays import convert
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.doubles import reals
from lowprec.arrays.kinds import check_labels
from lowprec.methods._layer import check_features, in_rows
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat


def diffuse(
    w: npt.ArrayLike,
    x: npt.ArrayLike,
    fmt: BlockFormat | str = "mxfp4",
    x_after: npt.ArrayLike | None = None,
) -> BlockArray:
    """Encode a weight so that its products with inputs change little: error diffusion.

    Column by column, each element becomes the one that brings the product closest to what it was. It is
    rounded from ``sum((u + w * x) * x_after) / sum(x_after**2)`` over all samples, where u is what the
    product lacks so far. Scales are those of the weight as it is.

    >>> import numpy as np
    >>> import lowprec as lp
    >>> rng = np.random.default_rng(0)
    >>> w, x = rng.standard_normal((16, 64)), rng.standard_normal((512, 8)) @ rng.standard_normal((8, 64))
    >>> for blocks in (lp.encode(w, "mxfp4", axis=1), diffuse(w, x, "mxfp4")):
    ...     errors = x @ blocks.values().T - x @ w.T
    ...     print(f"{np.square(errors).sum() / np.square(x @ w.T).sum():.4f}")
    0.0130
    0.0020

    Parameters
    ----------
    w : array_like, shape (out, in)
    x : array_like, shape (..., in)
        Inputs of the layer in the network as it was trained, all finite.
    fmt : BlockFormat or str
        Without a scale of the tensor.
    x_after : array_like, shape (..., in), optional
        The same inputs in the quantised network; by default x.

    Returns
    -------
    blocks : BlockArray of shape (out, in)
        In blocks along the last axis.

    Raises ValueError: shapes that do not belong together, inputs that are not finite, a format with a scale
    of the tensor.

    Notes
    -----
    Sums over samples are NumPy's, in binary64: where two elements are nearly as good, another machine may
    take the other. A column that no input uses is rounded as it is.

    Source: [GPFQ] (2).
    """
    how = catalog.block_format(fmt)
    check_features(x, w)
    check_labels(x, *([] if x_after is None else [x_after]))
    weights = reals(w, "w").astype(np.float64)
    before = reals(x, "x").astype(np.float64)
    after = before if x_after is None else reals(x_after, "x_after").astype(np.float64)
    if weights.ndim != 2 or before.shape[-1:] != weights.shape[1:] or after.shape != before.shape:
        raise ValueError(
            f"diffuse takes w of shape (out, in), and x and x_after of shape (..., in), not {weights.shape}, "
            f"{before.shape} and {after.shape}"
        )
    if how.tensor_scale != "none" or len(how.sizes) != 1:
        raise ValueError(
            f"{how.name!r} has a scale of the tensor or tiles; diffuse takes blocks along one axis"
        )
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        raise ValueError("inputs that are not finite say nothing of a weight; leave these samples out")
    before, after = (in_rows(each).T for each in (before, after))
    scales, size = convert.encode(weights, how, axis=1).scales, how.sizes[0]
    moved, errors = weights.copy(), np.zeros((weights.shape[0], before.shape[1]))
    for column in range(weights.shape[1]):
        errors += np.outer(weights[:, column], before[column])
        if energy := float(after[column] @ after[column]):
            moved[:, column] = errors @ after[column] / energy
        first = column // size * size
        block = moved[:, first : first + size]
        rounded = convert.encode(block, how, axis=1, scales=scales[:, [column // size]]).values(np.float64)
        errors -= np.outer(rounded[:, column - first], after[column])
    blocks: BlockArray = convert.encode(moved, how, axis=1, scales=scales)
    return blocks
