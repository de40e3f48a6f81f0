"""One task: its scope, the call of its node, and the functions that the node may call."""
