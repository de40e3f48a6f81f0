"""A saver in its event loop: the actors that commit and read, the host that runs them."""
