"""The questions that a comparison can ask: of elements, of blocks and of dot products."""
