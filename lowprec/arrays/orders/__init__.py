"""Comparisons, classes and neighbours."""
