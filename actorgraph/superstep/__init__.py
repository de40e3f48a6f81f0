"""The pure rules of a run: due tasks, folding of writes, durability, streams. No I/O here."""
