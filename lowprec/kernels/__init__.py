"""The kernels: the fast path, in Numba, on flat arrays of codes.

Floor 2b. Imports spec, NumPy and numba; never the oracle, which judges it.
"""
