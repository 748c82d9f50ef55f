"""Hypothesis runs the same examples every time: a failure here is a failure everywhere."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("deterministic", derandomize=True, deadline=None, database=None, max_examples=200)
settings.load_profile("deterministic")
