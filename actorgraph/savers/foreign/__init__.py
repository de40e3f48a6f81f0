"""Savers with LangGraph's interface, adapted to `ports.Saver`: whole checkpoints, by `put`."""
