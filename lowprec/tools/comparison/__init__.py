"""Outputs held against the reference: what differs, where, and why.

Floor 5.
"""
