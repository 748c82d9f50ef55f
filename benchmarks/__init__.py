"""Benchmarks of lowprec beside other libraries: `python -m benchmarks`, from a checkout. See docs/bench.md."""
