"""The functional API: a durable program as a function, and its steps as functions that it calls."""
