"""Requests: bodies, access, limits, errors, the registries, and how an endpoint answers."""
