"""The actors of an ActorSystem: runs and their threads, events for readers, leases."""
