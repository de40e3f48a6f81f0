"""The judgement of what clients of event streams read: each kind of planted fault is found."""

from collections.abc import Callable

import pytest

from actorgraph.rules.system.gaps import MADE_END
from tests.web.stream_checks import Again, Folded, Told, faults_in_words, faults_of

READ: list[Told | Again] = [
    Told(1, "metadata", {"attempt": 1}),
    Told(2, "messages", [{"type": "AIMessageChunk", "id": "a", "content": "run-a·0é𝄞 "}, {}]),
    Told(3, "messages", {"content": "run-a·1é𝄞 "}),
    Again(3),
    Told(4, "messages", [{"type": "AIMessageChunk", "id": "a", "content": "run-a·2é𝄞 "}, {}]),
    Told(5, "messages", {"content": "run-a·3é𝄞 "}),
    Told(6, "end", {"status": "success"}),
]
SAID = "".join(f"run-a·{number}é𝄞 " for number in range(4))
GAP = {"from": 5, "to": 5}
STATE = {"messages": [{"id": "a", "content": SAID}]}

Change = Callable[[list[Told | Again]], None]


def swap(read: list[Told | Again]) -> None:
    """Two events, the other way round."""
    read[1], read[2] = read[2], read[1]


def other(read: list[Told | Again]) -> None:
    """An event of another run."""
    read[4] = Told(4, "messages", {"content": "other-a·2é𝄞 "})


FAULTS: dict[str, tuple[Change, set[str]]] = {
    "a lost event": (lambda read: read.pop(2) and None, {"silent", "behind"}),
    "a lost one before a new connection": (lambda read: read.pop(4) and None, {"silent"}),
    "a doubled one": (lambda read: read.insert(2, read[1]), {"twice"}),
    "one that came before the cut": (lambda read: read.insert(4, read[2]), {"twice"}),
    "a swapped pair": (swap, {"disordered"}),
    "an event of another run": (other, set()),
    "a gap for nothing": (
        lambda read: read.insert(2, Told(2, "gap", {"from": 2, "to": 2})),
        {"needless", "stateless"},
    ),
    "a gap without its state": (
        lambda read: read.insert(6, Told(5, "gap", {"from": 6, "to": 6})),
        {"stateless"},
    ),
    "a connection from an older event on": (
        lambda read: read.__setitem__(3, Again(2)),
        {"behind"},
    ),
}
IN_WORDS = {
    "a lost event": {"silent"},
    "a lost one before a new connection": {"silent"},
    "a doubled one": {"twice"},
    "one that came before the cut": {"twice"},
    "a swapped pair": {"disordered"},
    "an event of another run": {"foreign", "silent"},
}


def test_a_reading_without_faults_has_none():
    """Nothing is found where nothing is wrong, and the page has the whole text."""
    assert not faults_of(READ).total()
    assert not faults_of(READ, may_miss=False).total()
    assert not faults_in_words(READ, "run")
    assert Folded(READ).messages == {"a": SAID}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name):
    """Each fault is found by the numbers or the words, and called what it is."""
    plant, found = FAULTS[name]
    read = list(READ)
    plant(read)

    assert {kind for kind, count in faults_of(read).items() if count} == found
    assert set(faults_in_words(read, "run")) == IN_WORDS.get(name, set())
    assert found | IN_WORDS.get(name, set())


@pytest.mark.parametrize("name", [name for name in FAULTS if name in IN_WORDS])
def test_what_is_folded_differs_from_the_state(name):
    """The page's text shows each fault of the words."""
    read = list(READ)
    FAULTS[name][0](read)

    assert Folded(read).messages != {"a": SAID}


