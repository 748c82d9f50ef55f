"""A unit that multiplies and adds, asked until its accumulation is known."""
