"""Checkpoints in a folder of JSON lines: one file per thread, one line per save.

The lines are defined beside their checksums; an index of each file is kept in memory; batches
append lines, removals rewrite files; a lock gives the folder to one process at a time.
"""
