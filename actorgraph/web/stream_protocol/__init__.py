"""LangGraph's streaming protocol: its events, commands, streams and sockets."""
