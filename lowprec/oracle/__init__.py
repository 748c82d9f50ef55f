"""The oracle: what every answer must be, slow, short and obvious, in Fractions.

Floor 2a. Imports spec and the standard library; never the kernels, which it judges.
"""
