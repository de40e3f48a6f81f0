"""The routes of the Agent Protocol."""
