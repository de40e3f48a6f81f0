"""All routes. What the OpenAPI describes, what is served, and what tests of access go through."""

from actorgraph.web import assistants, items, meta, runs, searching, threads, threadstreams

ENDPOINTS = (
    *threads.ENDPOINTS,
    *searching.ENDPOINTS,
    *threadstreams.ENDPOINTS,
    *runs.ENDPOINTS,
    *assistants.ENDPOINTS,
    *items.ENDPOINTS,
    *meta.ENDPOINTS,
)

ACTIONS = tuple(sorted({e.action for e in ENDPOINTS if e.action is not None}))
"""What an application is asked leave for."""
