"""Drawings of graphs: Mermaid, ASCII and SVG, and a report about the topology.

Everything here reads a `Plan` and calls none of the program's code.
"""
