"""All routes: the OpenAPI document, the application and the tests of access are made of them."""

from actorgraph.web.assistants import ENDPOINTS as ASSISTANTS
from actorgraph.web.items import ENDPOINTS as STORE
from actorgraph.web.meta import ENDPOINTS as META
from actorgraph.web.runs import ENDPOINTS as RUNS
from actorgraph.web.searching import SEARCH_ENDPOINTS
from actorgraph.web.threads import ENDPOINTS as THREADS
from actorgraph.web.threadstreams import ENDPOINTS as THREAD_STREAMS

ENDPOINTS = (*THREADS, *SEARCH_ENDPOINTS, *THREAD_STREAMS, *RUNS, *ASSISTANTS, *STORE, *META)

ACTIONS = tuple(sorted({e.action for e in ENDPOINTS if e.action is not None}))
"""The names of all actions that `authorize` may be called with."""
