"""The judges of `make ecosystem`: what they let pass, and what they don't."""

import json

import pytest

from tests.ecosystem.newest import changes, pins
from tests.ecosystem.run import HERE, Allowed, Difference, differences, lines_of, table
from tests.ecosystem.suite import judge, known

SAVERS = HERE / "savers"
PASSING = {f"t{number}" for number in range(100)}


class TestSuite:
    def test_a_known_failure_passes(self):
        """
        A failing test with a reason is let pass.
        """
        assert judge(PASSING, PASSING - {"t1"}, {"t1": "a reason"})

    def test_a_new_failure_fails(self):
        """
        A failing test without a reason isn't let pass.
        """
        assert not judge(PASSING, PASSING - {"t1"}, {})

    def test_an_entry_that_passes_fails(self):
        """
        A test that passes must leave the list.
        """
        assert not judge(PASSING, PASSING, {"t1": "a reason"})

    def test_too_many_known_failures_fail(self):
        """
        Reasons don't help below the required share.
        """
        failing = {f"t{number}": "a reason" for number in range(6)}

        assert not judge(PASSING, PASSING - set(failing), failing)

    def test_no_tests_fail(self):
        """
        A run that collected nothing isn't let pass.
        """
        assert not judge(set(), set(), {})

    def test_each_table_has_entries_of_its_part(self):
        """
        The savers' table is read by the reader of the others, and each part finds its entries.
        """
        assert {entry.part for entry in table()} == {"programs", "spans", "pages"}
        assert {entry.part for entry in table(SAVERS, "savers")} == {"savers"}

    def test_each_entry_has_a_reason(self):
        """
        The committed lists give a reason for each test and each difference.
        """
        assert all(known().values())
        assert all(entry.reason for entry in [*table(), *table(SAVERS, "savers")])


def line(way: str, item: object) -> str:
    return json.dumps({"way": way, "turn": 0, "item": item})


def tool_message(call: str) -> object:
    return [[], {"tools": {"messages": [{"tool_call_id": call}]}}]


class TestPrograms:
    @pytest.mark.parametrize(
        ("layer", "count"),
        [([1, {"a": 2}], 0), ([1, {"a": 3}], 1), ([1, {}], 1), ([1], 1), ([1.0, {"a": 2}], 1)],
    )
    def test_each_value_that_differs_is_found(self, layer, count):
        """
        Another value, a missing key, a missing chunk and another type are differences.
        """
        native = lines_of("\n".join(line("values", item) for item in [1, {"a": 2}]))
        other = lines_of("\n".join(line("values", item) for item in layer))

        assert len([*differences("p", native, other)]) == count

    def test_tools_that_run_at_once_may_end_in_any_order(self):
        """
        The chunks of concurrent tools are compared in one order, other chunks in theirs.
        """
        chunks = [line("updates", tool_message(call)) for call in "ab"]
        one, other = lines_of("\n".join(chunks)), lines_of("\n".join(reversed(chunks)))
        first, second = lines_of(line("v", 1) + "\n" + line("v", 2)), lines_of(line("v", 2))

        assert [*differences("p", one, other)] == []
        assert [*differences("p", first, second)]

    def test_an_entry_allows_its_difference_alone(self):
        """
        An entry names the place and both values; another value isn't allowed by it.
        """
        entry = Allowed(r".*\.id", '"<absent>"', '"<id>"', "a reason", "programs")

        assert entry.allows(Difference("p", "updates[0].id", "<absent>", "<id>"))
        assert not entry.allows(Difference("p", "updates[0].id", "<id>", "<absent>"))
        assert not entry.allows(Difference("p", "updates[0].name", "<absent>", "<id>"))


class TestNewest:
    def test_versions_that_are_not_the_pins_are_named(self):
        """
        Packages with another version, and missing ones, are listed; the pinned ones are not.
        """
        pinned = pins("# a comment\na==1.0\nB[x]==2\nc==3\n")

        assert pinned == {"a": "1.0", "B[x]": "2", "c": "3"}
        assert changes(pinned, {"a": "1.0", "b": "2.1"}) == [
            "  B[x]: pinned 2, newest 2.1",
            "  c: pinned 3, newest not installed",
        ]
