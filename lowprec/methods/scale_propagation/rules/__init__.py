"""The rules: what scale the result of each NumPy function has, and so what data.

Importing this registers them. Floor 4.
"""

from lowprec.methods.scale_propagation.rules import elementwise, layout, products, reductions

__all__ = ["elementwise", "layout", "products", "reductions"]
