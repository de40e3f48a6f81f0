"""An older path of `actorgraph.systems.metrics_registry`."""

from actorgraph.api.system.prometheus import metrics_registry

__all__ = ["metrics_registry"]
