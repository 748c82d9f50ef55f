"""Run casts of all binary32 operands (`lowprec conform --exhaustive`), and work spread over a cluster."""
