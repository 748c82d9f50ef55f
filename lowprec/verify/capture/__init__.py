"""Captures: what casts and dot products give on somebody's machine, asked by a script, read from a file."""
