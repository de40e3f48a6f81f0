"""Savers of LangGraph's interface behind the port: whole checkpoints through their own methods."""
