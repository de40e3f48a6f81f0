"""Stored threads under a graph that has changed."""
