"""One run: its launch, its supervisor, its node actors and attempts, its spans."""
