"""The pure rules above a single run: threads of a batch, runs of a system. No I/O here."""
