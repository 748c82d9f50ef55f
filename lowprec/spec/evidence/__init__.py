"""Evidence for accumulations, library calls and profiles, and the tables of it that are kept by hand."""
