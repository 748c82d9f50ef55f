"""Tools: where the oracle and the kernels first meet.

Floor 5. Imports everything below.
"""
