"""The verbs on NumPy arrays.

Floor 3. Imports spec, kernels, NumPy and ml_dtypes; never the oracle.
"""
