"""Published methods on bit-exact formats: one file for each.

Each is a module to import: ``from lowprec.methods import fp8``. They use the verbs of ``lowprec`` for every
rounding, and NumPy for the rest.
"""
