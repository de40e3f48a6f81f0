"""`ActorSystem`: starting runs, following them, taking over those of a dead process, metrics."""
