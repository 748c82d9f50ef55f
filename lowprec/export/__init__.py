"""Exports of what the reference knows, as files: tables, vectors, C, HDL, golden data, and cards to read."""
