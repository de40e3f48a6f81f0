"""The functional API: `@entrypoint` for a durable program, `@task` for its steps."""
