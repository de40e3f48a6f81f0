"""The packages that each extra brings, and the modules that need them."""

import tomllib

from tests.support.source_files import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

EXTRAS: dict[str, tuple[str, str]] = {
    "trio": ("trio", ""),
    "pydantic": ("pydantic", ""),
    "langchain": ("langchain_core typing_extensions", "actorgraph.bridges.langchain_tasks"),
    "openai": ("httpx", "actorgraph.prebuilt.completion_requests"),
    "drawing": ("PIL", ""),
    "encryption": ("cryptography", "actorgraph.codec.encryption"),
    "postgres": ("psycopg", "actorgraph.savers.postgres.engine"),
    "vectors": ("numpy", "actorgraph.stores.embedding"),
    "migrate": ("xxhash", "actorgraph.migrate"),
    "metrics": ("prometheus_client", "actorgraph.api.system.prometheus"),
    "otel": ("opentelemetry", "actorgraph.runtime.run.tracing"),
    "demo": ("rich trio", ""),
    "progress": ("rich", ""),
    "cli": ("typer rich", "actorgraph.cli.command_group"),
    "pgqueuer": ("pgqueuer psycopg", "actorgraph.dispatch.pgqueuer"),
    "nats": ("nats", "actorgraph.dispatch.nats"),
    "web": ("starlette cronsim httpx tzdata", "actorgraph.web"),
    "serve": ("hypercorn starlette", "actorgraph.web"),
    "studio": ("jinja2 markupsafe hypercorn", "actorgraph.studio actorgraph.studio.serving"),
}
"""Extra -> the packages that it brings, as they are imported; modules that work with it."""

DEVELOPMENT = {"all", "dev", "docs", "mutants"}
"""Extras made of others, or for this repository alone."""

PUBLIC = (
    *("", ".api.system.prometheus", ".caches", ".channels", ".checkpoints", ".cli.codemod"),
    *(".codec", ".codec.encryption", ".compat", ".dispatch", ".errors", ".functional", ".graph"),
    *(".messages", ".migrate", ".ports", ".prebuilt", ".sessions", ".stores", ".streams"),
    *(".systems", ".testing", ".types"),
)
"""Modules that programs import, and that need no extra."""
