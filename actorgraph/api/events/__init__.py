"""Event streams, version 3: one run, read through typed projections that its reader drives."""
