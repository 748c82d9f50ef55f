"""Questions about conversions and operations, element by element, and about their flags."""
