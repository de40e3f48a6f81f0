"""The threads and assistants of a server, as they are stored."""
