"""Checkpoints in files: one for each thread, a line of JSON for each save.

`names` says which file, `lines` what a line holds, `index` what is remembered of a file, `batch`
and `rewriting` how files change, `reading` how they are read, `folder` who may.
"""