class TestGaps:
    def test_a_gap_with_its_state_stands_for_what_it_covers(self):
        """What is in a gap isn't missing, unless no event may be."""
        read = [*READ[:5], Told(4, "gap", GAP), Told(5, "values", STATE), READ[6]]

        assert not faults_of(read).total()
        assert faults_of(read, may_miss=False)["needless"] == 1
        assert Folded(read).messages == {"a": SAID}

    def test_chunks_that_a_gap_covers_are_as_its_state_has_them(self):
        """The protocol tells it by values without a checkpoint; behind one they cover nothing."""
        word = [Told(1, "custom", {"method": "custom", "params": {"data": {"payload": "a·0é𝄞 "}}})]
        state = {"messages": [{"id": "a", "content": "a·0é𝄞 a·1é𝄞 "}]}
        values = Told(3, "values", {"method": "values", "params": {"data": state}})
        told = [Told(1, "custom", "a·0é𝄞 "), Told(1, "gap", GAP), Told(2, "values", state)]
        behind = [*word, Told(2, "checkpoints", {"method": "checkpoints"}), values]
        folded = [Folded(read).chunks["a"] for read in (told, [*word, values], behind)]

        assert folded == ["a·0é𝄞 a·1é𝄞 "] * 2 + ["a·0é𝄞 "]

    def test_an_end_that_was_not_stored_has_a_gap_before_it(self):
        """A kill may come before the end is stored; a gap of which the end is known is needless."""
        rest = [Told(MADE_END - 1, "values", STATE), Told(MADE_END, "end", {})]
        unknown, known = ({"from": 6, "to": to} for to in (None, MADE_END - 1))

        assert not faults_of([*READ[:6], Told(5, "gap", unknown), *rest], may_miss=False).total()
        assert faults_of([*READ[:6], Told(5, "gap", known), *rest], may_miss=False)["needless"]

    def test_more_than_the_gap_may_not_be_missing(self):
        """An event before a gap, or behind it, is."""
        gap = [Told(4, "gap", GAP), Told(5, "values", STATE)]

        assert faults_of([*READ[:4], *gap, READ[6]])["silent"] == 1
        assert faults_of([*READ[:5], *gap, Told(7, "end", {})])["silent"] == 1

    def test_a_gap_that_was_cut_off_may_come_again_or_not(self):
        """It counts when its state is there: another server may have the events."""
        gap = [Told(4, "gap", GAP), Again(4)]

        assert not faults_of([*READ[:5], *gap, *gap[:1], Told(5, "values", STATE), READ[6]]).total()
        assert not faults_of([*READ[:5], *gap, *READ[5:]]).total()

    @pytest.mark.parametrize("cut", [[], [Again(5)]], ids=["at once", "after a cut"])
    def test_a_stored_gap_has_a_number_and_a_state(self, cut):
        """It is an event, and the state behind it is owed even after a new connection."""
        gap = Told(5, "gap", {"from": 5, "to": None})
        rest = [Told(6, "values", STATE), Told(7, "end", {})]

        assert not faults_of([*READ[:5], gap, *cut, *rest], may_miss=False).total()
        assert faults_of([*READ[:5], gap, *cut, Told(6, "end", {})])["stateless"] == 1

    def test_an_open_gap_ends_at_its_state(self):
        """Where it is unknown how many are missing, the state's number says where to go on."""
        read = [*READ[:5], Told(4, "gap", {"from": 5, "to": None}), Told(98, "values", STATE)]

        assert not faults_of([*read, Told(99, "end", {})]).total()
        assert faults_of([*read, Told(100, "end", {})])["silent"] == 1


def test_events_before_the_one_with_the_id_come_again():
    """Of the events of one chunk the last one has the id: those before may come again."""
    first = Told(None, "messages/metadata", {"a": {}})
    read = [READ[0], first, Again(1), first, Told(2, "messages/partial", [{"id": "a"}])]

    assert not faults_of(read).total()


def test_messages_that_were_taken_back_are_gone():
    """What an attempt had written that was cut off isn't in the page any more."""
    dropped = Told(None, "messages/dropped", {"ids": ["a"]})
    begun = [{"type": "AIMessageChunk", "id": "b", "content": "run-b·0é𝄞 "}, {}]
    folded = Folded([*READ[:6], dropped, Told(6, "messages", begun)])

    assert folded.messages == {"b": "run-b·0é𝄞 "}
    assert folded.dropped == ["a"]
