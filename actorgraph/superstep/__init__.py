"""The algebra of a run: who is due, what writes do, what must be durable when. No I/O here."""
