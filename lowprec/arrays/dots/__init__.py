"""Dot products and products of matrices, their scales and epilogues."""
