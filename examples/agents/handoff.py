"""Two agents that hand a conversation over to each other by a tool.

    python examples/agents/handoff.py

The front desk answers or hands over to the accountant; the tool returns a Command to the graph
around the agents, which goes to the other one. Offline, or with the model of OPENAI_BASE_URL,
OPENAI_API_KEY and OPENAI_MODEL.
"""

from typing import Annotated, Any

import anyio
from fake_model import chat_model

from actorgraph import START, Command, InMemorySaver, MessagesState, StateGraph
from actorgraph.messages import ToolMessage
from actorgraph.prebuilt import InjectedState, InjectedToolCallId, create_react_agent


def handoff_to(name: str) -> Any:
    """Make the tool that hands over to an agent."""

    def hand_over(
        state: Annotated[MessagesState, InjectedState],
        call_id: Annotated[str, InjectedToolCallId],
    ) -> Command[Any]:
        note = ToolMessage(f"handed over to {name}", name=f"ask_{name}", tool_call_id=call_id)
        messages = [*state["messages"], note]
        return Command(goto=name, graph=Command.PARENT, update={"messages": messages})

    hand_over.__name__ = f"ask_{name}"
    hand_over.__doc__ = f"Hand the conversation over to the {name}."
    return hand_over


def balance(customer: str) -> str:
    """The balance of a customer's account, in euros."""
    return {"ada": "120", "bob": "-7"}.get(customer.lower(), "0")


def rule(messages: list[dict[str, Any]]) -> Any:
    """Play both models: the first message says which agent is asked."""
    is_accountant = "accountant" in messages[0]["content"]
    last = messages[-1]
    if last["role"] == "tool" and not last["content"].startswith("handed over"):
        return f"The balance is {last['content']} euros."
    if is_accountant:
        return [("balance", {"customer": "Ada"})]
    return [("ask_accountant", {})] if "balance" in last["content"] else "Hello! How can I help?"


async def main() -> list[str]:
    """Ask two questions on one thread; returns who said what."""
    with chat_model(rule) as model:
        desk = create_react_agent(
            model, [handoff_to("accountant")], prompt="You are the front desk.", name="desk"
        )
        accountant = create_react_agent(
            model,
            [balance, handoff_to("desk")],
            prompt="You are the accountant.",
            name="accountant",
        )
        builder = StateGraph(MessagesState)
        builder.add_node("desk", desk, destinations=["accountant"])
        builder.add_node("accountant", accountant, destinations=["desk"])
        graph = builder.add_edge(START, "desk").compile(checkpointer=InMemorySaver())

        config = {"configurable": {"thread_id": "1"}}
        for question in ("Good morning", "What is Ada's balance?"):
            state = await graph.ainvoke({"messages": [("user", question)]}, config)
    said = [f"{m.name or m.type}: {m.content}" for m in state["messages"] if m.content]
    print("\n".join(said))
    return said


if __name__ == "__main__":
    anyio.run(main)
