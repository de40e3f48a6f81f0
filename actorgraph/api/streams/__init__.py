"""Streams of a run: chunks, typed projections (version 3) and LangChain's events (version 2)."""
