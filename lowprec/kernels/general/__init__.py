"""Every request whose operands and results fit 64-bit lanes: one branch-free loop an operation."""
