"""Write the tables of names in docs/ecosystem.md, from the tables of the layer.

python -m tests.support.compat_page
"""

from actorgraph.compat.modules import ABSENT, MODULES, PRIVATE
from tests.ecosystem.names import decision, missing, stored
from tests.support.source_files import ROOT

PAGE = ROOT / "docs" / "ecosystem.md"
BEGIN = "<!-- names: written by `make promises` -->\n"
END = "<!-- end of names -->\n"


def tables() -> str:
    """Return the tables: public modules, private names, absent names."""
    private = {row.module for row in PRIVATE}
    public = [f"`{m}`" for m, names in sorted(MODULES.items()) if names and m not in private]
    shown = ", ".join(public)
    lines = [
        f"These {len(public)} modules are answered, with LangGraph's public names: {shown}.",
        "",
        "Private names, because published packages import them:",
        "",
        "| module | names | needed by |",
        "|---|---|---|",
    ]
    for row in PRIVATE:
        names = ", ".join(f"`{name}`" for name in row.names)
        lines.append(f"| `{row.module}` | {names} | {row.needed_by} |")
    lines += [
        "",
        "Names that are absent raise ImportError, which says what to do:",
        "",
        "| name | instead |",
        "|---|---|",
        *(f"| `{name}` | {way_out} |" for name, way_out in sorted(ABSENT.items())),
    ]
    return "\n".join([*lines, *packages()]) + "\n"


def packages() -> list[str]:
    """Return the table of published packages and the names that they lack, as lines."""
    found = stored()
    lacking = missing(found)
    lines = [
        "",
        f"{len(found)} published packages were read for the names of `langgraph` that they import,",
        "without modules that packages put there themselves:",
        "",
        "| package | names | absent | why |",
        "|---|---|---|---|",
    ]
    for package, modules in found.items():
        own = [place for place, packages in lacking.items() if package in packages]
        shown = ", ".join(f"`{'.'.join(filter(None, place))}`" for place in own)
        why = "; ".join(sorted({str(decision(*place)) for place in own}))
        count = sum(map(len, modules.values()))
        lines.append(f"| {package} | {count} | {shown or '-'} | {why or '-'} |")
    return lines


def current() -> str:
    """Return the page with fresh tables."""
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + tables() + "\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(current(), "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
