"""Headers of C: of formats, operations, accumulations and calls."""
