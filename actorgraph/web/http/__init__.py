"""Requests and responses: bodies, limits, access, problems; nothing of threads or runs."""
