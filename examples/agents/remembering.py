"""Long-term memory: what a user said in one thread answers a question in another.

    python examples/agents/remembering.py

Notes are in a store, under the user's name, with vectors of their words; before the model is asked,
the notes nearest to the question are put into its prompt. A real program passes the embedding
function of its model. Offline, or with the model of OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4
from zlib import crc32

import anyio
from fake_model import chat_model

from actorgraph import START, MessagesState, Runtime, SqliteSaver, StateGraph
from actorgraph.messages import SystemMessage
from actorgraph.prebuilt import ChatCompletions
from actorgraph.stores import IndexConfig, SqliteStore


async def embed(texts: list[str]) -> list[list[float]]:
    """Make vectors of words: 64 counts, each word at a place of its own."""
    vectors = [[0.0] * 64 for _ in texts]
    for text, vector in zip(texts, vectors, strict=True):
        for word in re.findall(r"\w{4,}", text.lower()):
            vector[crc32(word[:5].encode()) % 64] += 1
    return vectors


def rule(messages: list[dict[str, Any]]) -> Any:
    """Play a model that knows only what its prompt says."""
    notes = messages[0]["content"].partition("\n")[2]
    asks = messages[-1]["content"].endswith("?")
    return (f"You said: {notes}" if notes else "I don't know.") if asks else "I'll remember that."


def builder_for(model: ChatCompletions) -> StateGraph:
    """Build the graph: recall, answer, and keep the statements."""

    async def answer(state: MessagesState, runtime: Runtime) -> dict[str, Any]:
        said, store = state["messages"][-1].text, runtime.store
        notes = ("notes", runtime.context["user"])
        found = await store.asearch(notes, query=said, limit=1)
        known = "\n".join(item.value["text"] for item in found if (item.score or 0) > 0.2)
        prompt = SystemMessage(f"Answer from these notes:\n{known}")
        reply = await model.ainvoke([prompt, *state["messages"]])
        if not said.endswith("?"):
            await store.aput(notes, str(uuid4()), {"text": said})
        return {"messages": [reply]}

    return StateGraph(MessagesState, context_schema=dict).add_node(answer).add_edge(START, "answer")


async def main() -> list[str]:
    """Two users say something; each asks about it in a new thread."""
    answers: list[str] = []
    talk = [
        ("ann", "My favourite colour is green."),
        ("ann", "My train leaves at nine."),
        ("bob", "My favourite colour is red."),
        ("ann", "What is my favourite colour?"),
        ("bob", "When does my train leave?"),
    ]
    index: IndexConfig = {"dims": 64, "embed": embed, "fields": ["text"]}
    with TemporaryDirectory() as folder, chat_model(rule) as model:
        path = Path(folder)
        async with (
            SqliteStore(path / "notes.db", index=index) as store,
            SqliteSaver(path / "runs.db") as saver,
        ):
            graph = builder_for(model).compile(checkpointer=saver, store=store)
            for number, (user, text) in enumerate(talk):
                config = {"configurable": {"thread_id": f"{user}-{number}"}}
                given = {"messages": [("user", text)]}
                state = await graph.ainvoke(given, config, context={"user": user})
                answers.append(state["messages"][-1].content)
                print(f"{user}: {text}\n  {answers[-1]}")
    return answers


if __name__ == "__main__":
    anyio.run(main)
