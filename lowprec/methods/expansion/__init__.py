"""Collage: numbers as sums of low-precision numbers, and an optimizer that loses no update.

Training in bfloat16 alone stalls: an update that is smaller than half a last place of a parameter changes
nothing. Collage keeps the parameter as an unevaluated sum of two bfloat16 numbers, in place of a copy in
binary32. Here that is done in any format, with any number of parts, bit for bit.

`transforms` has sums and products with their rounding errors, `sums` numbers of several parts, `adamw` the
optimizer with the strategies of the paper and those it is compared with, `measures` the effect of an update.

Floor 4. Source: [COLLAGE].
"""

from lowprec.methods.expansion.adamw import STRATEGIES, AdamW, State, Strategy, bytes_per_parameter
from lowprec.methods.expansion.measures import edq, effective_update, lost_fraction
from lowprec.methods.expansion.sums import Expansion, add, divide, grow, multiply, renormalise, scale, split
from lowprec.methods.expansion.transforms import fast_two_sum, halves, two_prod, two_sum

__all__ = [
    "STRATEGIES",
    "AdamW",
    "Expansion",
    "State",
    "Strategy",
    "add",
    "bytes_per_parameter",
    "divide",
    "edq",
    "effective_update",
    "fast_two_sum",
    "grow",
    "halves",
    "lost_fraction",
    "multiply",
    "renormalise",
    "scale",
    "split",
    "two_prod",
    "two_sum",
]
