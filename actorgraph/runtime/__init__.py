"""The actors: they carry out what the pure core decides, and report events back to it."""
