"""The endpoints: how a request is admitted, and the handlers of LangGraph's routes."""
