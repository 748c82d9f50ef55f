"""Arrays in blocks that share a scale: encoded, decoded, packed, and scaled."""
