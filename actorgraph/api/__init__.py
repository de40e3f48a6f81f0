"""Public classes and functions: graphs, savers, streams, systems, the sync API.

Nothing here decides how a run proceeds: that is `superstep/`, driven by `runtime/`.
"""
