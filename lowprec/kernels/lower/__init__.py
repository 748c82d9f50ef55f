"""Specifications as records of integers, which kernels read.

Floor 2b. Imports spec and NumPy.
"""
