"""The right answers: of operations and dot products, by the verbs and by the oracle."""
