"""The pure rules of systems: turns on a thread, takeover, dispatch, buckets of threads."""
