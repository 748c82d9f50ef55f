"""Questions about arrays in blocks that share a scale."""
