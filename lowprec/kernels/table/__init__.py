"""Results of the scalar engine, looked up: a cache of it, no second opinion.

Floor 2b.
"""
