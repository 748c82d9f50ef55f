"""Implementations held against the reference: what to ask them, what differs, where, and why."""
