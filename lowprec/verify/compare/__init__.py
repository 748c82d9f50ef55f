"""`lowprec.compare`: results held against the right ones, the reason looked for, and the report."""
