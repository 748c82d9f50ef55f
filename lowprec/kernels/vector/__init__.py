"""The kernels that change a vector of elements at a time, for what fits 32-bit words.

Whatever they cannot serve exactly is left to `scalar`.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""
