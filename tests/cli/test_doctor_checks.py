"""Doctor's checks over made-up facts: each planted mistake is found, and its absence is silent."""

import re
from dataclasses import replace

import pytest

from actorgraph.cli.doctor.diagnosis import CODES, Diagnosis, in_order
from actorgraph.cli.doctor.facts import Examined, ModuleFacts
from actorgraph.cli.doctor.judging import diagnose
from tests.cli.doctor_plants import (
    INTERRUPT,
    PLANTED,
    SLEEP,
    call,
    database,
    graph,
    leased,
    program,
    routes,
    run,
    served_over,
    studio,
)
from tests.support.source_files import ROOT


def codes(facts):
    return [found.code for found in diagnose(facts)]


class TestEachMistake:
    @pytest.mark.parametrize("code", CODES)
    def test_is_found_where_it_is_planted(self, code):
        """
        The finding names a culprit and a remedy, and is the only one.
        """
        planted, _ = PLANTED[code]

        found = diagnose(planted)

        assert [one.code for one in found] == [code]
        assert found[0].culprit
        assert found[0].text
        assert found[0].do

    @pytest.mark.parametrize("code", CODES)
    def test_is_not_found_in_a_right_program(self, code):
        """
        The same facts without the mistake have no finding at all.
        """
        _, right = PLANTED[code]

        assert diagnose(right) == []

    def test_has_a_section_in_the_documentation(self):
        """
        docs/doctor.md has one section for each code, in their order, with cause and cure.
        """
        text = (ROOT / "docs/doctor.md").read_text("utf-8")
        sections = dict(
            re.findall(r"^### `([\w.-]+)`\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
        )

        assert [*sections] == [*CODES]
        for body in sections.values():
            assert "**Cause.**" in body
            assert "**Cure.**" in body


class TestSeverities:
    def test_errors_come_first(self):
        """
        Findings are sorted by severity, then by their code; one that repeats is left out.
        """
        note = Diagnosis("saver.no-retention", "note", "a", "b", "c")
        error = Diagnosis("saver.unreachable", "error", "a", "b", "c")

        assert in_order([note, error, note]) == [error, note]

    def test_missing_rules_are_an_error_only_for_other_machines(self):
        """
        On a loopback address, or an unknown one, missing access rules are a warning.
        """
        local = diagnose(routes("127.0.0.1", has_rules=False))
        unknown = diagnose(routes(has_rules=False))
        public = diagnose(routes("192.168.1.4", has_rules=False))

        assert [one[0].severity for one in (local, unknown, public)] == [
            *("warning", "warning", "error")
        ]

    def test_an_interrupt_with_exit_is_a_note(self):
        """
        A pause works with durability exit; only the history of its steps is missing.
        """
        found = diagnose(graph(INTERRUPT, durability="exit"))

        assert [(one.code, one.severity) for one in found] == [("graph.durability-exit", "note")]


class TestBackends:
    def test_calls_of_both_backends_are_refused_without_a_choice(self):
        """
        A program that calls asyncio and trio runs on neither.
        """
        both = graph(call("asyncio", "sleep", awaits=True), call("trio", "sleep", awaits=True))

        (found,) = diagnose(both)

        assert found.code == "node.backend-mismatch"
        assert "trio.sleep()" in found.text
        assert "asyncio.sleep()" in found.text

    def test_a_trio_call_is_refused_on_asyncio(self):
        """
        The finding names the call and the backend.
        """
        facts = graph(call("trio", "sleep", awaits=True))

        assert codes(Examined(facts.program, backend="asyncio")) == ["node.backend-mismatch"]
        assert codes(Examined(facts.program, backend="trio")) == []

    def test_objects_that_need_no_loop_are_allowed(self):
        """
        Making an asyncio.Queue, or asking whether a function is async, works on trio.
        """
        facts = graph(
            call("asyncio", "Queue", kind="class"), call("asyncio", "iscoroutinefunction")
        )

        assert codes(Examined(facts.program, backend="trio")) == []


class TestTexts:
    def test_a_blocking_call_names_function_line_and_way(self):
        """
        A call through a function of the program names that function.
        """
        (found,) = diagnose(graph(replace(SLEEP, through=("helper",))))

        assert "'ask' calls time.sleep() through helper()" in found.text
        assert (found.file, found.line) == ("app.py", 7)

    def test_an_extra_comes_with_the_line_for_pip(self):
        """
        A package of an extra is installed by the extra; another one by its own name.
        """
        ours = diagnose(program(error="No module", missing="psycopg"))
        other = diagnose(program(error="No module", missing="frobnicate"))

        assert ours[0].do == "pip install 'actorgraph[postgres]'"
        assert other[0].do == "pip install frobnicate"

    def test_a_short_lease_and_a_short_renewal_differ(self):
        """
        A lease must be longer than the saver's wait for locks, and long enough by itself.
        """
        waiting, short = diagnose(leased(6))[0], diagnose(leased(0.5))[0]

        assert "waits up to 5 s for a lock" in waiting.text
        assert waiting.do.startswith("use lease_s=15")
        assert short.code == "lease.too-short"

    def test_a_star_is_not_a_host_of_a_studio(self):
        """
        hosts=["*"] allows no name, wherever the studio is served.
        """
        assert codes(studio("*")) == ["web.studio-hosts"]
        assert codes(studio("localhost")) == []


class TestDatabases:
    def test_a_program_that_removes_data_needs_no_advice(self):
        """
        A call of retention() in the program's source silences the note about old data.
        """
        old = database(oldest_s=9e9).database
        module = ModuleFacts("app.py", words=frozenset({"aretention"}))

        assert codes(program(database=old)) == ["saver.no-retention"]
        assert codes(program(database=old, modules=(module,))) == []

    def test_a_graph_that_the_system_lacks_is_named(self):
        """
        A run of an unknown graph is unserved, and not counted as orphaned too.
        """
        (found,) = diagnose(served_over(run(graph="other", alive=False)))

        assert found.code == "runs.unserved"
        assert "graph 'other'" in found.text
