"""What a client read from an event stream, over all of its connections, judged by pure functions.

A reading is a list of `Told` and of `Again`, the marks of new connections. `faults_of` judges its
numbers: each event once, in order, none missing without a gap. `faults_in_words` judges what the
events say, which nothing between the node and the client could have renumbered. `Folded` is what
a page makes of messages.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from actorgraph.rules.system.gaps import MADE_END

WORD = re.compile(r"([\w-]+)·(\d+)é𝄞 ")
"""A word of `tests.web.token_app`: the name, with what has said it, and its number."""


class Told(NamedTuple):
    """One event; without an id where it had none."""

    id: int | None
    name: str
    data: Any


class Again(NamedTuple):
    """A new connection; the client said that it has the events up to an id."""

    after: int


Reading = Sequence[Told | Again]


class Numbers:
    """Numbers that are to come one by one, each once.

    Attributes:
        following: the next one.
        found: how many of which fault: "silent" (left out), "twice", "disordered".
    """

    def __init__(self, first: int) -> None:
        self.following = first
        self.found: Counter[str] = Counter()
        self._left_out: list[range] = []  # a gap may be of more numbers than a set can hold
        self._late: set[int] = set()

    def take(self, number: int) -> None:
        """Take the next number that came."""
        if number not in self._late and any(number in one for one in self._left_out):
            self._late.add(number)  # it came after a later one
            self.found += Counter(disordered=1)
            self.found -= Counter(silent=1)
        elif number < self.following:
            self.found += Counter(twice=1)
        else:
            self.skip_to(number)
            self.following = number + 1

    def end_gap(self, end: int | None, number: int | None) -> None:
        """Go on behind a gap: after its end, or if that is unknown, after the state's number."""
        if end is not None:
            self.following = max(self.following, end + 1)
        elif number is not None:
            self.following = number + 1

    def skip_to(self, number: int) -> None:
        """Note that those below a number were left out."""
        if number > self.following:
            self.found += Counter(silent=number - self.following)
            self._left_out.append(range(self.following, number))
            self.following = number


def faults_of(read: Reading, *, may_miss: bool = True) -> Counter[str]:
    """Return the faults in the ids of a reading; none, where a client knows of all it didn't get.

    "silent": ids that are neither those of events nor in a gap. "twice": events that had been
    received before. "disordered": events that came after later ones. "stateless": gaps without the
    state behind them. "needless": gaps over what was received. "behind": connections after an
    event that isn't the last one.

    Args:
        may_miss: whether events may be lost; else each gap of some is needless, but for that of an
            end that a kill left unstored.
    """
    has_made_end = any((one.id or 0) >= MADE_END for one in read if isinstance(one, Told))
    ids, owes, gap = Numbers(1), False, None
    found: Counter[str] = Counter(stateless=0, needless=0, behind=0)
    for one in read:
        if isinstance(one, Again):
            found["behind"] += one.after != ids.following - 1
            owes, gap = owes and gap is None, None  # a gap is told again, if there still is one
            continue
        number, name, data = one
        found["stateless"] += owes and name not in ("values", "gap")
        if name == "values" and owes and gap is not None:
            ids.end_gap(gap["to"], number)
            owes, gap = False, None
        elif name == "gap" and not _is_stored(one):
            ids.skip_to(data["from"] or 0)
            owes, gap = True, data
            end = data["to"]
            missed = may_miss or (end is None and has_made_end)
            found["needless"] += not missed or (end is not None and end < ids.following)
        else:
            owes, gap = name == "gap", None
            if number is not None:
                ids.take(number)
    return found + ids.found


def _is_stored(gap: Told) -> bool:
    """Whether a gap is an event of the run: how many are missing behind a kill is unknown."""
    return gap.data["to"] is None and gap.data["from"] == gap.id


def faults_in_words(read: Reading, run: str) -> Counter[str]:
    """Return the faults in the words of a reading, "foreign" ones of other runs among them.

    Args:
        run: the name of the words.
    """
    found: Counter[str] = Counter()
    said: dict[tuple[str, str], Numbers] = defaultdict(lambda: Numbers(0))
    for one in settled(read):
        for name, number in words(one) if is_piece(one) else ():
            if name.startswith(f"{run}-"):
                said[one.name, name].take(int(number))
            else:
                found["foreign"] += 1
    return sum((one.found for one in said.values()), found)


