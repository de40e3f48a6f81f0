"""A server with webhooks and crons, to be killed: it looks at its store at every moment.

python -m tests.web.scheduled_app <server> <folder> <lease_s> [<port of the receiver>]
"""

import json
import sys
from pathlib import Path

import uvicorn

from actorgraph import ActorSystem, SqliteSaver
from actorgraph.stores import SqliteStore
from actorgraph.web import served
from actorgraph.web.jobs import background
from tests.web.apps import GRAPHS
from tests.web.receiver import Receiver


def main() -> None:
    """Serve until killed."""
    folder, lease_s, port = Path(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4])["port"]
    receiver = Receiver()
    receiver.url = f"http://127.0.0.1:{port}"
    background.LOOK_S = 0.1
    graphs = {name: graph.compile() for name, graph in GRAPHS.items()}
    saver, store = SqliteSaver(folder / "runs.db"), SqliteStore(folder / "items.db")
    system = ActorSystem(graphs, saver=saver, store=store, lease_s=lease_s)
    app = served(system, webhooks=receiver.policy(timeout_s=0.5, pause_s=0.2))
    app.app._server.webhooks._look_s = 0.1  # noqa: SLF001
    uvicorn.run(app, port=0, log_level="info")


if __name__ == "__main__":
    main()
