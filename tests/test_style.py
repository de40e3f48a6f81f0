"""The rules of style that a machine can hold, over actorgraph/, tests/ and examples/.

ruff and basedpyright hold the rest. Each rule is tried first on a made-up file that breaks it:
a rule that can't fail holds nothing.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.source_files import (
    FUNCTIONS,
    Place,
    Rule,
    Source,
    call_name,
    hold,
    snippet,
    sources,
)

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 50
LINE_CHARACTERS_MAX = 100

# Split, so that this file does not break its own rule.
LEFTOVERS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
BARE_IGNORES = re.compile(r"#\s*(type: ?ignore|pyright: ?ignore)(?!\[)|#\s*noqa(?!: ?[A-Z])")
PICKLES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
RUNS_TEXT = {"eval", "exec", "builtins.eval", "builtins.exec", "yaml.load", "yaml.unsafe_load"}
HURRIED = {
    "tests/runtime/system/test_drain.py",
    "tests/web/bad_site.py",
    "tests/web/canary_app.py",
    "tests/web/test_thread_streams.py",
}
"""Where the time that a drain may take is the subject, or none of its saves is looked at."""
EXECUTES = {"execute", "executemany", "executescript"}


def comments(source: Source) -> Iterator[tuple[int, str]]:
    """Each line from its first `#` on; a `#` inside a string is rare enough to be no trouble."""
    for number, line in enumerate(source.lines, 1):
        if "#" in line:
            yield number, line[line.index("#") :]


def long_files(source: Source) -> Iterator[Place]:
    if len(source.lines) > FILE_LINES_MAX:
        yield 1, f"has {len(source.lines)} lines, more than {FILE_LINES_MAX}"


def long_functions(source: Source) -> Iterator[Place]:
    for f in source.nodes(*FUNCTIONS):
        length = (f.end_lineno or f.lineno) - f.lineno + 1
        if length > FUNCTION_LINES_MAX:
            yield f.lineno, f"{f.name} has {length} lines, more than {FUNCTION_LINES_MAX}"


def long_lines(source: Source) -> Iterator[Place]:
    for number, line in enumerate(source.lines, 1):
        if len(line) > LINE_CHARACTERS_MAX:
            yield number, f"has {len(line)} characters, more than {LINE_CHARACTERS_MAX}"


def relative_imports(source: Source) -> Iterator[Place]:
    for node in source.nodes(ast.ImportFrom):
        if node.level:
            yield node.lineno, "a relative import: write the whole name"


def bare_ignores(source: Source) -> Iterator[Place]:
    for number, text in comments(source):
        if BARE_IGNORES.search(text):
            yield number, f"{text}: name the rule that is ignored"


def hurried_drains(source: Source) -> Iterator[Place]:
    """Find systems that leave runs when a short time is over, which ends their last saves too."""
    if source.path not in HURRIED:
        for given in source.nodes(ast.keyword):
            if given.arg == "drain_timeout_s" and ast.unparse(given.value).startswith("0."):
                yield given.value.lineno, "busy cores take longer: end with `await system.drain(0)`"


def leftovers(source: Source) -> Iterator[Place]:
    for number, line in enumerate(source.lines, 1):
        if found := LEFTOVERS.search(line):
            yield number, f"{found.group()}: do it, or write it down where work is planned"


def dangerous_calls(source: Source) -> Iterator[Place]:
    """Find calls that turn stored or foreign text into running code.

    Annotations are code of the program's own, which `typing` evaluates in the same way.
    """
    for node in source.nodes(ast.Import, ast.ImportFrom):
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        names = [module] if module else [name.name for name in node.names]
        for name in names:
            if name.split(".")[0] in PICKLES:
                yield node.lineno, f"imports {name}: stored bytes must never run code"
    for node in source.nodes(ast.Call):
        own_code = call_name(node) == "eval" and source.path == "actorgraph/plan/annotations.py"
        if call_name(node) in RUNS_TEXT and not own_code:
            yield node.lineno, f"calls {call_name(node)}"


def is_built(text: ast.expr, built_names: set[str]) -> bool:
    """Whether an expression pastes values into a text, directly or under a name."""
    for node in ast.walk(text):
        match node:
            case ast.FormattedValue() | ast.BinOp(op=ast.Mod()):
                return True
            case ast.Call(func=ast.Attribute(attr="format")):
                return True
            case ast.Name(id=name) if name in built_names:
                return True
    return False


def built_sql(source: Source) -> Iterator[Place]:
    """SQL with values pasted in: write constants, and pass values as parameters."""
    if source.path.startswith("tests/bench/"):
        return  # it copies databases of any schema, and a table's name can't be a parameter
    assigned = [
        (target.id, node.value)
        for node in source.nodes(ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    assigned += [
        (node.target.id, node.value)
        for node in source.nodes(ast.AnnAssign, ast.AugAssign, ast.NamedExpr)
        if isinstance(node.target, ast.Name) and node.value is not None
    ]
    built_names = {name for name, value in assigned if is_built(value, set())}
    for call in source.nodes(ast.Call):
        texts = [*call.args[:1], *(k.value for k in call.keywords if k.arg in {"sql", "query"})]
        if call_name(call).split(".")[-1] in EXECUTES and any(
            is_built(text, built_names) for text in texts
        ):
            yield call.lineno, "SQL built from values: use parameters"


def undocumented_tests(source: Source) -> Iterator[Place]:
    if source.is_test:
        for f in source.nodes(*FUNCTIONS):
            if f.name.startswith("test") and not ast.get_docstring(f):
                yield f.lineno, f"{f.name} has no docstring: the sentence that it shows"


def is_skip(name: str) -> bool:
    last = name.rpartition(".")[2]
    return name.startswith("pytest.") and last in {"skip", "skipif", "xfail", "importorskip"}


def skips_without_reason(source: Source) -> Iterator[Place]:
    called = set[ast.expr]()
    for call in source.nodes(ast.Call):
        name = call_name(call)
        called.add(call.func)
        reasons = [k.value for k in call.keywords if k.arg in {"reason", "msg"}]
        if name in {"pytest.skip", "pytest.xfail"}:
            reasons += call.args[:1]
        empty = [r for r in reasons if isinstance(r, ast.Constant) and not r.value]
        if is_skip(name) and (not reasons or empty):
            yield call.lineno, f"{name} without a reason"
    for node in source.nodes(ast.Attribute):
        name = call_name(ast.Call(func=node, args=[], keywords=[]))
        if node not in called and name.startswith("pytest.mark.") and is_skip(name):
            yield node.lineno, f"{name} without a reason"


# A rule, and files that break it.
RULES: list[tuple[Rule, list[str]]] = [
    (long_files, ["x = 1\n" * (FILE_LINES_MAX + 1)]),
    (long_functions, ["def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX]),
    (long_lines, ["x" * (LINE_CHARACTERS_MAX + 1)]),
    (relative_imports, ["from . import a", "from ..b import a"]),
    (bare_ignores, [f"x = 1  # {text}" for text in ("type: ignore", "noqa", "pyright: ignore")]),
    (hurried_drains, ["ActorSystem(graphs, saver=saver, drain_timeout_s=0.1)"]),
    (leftovers, ["# TO" + "DO: later", "x = 1  # FIX" + "ME"]),
    (
        dangerous_calls,
        ["import pickle", "from pickle import loads", "eval('1')", "exec('1')", "yaml.load(f)"],
    ),
    (
        built_sql,
        [
            "db.execute(f'select {a}')",
            "await db.executemany('select %s' % a, rows)",
            "db.executescript('select {}'.format(a))",
            "def f():\n    sql = f'select {a}'\n    db.execute(sql)",
            "db.execute(sql=f'select {a}')",
        ],
    ),
    (undocumented_tests, ["def test_a(): ...", "class TestA:\n    async def test_a(self): ..."]),
    (
        skips_without_reason,
        [
            "pytest.skip()",
            "pytest.importorskip('numpy')",
            "@pytest.mark.skip\ndef test_a(): ...",
            "@pytest.mark.skipif(True)\ndef test_a(): ...",
            "@pytest.mark.xfail(reason='')\ndef test_a(): ...",
        ],
    ),
]
FINE = '''
"""A file that breaks no rule."""
from actorgraph.errors import ActorGraphError
x = 1  # type: ignore[assignment]
y = 2  # noqa: E501 - a reason
db.execute("select ? where name like ?", (1, f"%{x}%"))
SELECT = "select"
db.execute(SELECT + " 1")
cursor.exec_query("select")
pytest.skip("needs a server")

@pytest.mark.skipif(True, reason="needs a server")
def test_a():
    """Tests say what they show."""
'''


def name_of(rule: Rule) -> str:
    return getattr(rule, "__name__", "rule").replace("_", " ")


@pytest.mark.parametrize("rule", [rule for rule, _ in RULES], ids=name_of)
def test_no_file_breaks_the_rule(rule):
    """
    Every file of the package, the tests and the examples keeps each rule.
    """
    files = sources("actorgraph", "tests", "examples")

    assert {f.path.split("/")[0] for f in files} >= {"actorgraph", "tests"}
    hold(rule, files)


@pytest.mark.parametrize(
    ("rule", "text"), [(rule, text) for rule, texts in RULES for text in texts]
)
def test_a_file_that_breaks_the_rule_is_found(rule, text):
    """
    Each rule fails on a file written to break it ...
    """
    assert list(rule(snippet(text, "tests/test_made_up.py")))


@pytest.mark.parametrize("rule", [rule for rule, _ in RULES], ids=name_of)
def test_a_fine_file_is_not_found(rule):
    """
    ... and passes what only looks similar.
    """
    assert list(rule(snippet(FINE, "tests/test_made_up.py"))) == []
