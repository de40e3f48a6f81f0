"""Two accepting processes, three workers and PostgreSQL, while workers are killed and replaced."""
