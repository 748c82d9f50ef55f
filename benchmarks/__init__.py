"""Benchmarks of lowprec beside other libraries: `python -m benchmarks` in a checkout. See docs/bench.md."""
