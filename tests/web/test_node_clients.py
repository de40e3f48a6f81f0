"""The JavaScript SDK and React's `useStream`, both generations, under Node.

`make clients` installs their packages; without Node or the packages these tests are skipped.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.web.server import running
from tests.web.waiting_app import waiting_application

HERE = Path(__file__).parent / "node"
LIMIT_S = 110
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(
    NODE is None or not (HERE / "node_modules" / "@langchain").is_dir(),
    reason="needs Node and its packages: make clients",
)

FLOWS = {
    "sdk": {*{"submit", "messages", "answer", "fail", "chat"}, *{"cut", "tools", "cancel"}},
    "react": {
        *{"submit", "messages", "resume", "reload", "tools", "error", "cancel"},
        *{"join", "fork"},
    },
    "sdk-react": {"submit", "messages", "resume", "reload", "tools", "error", "cancel"},
}


@pytest.mark.parametrize("client", FLOWS)
def test_a_page_works(tmp_path: Path, client: str):
    """
    A page with the client submits, streams, answers, reloads, joins, cancels, fails and forks.
    """
    with running(waiting_application(tmp_path / "runs.db")) as url:
        ended = subprocess.run(
            [str(NODE), "flows.mjs", url, client],
            cwd=HERE,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    told = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]

    assert {one["flow"] for one in told} == FLOWS[client], ended.stderr
    assert [one for one in told if one["error"] is not None] == []
