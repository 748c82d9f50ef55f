"""Epilogues: what a library does with the sums of a product of matrices before they are its results.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from lowprec.spec.accumulation import Accumulation
from lowprec.spec.fields import LARGEST_SIZE, choose, integer, text, truth
from lowprec.spec.format import Carrier
from lowprec.spec.formats import BINARY32
from lowprec.spec.projection import Projection
from lowprec.spec.rounded import Rounded, RoundedLike, check_rounded, rounded

ScaleOrder = Literal["product", "x_first", "y_first"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """Steps that scale sums and join a bias and an addend to them. Every step is rounded to one format.

    1. With scales="product", α is the product of both scales, or 1 without any, and v = fma(sum, α, addend),
       where the addend is +0 if none is given. Else v is the sum times one scale, then times the other, plus
       the addend if one is given.
    2. v = v + bias, where one is given. With `fused_bias` it joins step 1, which has no addend then: the last
       multiplication is an fma with it, by 1 where there are no scales.
    3. v = v · output scale, where one is given.
    4. v becomes the output, which rounds it a second time.

    Scales, bias, addend and output scale are each rounded to `compute` first: to nearest, whatever its mode.
    So are the sum of order "exact", one in binary64, and one times the scales of tensors in blocks; others
    are as they are. Of operands with scales for blocks along K, step 1 is done for the sum of each block, and
    v joins that of the block before: by the fma, or added. A fused bias joins that of the first block. The
    sum of no products is +0 whatever the scales.

    >>> Epilogue(output="bfloat16").compute[0].name
    'binary32'

    Parameters
    ----------
    output : (Format, Projection), optional
        By default that of the accumulation.
    compute : (Format, Projection), default binary32, to nearest
        What α and the steps are rounded to, in this mode. The sums are as their accumulator has them.
    scales : {"product", "x_first", "y_first"}
    block : int, default 0
        Elements along K that share a scale, and rows or columns where scales have tiles, 1 to 2**32; needed
        for such scales, since shapes do not tell 3 blocks of 100 from 2 of 128 and one that is shorter.
    fused_bias : bool
        Whether the bias joins the last multiplication by an fma. There is no addend then.

    Source: [CUBLAS] for D = scale_d (α scale_a scale_b A B + β C + bias); [TORCH] for scales one
    after the other; [VLLM] for the scale of y, and then an fma of that of x and the bias.
    """

    output: Rounded | None = None
    compute: Rounded = (BINARY32, Projection())
    scales: ScaleOrder = "product"
    block: int = 0
    fused_bias: bool = False

    if TYPE_CHECKING:  # names stand for objects

        def __init__(
            self,
            *,
            output: RoundedLike | None = ...,
            compute: RoundedLike = ...,
            scales: ScaleOrder = ...,
            block: int = ...,
            fused_bias: bool = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("output", "compute"):
            object.__setattr__(self, name, rounded(name, getattr(self, name)))
            if name == "compute" or getattr(self, name) is not None:
                check_rounded(name, getattr(self, name))
                if getattr(self, name)[1].rounding.bits:
                    raise ValueError(f"{name} of an epilogue is not rounded stochastically")
        integer(self, "an epilogue", "block", 0, LARGEST_SIZE)
        choose(self, "an epilogue", scales=get_args(ScaleOrder))
        truth(self, "an epilogue", "fused_bias")
        if isinstance(self.compute[0], Carrier) or not self.compute[0].subnormals:
            raise ValueError(f"compute={self.compute[0].name!r} of an epilogue has no zero; use 'binary32'")


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryCall:
    """A library's product of matrices: `matmul` and `dot` take it in the place of an accumulation.

    Parameters
    ----------
    name : str
        Not compared, like evidence.
    accumulation : Accumulation
    epilogue : Epilogue
    evidence : str
        Where each part comes from, and what is not known.
    """

    accumulation: Accumulation
    epilogue: Epilogue
    name: str = field(default="", compare=False)
    evidence: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        text(self, "a library call", "name", "evidence")
        for name, kind in (("accumulation", Accumulation), ("epilogue", Epilogue)):
            if not isinstance(getattr(self, name), kind):
                given = getattr(self, name)
                raise TypeError(f"{name} of a library call must be an {kind.__name__}, not {given!r}")

    @property
    def output(self) -> Rounded:
        """Format and projection of the results."""
        return self.epilogue.output or self.accumulation.output

    def __str__(self) -> str:
        return self.name or "library call"
