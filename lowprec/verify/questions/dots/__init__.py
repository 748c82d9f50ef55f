"""Questions about dot products: their operands, sums and steps, and what may be wrong in each."""
