"""Savers: durable homes of checkpoints. Each is the port's four methods over one store."""
