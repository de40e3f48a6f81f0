"""A graph as a picture in text: its shape, Mermaid, ASCII, SVG, and a report about its topology.

Everything here reads a `Plan` and calls none of the program's code.
"""
