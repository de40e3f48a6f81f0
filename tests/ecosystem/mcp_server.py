"""An MCP server with two tools, on standard input and output."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("sums", log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def multiply(a: int, b: int) -> int:
    """Multiply two numbers that aren't negative."""
    if a < 0 or b < 0:
        raise ValueError("negative")
    return a * b


if __name__ == "__main__":
    server.run()
