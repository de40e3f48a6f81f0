"""Answer `import langgraph` from actorgraph, for packages that import it themselves.

    import actorgraph.compat
    actorgraph.compat.install()  # before the first import of a `langgraph` module

`python -m actorgraph.compat PROGRAM.py` and `python -m actorgraph.compat -m MODULE` run what
exists without an edit. LangGraph itself is neither imported nor needed; `langgraph_sdk` stays the
real one.
"""

from actorgraph.compat.finder import install, installed, uninstall
from actorgraph.compat.report import NameReport, report

__all__ = ["NameReport", "install", "installed", "report", "uninstall"]
