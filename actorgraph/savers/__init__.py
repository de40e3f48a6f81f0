"""Savers store checkpoints; each implements `ports.Saver` for one backend."""
