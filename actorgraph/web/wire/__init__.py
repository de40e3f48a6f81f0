"""The streaming protocol's events: their kinds, numbers and subscriptions. Pure."""
