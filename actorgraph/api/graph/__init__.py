"""The compiled graph: building it, running it, its state, its description."""
