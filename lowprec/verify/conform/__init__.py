"""`lowprec conform`: frameworks held against the reference, known divergences, and baselines."""
