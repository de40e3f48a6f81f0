"""The OpenAPI, held against the server by schemathesis."""

import subprocess
import sys
from pathlib import Path

from tests.web.apps import application
from tests.web.server import running

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance"
)


def test_no_answer_is_outside_the_description(tmp_path: Path):
    """
    Whatever is sent, no answer is a server's error or one that the OpenAPI doesn't describe.
    """
    with running(application(tmp_path / "runs.db")) as url:
        command = [
            str(Path(sys.executable).with_name("schemathesis")),
            *("run", f"{url}/openapi.json", "--checks", CHECKS),
            *("--max-examples", "1", "--phases", "coverage,fuzzing", "--seed", "1"),
            *("--request-timeout", "10", "--generation-database", ":memory:"),
            *("--exclude-path", "/threads/{thread_id}/stream"),  # it ends with its client
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path
        )

    assert done.returncode == 0, done.stdout[-4000:]
