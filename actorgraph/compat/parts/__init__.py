"""Names that only LangGraph's ecosystem needs: thin forms of what the library has."""
