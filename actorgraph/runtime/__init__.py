"""The actors: they carry out what the pure core decides, and report events back to it.

The rooms, lowest first: `saver` (commits and reads), `task` (the call of a node, and the functions
that it may call), `run` (the supervisor of a run, its node actors), `system` (many runs, leases).
"""
