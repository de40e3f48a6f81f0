"""Savers around savers: measuring, limiting, guarding, and keeping a log of who did what."""
