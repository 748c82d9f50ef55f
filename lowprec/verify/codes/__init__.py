"""Codes and their values: as numbers, as arrays of a codebook, and as text."""
