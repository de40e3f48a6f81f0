"""Savers of other packages, each with a database of its own that outlives the process, if it can.

`opened(name, folder)` opens one. Addresses of servers are in the environment (`servers.py`).
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

REDIS = "ECOSYSTEM_REDIS"
AWS = "ECOSYSTEM_AWS"
MARIADB = "ECOSYSTEM_MARIADB"
POSTGRES = "ECOSYSTEM_POSTGRES"


@contextmanager
def plainredis(folder: Path) -> Iterator[Any]:
    """Keys of a Redis server without modules."""
    saver = import_module("langgraph_checkpoint_plainredis").RedisSaver(
        url=os.environ[REDIS], prefix=folder.name
    )
    with saver.client:
        yield saver


@contextmanager
def mongodb(folder: Path) -> Iterator[Any]:
    """A MongoDB that lives in this process."""
    client = import_module("mongomock").MongoClient()
    kind = import_module("langgraph.checkpoint.mongodb").MongoDBSaver
    # The mock lacks two things that the driver passes, and that change no result here.
    bulk = import_module("mongomock.collection").BulkOperationBuilder
    add = bulk.add_update

    def add_update(*given: Any, sort: Any = None, **more: Any) -> None:
        del sort
        add(*given, **more)

    bulk.add_update, type(client).append_metadata = add_update, lambda *_: None
    yield kind(client, db_name=folder.name)


def own_database(folder: Path) -> str:
    """The address of a database of MariaDB for a folder; it is made if it doesn't exist."""
    address = urlsplit(os.environ[MARIADB])
    where = ["--host=127.0.0.1", f"--port={address.port}", f"--user={address.username}"]
    words = ["mariadb-admin", *where, "create", folder.name]
    subprocess.run(words, capture_output=True, check=False)
    return address._replace(path=f"/{folder.name}").geturl()


@contextmanager
def mysql(folder: Path) -> Iterator[Any]:
    """A database of a MariaDB server."""
    kind = import_module("langgraph.checkpoint.mysql.pymysql").PyMySQLSaver
    with kind.from_conn_string(own_database(folder)) as saver:
        saver.setup()
        yield saver


@contextmanager
def dynamodb_aws(folder: Path) -> Iterator[Any]:
    """AWS's own package over a table of DynamoDB."""
    boto3 = import_module("boto3")
    client = boto3.client("dynamodb", endpoint_url=os.environ[AWS])
    keys = (("PK", "HASH"), ("SK", "RANGE"))
    if folder.name not in client.list_tables()["TableNames"]:
        client.create_table(
            TableName=folder.name,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": "S"} for name, _ in keys
            ],
            BillingMode="PAY_PER_REQUEST",
        )
    kind = import_module("langgraph_checkpoint_aws").DynamoDBSaver
    yield kind(table_name=folder.name, endpoint_url=os.environ[AWS])


@contextmanager
def dynamodb(folder: Path) -> Iterator[Any]:
    """Another package over DynamoDB."""
    os.environ["AWS_ENDPOINT_URL"] = os.environ[AWS]
    yield import_module("langgraph_dynamodb_checkpoint").DynamoDBSaver(folder.name)


@contextmanager
def s3(folder: Path) -> Iterator[Any]:
    """Objects of an S3 bucket."""
    client = import_module("boto3").client("s3", endpoint_url=os.environ[AWS])
    bucket = folder.name.replace("_", "-")
    client.create_bucket(Bucket=bucket)
    yield import_module("langgraph_checkpoint_s3").S3CheckpointSaver(bucket, s3_client=client)


@contextmanager
def objects(folder: Path) -> Iterator[Any]:
    """Objects of a store that fsspec knows: files here."""
    kind = import_module("langgraph_checkpoint_objectstorage").ObjectStorageSaver
    yield kind.from_conn_string(f"file://{folder / 'objects'}")


@contextmanager
def lmdb(folder: Path) -> Iterator[Any]:
    """An LMDB file."""
    environment = import_module("lmdb").open(str(folder / "data"), max_dbs=10)
    yield import_module("langgraph_checkpoint_lmdb").LMDBSaver(environment)
    environment.close()


@contextmanager
def duckdb(folder: Path) -> Iterator[Any]:
    """A DuckDB file."""
    kind = import_module("langgraph.checkpoint.duckdb").DuckDBSaver
    with kind.from_conn_string(str(folder / "data.duckdb")) as saver:
        saver.setup()
        yield saver


@contextmanager
def sqlite(folder: Path) -> Iterator[Any]:
    """LangGraph's own over SQLite; over the layer, actorgraph's."""
    kind = import_module("langgraph.checkpoint.sqlite").SqliteSaver
    with kind.from_conn_string(str(folder / "data.db")) as saver:
        yield saver


@contextmanager
def postgres(folder: Path) -> Iterator[Any]:
    """LangGraph's own over PostgreSQL; over the layer, actorgraph's."""
    psycopg, address = import_module("psycopg"), os.environ[POSTGRES]
    with psycopg.connect(address, autocommit=True) as connection:
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (folder.name,))
        if found.fetchone() is None:
            sql = import_module("psycopg.sql")
            parts = [sql.SQL("CREATE DATABASE "), sql.Identifier(folder.name)]
            connection.execute(sql.Composed(parts))
    own = psycopg.conninfo.make_conninfo(address, dbname=folder.name)
    kind = import_module("langgraph.checkpoint.postgres").PostgresSaver
    with kind.from_conn_string(own) as saver:
        saver.setup()
        yield saver


SAVERS: dict[str, Callable[[Path], Any]] = {
    made.__name__: made
    for made in (
        *(plainredis, mongodb, mysql, dynamodb_aws, dynamodb, objects, lmdb, s3, duckdb),
        *(sqlite, postgres),
    )
}
FOREIGN = tuple(name for name in SAVERS if name not in {"sqlite", "postgres"})
IN_PROCESS = frozenset({"mongodb"})
"""Databases that end with their process."""
OLDER = frozenset({"duckdb", "s3"})
"""Written for an older LangGraph: they run over the layer, and not over the newest LangGraph."""


def opened(name: str, folder: Path) -> Any:
    """Open a saver whose data are in a folder, or under its name on a server."""
    folder.mkdir(parents=True, exist_ok=True)
    return SAVERS[name](folder)
