"""Errors of rounding, scales that make them small, and formats side by side."""
