"""Schemes of quantised weights: their tensors, and how codes and scales are packed into these."""
