"""The OpenAPI, held against the server by schemathesis. The long form is among the fault tests."""

from pathlib import Path
from typing import Any

import httpx

from actorgraph.web import Limits
from actorgraph.web.openapi import document
from actorgraph.web.routes import ENDPOINTS
from tests.web.apps import application
from tests.web.schemas import schemathesis
from tests.web.server import running


def test_no_answer_is_outside_the_description(tmp_path: Path):
    """
    After any request, no answer is a server's error or one that the OpenAPI doesn't describe.
    """
    limits = Limits(stream_s=0.05)  # the stream of a thread ends with its client, else
    with running(application(tmp_path / "runs.db", limits=limits)) as url:
        found = schemathesis(
            url, tmp_path, phases="fuzzing", examples=1, seed=1, leads=False, limit_s=200
        )

    assert found.passed, found.output[-4000:]


def test_generators_of_clients_can_read_each_schema():
    """
    Nowhere in the document is a boolean in a schema's place, an array or an object that doesn't
    say what is in it, or a list of one boolean to choose from.
    """
    found: list[Any] = []

    def look(schema: Any) -> None:
        if isinstance(schema, dict):
            bare = schema.get("type") == "array" and not schema.keys() & {"items", "prefixItems"}
            bare |= schema.get("type") == "object" and not schema.keys() & {
                "properties",
                "additionalProperties",
            }
            odd = isinstance(schema.get("items"), bool) or schema.get("enum") in ([True], [False])
            found.extend([schema] if bare or odd else [])
            schema = list(schema.values())
        for one in schema if isinstance(schema, list) else ():
            look(one)

    look(document(ENDPOINTS, version="1"))

    assert found == []


def test_no_schema_has_a_list_of_its_own_name():
    """
    A generated class has a variable of its own name, which a list of that name would hide.
    """
    schemas = document(ENDPOINTS, version="1")["components"]["schemas"]

    lists = [
        name
        for name, schema in schemas.items()
        if schema.get("properties", {}).get(name.lower(), {}).get("type") == "array"
    ]
    assert lists == []


def test_fields_of_bodies_may_be_left_out():
    """
    Only fields of answers have `default`, which makes a field a required one for some clients;
    those of bodies say it in words.
    """
    schemas = document(ENDPOINTS, version="1")["components"]["schemas"]
    body, answer = schemas["ThreadSearch"]["properties"], schemas["Thread"]["properties"]

    assert body["limit"]["description"] == "Default: 10"
    assert [name for name, one in body.items() if "default" in one] == []
    assert "default" in answer["values"]


def test_selected_fields_are_in_the_description(tmp_path: Path):
    """
    A search may leave out any field of a thread or an assistant, which `select` does.
    """
    with running(application(tmp_path / "runs.db")) as url:
        httpx.post(f"{url}/threads", json={})
        described = httpx.get(f"{url}/openapi.json").json()["components"]["schemas"]
        for kind, path in (("Thread", "threads"), ("Assistant", "assistants")):
            found = httpx.post(f"{url}/{path}/search", json={"select": ["metadata"]}).json()
            assert {tuple(one) for one in found} == {("metadata",)}
            whole, part = described[kind], described[f"Found{kind}"]
            assert part["properties"].keys() == whole["properties"].keys()
            assert not part.get("required")
