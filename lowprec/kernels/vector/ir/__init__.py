"""Vectors in kernels: types and functions that are LLVM's own, each with a meaning in NumPy too.

Floor 2b. Imports LLVM's types through `jit`.
"""
