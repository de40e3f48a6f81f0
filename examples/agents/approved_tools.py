"""A person approves, changes or refuses a tool call before it runs.

    python examples/agents/approved_tools.py [yes | no | AMOUNT]

The run stops at the question, for seconds or for weeks: the thread is in SQLite, and any process
that opens the file can answer. Without an argument all three answers are played. Offline, or with
the model of OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from fake_model import chat_model

from actorgraph import Command, SqliteSaver, interrupt
from actorgraph.prebuilt import create_react_agent


def transfer(amount: int, to: str) -> str:
    """Transfer money, in euros."""
    answer = interrupt({"question": f"Transfer {amount} euros to {to}?"})
    if answer == "no":
        return "the person refused the transfer"
    if answer != "yes":
        amount = int(answer)
    return f"transferred {amount} euros to {to}"


def rule(messages: list[dict[str, Any]]) -> Any:
    """Play a model that transfers what it is asked to, and reports the result."""
    if messages[-1]["role"] == "tool":
        return f"Done: {messages[-1]['content']}."
    return [("transfer", {"amount": 50, "to": "Ada"})]


async def handle(database: Path, thread_id: str, answer: str) -> str:
    """Run one thread up to its question, and answer it as another process would."""
    config = {"configurable": {"thread_id": thread_id}}
    with chat_model(rule) as model:
        async with SqliteSaver(database) as saver:
            agent = create_react_agent(model, [transfer], checkpointer=saver)
            paused = await agent.ainvoke({"messages": [("user", "Send Ada 50 euros.")]}, config)
            (question,) = paused["__interrupt__"]
            print(f"{question.value['question']} {answer}")
        async with SqliteSaver(database) as saver:
            agent = create_react_agent(model, [transfer], checkpointer=saver)
            ended = await agent.ainvoke(Command(resume=answer), config)
    text = ended["messages"][-1].content
    print(f"  {text}")
    return text


async def main(answers: list[str]) -> list[str]:
    """Play some answers, each on a thread of its own."""
    with TemporaryDirectory() as folder:
        return [await handle(Path(folder) / "runs.db", answer, answer) for answer in answers]


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:] or ["yes", "no", "20"])
