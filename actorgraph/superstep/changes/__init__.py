"""Stored threads whose graph has changed, or whose state was edited from outside."""
