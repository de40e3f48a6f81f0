"""The parts of `audit_packages.py`, in the order in which the program uses them.

targets    the audited packages and modules, found by name, folder or distribution
measure    one file -> its figures: pure, no graph in sight
score      many files' figures -> hot spots, risk, a suggested verdict: pure
graph      the four steps of one package, as a graph
drive      every package's thread at once: begin, go on, answer, stop
board      what the terminal shows meanwhile
ledger     which files this process parsed, and the file that a checker reads
summary    all packages' figures added up: pure
markdown, page, chart, style   the reports: pure
"""
