"""The static graph: what a program declares, checked and turned into tables. Nothing runs here."""
