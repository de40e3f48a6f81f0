"""Start the chat: python -m chat [--port 8000] [--db chat.db] [--word-s 0.045]."""

import argparse

import uvicorn

from chat.app import make_app


def main() -> None:
    """Serve until Ctrl-C; what is being written goes on at the next start."""
    parser = argparse.ArgumentParser(prog="chat", description="A chat for people in a browser.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--db", default="chat.db", help="made if it isn't there")
    parser.add_argument("--word-s", type=float, default=0.045, help="seconds between two words")
    parser.add_argument(
        "--no-resumable", action="store_true", help="store no events, to see what a gap does"
    )
    given = parser.parse_args()
    app = make_app(given.db, word_s=given.word_s, resumable=not given.no_resumable)
    print(f"Open http://127.0.0.1:{given.port}/ in a browser; Ctrl-C stops the server.", flush=True)
    uvicorn.run(
        app, host="127.0.0.1", port=given.port, log_level="warning", timeout_graceful_shutdown=10
    )


if __name__ == "__main__":
    main()
