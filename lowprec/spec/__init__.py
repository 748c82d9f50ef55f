"""Specifications: frozen descriptions of what is meant, in integers and strings alone.

Floor 1. Imports the standard library only.
"""
