"""Values of functions, by proven enclosures.

Floor 2b.
"""
