"""The rules: the scale of the result of each NumPy function, from which its data follow.

Importing this registers them. Floor 4.
"""

from lowprec.methods.scale_propagation.rules import elementwise, layout, products, reductions

__all__ = ["elementwise", "layout", "products", "reductions"]