def words(one: Told) -> list[tuple[str, str]]:
    """The words in an event: names and numbers."""
    return WORD.findall(json.dumps(one.data, ensure_ascii=False))


def is_piece(one: Told) -> bool:
    """Whether an event is a piece of what a run says, and no state or message that has all."""
    if one.name == "messages" and isinstance(one.data, dict) and "method" in one.data:
        return one.data["params"]["data"]["event"] == "content-block-delta"
    if one.name == "messages" and isinstance(one.data, list):
        return one.data[0]["type"].endswith("Chunk")
    return one.name in ("custom", "messages")


def settled(read: Reading) -> list[Told]:
    """The events of a reading, without those that come again.

    Of several events that one chunk becomes the last one has the chunk's id. A client that comes
    back before it gets all of them again, and forgets them.
    """
    kept: list[Told] = []
    for one in read:
        if isinstance(one, Told):
            kept.append(one)
            continue
        while kept and kept[-1].id is None:
            kept.pop()
    return kept


class Folded:
    """What a page makes of a reading.

    Attributes:
        messages: their texts, by id.
        chunks: the custom chunks of each that said some, joined, by the id of its message; those
            before a gap that the state behind it has whole are as there.
        dropped: the ids of messages that were taken back.
        open: the ids of messages in blocks that were begun, and neither ended nor broken off.
    """

    def __init__(self, read: Reading) -> None:
        self.messages: dict[str, str] = {}
        self.chunks: defaultdict[str, str] = defaultdict(str)
        self.dropped: list[str] = []
        self.open: set[str] = set()
        self._whole: set[str] = set()
        self._known: set[str] = set()
        self._current = ""
        self._owed = False
        before = ""
        for one in settled(read):
            # The protocol tells a gap by values alone; others come behind their checkpoint.
            if one.name == "values" and "method" in one.data and before != "checkpoints":
                self._learn(one.data["params"]["data"])
            self._take(one.name, one.data)
            before = one.name

    def _take(self, name: str, data: Any) -> None:
        match name:
            case "messages" if isinstance(data, dict) and "method" in data:
                self._take_block(data["params"]["data"])
            case "messages" if isinstance(data, list):
                self._begin(data[0])
            case "messages":
                self._more(data)
            case "messages/partial" | "messages/complete":
                self.messages |= {one["id"]: one["content"] for one in data}
            case "messages/dropped":
                self._drop(data["ids"])
            case "custom":
                text = data if isinstance(data, str) else data["params"]["data"]["payload"]
                if (said := text.partition("·")[0]) not in self._known:
                    self.chunks[said] += text
            case "gap":
                self._owed = True
            case "values" if self._owed:
                self.messages = {one["id"]: one["content"] for one in data.get("messages", ())}
                self._whole = set(self.messages)
                self._learn(data)
                self._owed = False
            case _:
                pass

    def _learn(self, state: dict[str, Any]) -> None:
        """Take what a state behind a gap has for what its messages' tasks said in chunks."""
        texts = {one["id"]: one["content"] for one in state.get("messages", ())}
        self.chunks.update(texts)
        self._known |= texts.keys()

    def _begin(self, message: dict[str, Any]) -> None:
        self._current = message["id"]
        if not message["type"].endswith("Chunk"):
            self.messages[message["id"]] = message["content"]
            self._whole.add(message["id"])
        else:
            self._more(message)

    def _more(self, data: dict[str, Any]) -> None:
        self._current = data.get("id", self._current)
        if self._current not in self._whole:
            self.messages[self._current] = self.messages.get(self._current, "") + data["content"]

    def _drop(self, ids: Sequence[str]) -> None:
        self.dropped += ids
        for identifier in ids:
            self.messages.pop(identifier, None)

    def _take_block(self, data: dict[str, Any]) -> None:
        match data["event"]:
            case "message-start":
                self.messages[data["id"]] = ""
                self.open.add(data["id"])
            case "content-block-delta":
                self.messages[data["id"]] += data["delta"]["text"]
            case "message-finish":
                self.open.discard(data["id"])
            case "error":
                self.open.discard(data["id"])
                self._drop([data["id"]])
            case _:
                pass
