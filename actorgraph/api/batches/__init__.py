"""Batches: one durable thread for each input, run again until all are done."""
