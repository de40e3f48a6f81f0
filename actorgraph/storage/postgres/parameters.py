"""Parameters of connections to PostgreSQL, which a connection string may override."""

from typing import Any

CONNECT_TIMEOUT_S = 10
CONNECTION_DEFAULTS: dict[str, Any] = {
    "application_name": "actorgraph",
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Keepalives and timeouts, so that a server that has gone silent is noticed within a minute."""
CONNECTION_ENCODING = {"client_encoding": "UTF8"}
"""The parameter that neither a connection string nor the environment may override."""
