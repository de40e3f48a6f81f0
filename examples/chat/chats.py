"""The conversations: threads of an ActorSystem, whose ids begin with their users' names."""

from pathlib import Path
from typing import Any
from uuid import uuid4

from actorgraph import ActorSystem, CompiledStateGraph, SqliteSaver
from actorgraph.messages import BaseMessage, HumanMessage
from chat.graph import make_graph

CHATS_MAX = 50


class Chats:
    """The conversations of the users, and their runs."""

    def __init__(self, database: Path, *, word_s: float, resumable: bool) -> None:
        saver = SqliteSaver(str(database))
        self.graph: CompiledStateGraph[Any] = make_graph(word_s).compile(checkpointer=saver)
        # Seconds until the runs of a killed server go on, in another one or in the next one.
        self.system = ActorSystem({"chat": self.graph}, saver=saver, lease_s=5, drain_timeout_s=10)
        self._resumable = resumable

    async def start(self, chat_id: str, text: str) -> dict[str, str]:
        """Start a run that answers a message; an answer that is being written goes first."""
        message = HumanMessage(text, id=str(uuid4()))
        run = await self.system.start(
            "chat",
            chat_id,
            {"messages": [message]},
            stream_mode=["messages"],
            resumable=self._resumable,
            if_busy="enqueue",
        )
        return {"run": run.id, "message": message.id or ""}

    async def answer(self, chat_id: str, answers: dict[str, Any]) -> dict[str, str]:
        """Start a run that goes on with a person's answers; wrong ones are refused before."""
        run = await self.system.resume(
            "chat",
            chat_id,
            answers=answers,
            stream_mode=["messages"],
            resumable=self._resumable,
        )
        return {"run": run.id}

    async def show(self, chat_id: str) -> dict[str, Any]:
        """Return what is stored of a conversation, and its open run."""
        open_runs = await self.system.runs(chat_id, statuses=["pending", "running"])
        state = await self.graph.aget_state(chat_id)
        asked = state.interrupts if state and not open_runs else ()
        return {
            "messages": [shown(one) for one in messages_of(state)],
            "questions": [
                {"id": one.id, "text": str(one.value), "schema": one.response_schema}
                for one in asked
            ],
            "run": open_runs[0].id if open_runs else None,
        }

    async def list_of(self, user: str) -> list[dict[str, str]]:
        """Return the newest conversations of a user."""
        found = await self.system.threads(prefix=f"{user}-", limit=CHATS_MAX)
        return [
            {"id": one.thread_id, "title": await self._title(one.thread_id), "phase": one.phase}
            for one in found
        ]

    async def _title(self, chat_id: str) -> str:
        messages = messages_of(await self.graph.aget_state(chat_id))
        return messages[0].text[:80] if messages else "New conversation"


def messages_of(state: Any) -> list[BaseMessage]:
    """Return the messages of a thread's state, if it has one."""
    return state.values.get("messages", []) if state else []


def shown(message: BaseMessage) -> dict[str, str | None]:
    """Return a message as the page needs it."""
    return {"id": message.id, "type": message.type, "content": message.text}
