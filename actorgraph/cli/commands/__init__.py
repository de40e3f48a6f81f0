"""The commands of `actorgraph`, a file for each idea. `command_line.py` lists the files."""
