"""Commands that are run from a shell."""
