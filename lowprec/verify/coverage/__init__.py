"""Coverage of vectors: the points of a unit's verification plan, and the vectors that hit each."""
