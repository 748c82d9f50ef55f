"""The kernels that know every format, projection, accumulation and flag: one element at a time, in integers.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""
