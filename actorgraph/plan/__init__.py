"""The static graph: a program's declarations, checked and compiled to tables. Nothing runs here."""
