"""A state machine that holds savers against a plain model, step by step."""
