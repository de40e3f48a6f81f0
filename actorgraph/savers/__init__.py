"""Storage of checkpoints: each folder implements `ports.Saver` for one kind of storage.

All decisions about commits, removals and runs of ActorSystems are in `judge`, `retention` and
`systems`, the same for every kind; `integrity` has the checksums. Programs open the classes in
`api/savers/`, which run these backends in the actors of `runtime/saver/`.
"""
