"""Doctor: finds mistakes in a program, its settings and its database, and says how to mend them.

Facts are gathered first (`program_facts`, `node_calls`, `served_facts`, `database_facts`), then
judged by pure functions (`program_checks`, `database_checks`, `setting_checks`), so that each check
is tried without a database and without a network. `diagnosis` lists every code.
"""
