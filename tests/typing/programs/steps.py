"""Entrypoints, tasks, systems and graphs of other kinds have their types."""

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from actorgraph import (
    ActorSystem,
    Command,
    CompiledStateGraph,
    MemorySaver,
    Runtime,
    SqliteSaver,
    StateGraph,
    entrypoint,
    interrupt,
    task,
)
from actorgraph.functional import TaskFuture
from actorgraph.systems import Run
from actorgraph.types import GraphOutput, StateSnapshot


@dataclass
class Settings:
    language: str


class Doubled(TypedDict):
    number: int
    twice: int


@task
async def double(number: int) -> int:
    return number * 2


@task(name="name", timeout=3)
def name(number: int, *, prefix: str = "n") -> str:
    return f"{prefix}{number}"


@entrypoint(checkpointer=MemorySaver())
async def doubled(number: int) -> Doubled:
    future = double(number)
    assert_type(future, TaskFuture[int])
    assert_type(await future, int)
    assert_type(name(number, prefix="x").result(), str)
    return {"number": number, "twice": await future}


@entrypoint(context_schema=Settings)
def greeted(who: str, runtime: Runtime[Settings]) -> str:
    assert_type(runtime.context.language, str)
    return who


@entrypoint()
def counted(amount: int, *, previous: int | None = None) -> entrypoint.final[str, int]:
    total = amount + (previous or 0)
    return entrypoint.final(value=str(total), save=total)


assert_type(doubled.invoke(3)["twice"], int)
assert_type(doubled.invoke(3, version="v2"), GraphOutput[Doubled])
assert_type(doubled.get_state({"configurable": {"thread_id": "1"}}), StateSnapshot[Doubled])
assert_type(greeted.invoke("Ada", context=Settings("en")), str)
assert_type(counted.invoke(3), str)


@dataclass
class Form:
    name: str = ""
    age: int = 0


def grow(form: Form) -> dict[str, Any]:
    return {"age": form.age + 1}


forms = StateGraph(Form).add_node("grow", grow).set_entry_point("grow").compile()
assert_type(forms.invoke(Form(name="Ada")), dict[str, Any])
assert_type(forms.invoke({"name": "Ada"}, version="v2"), GraphOutput[Form])
assert_type(StateGraph(int).compile().invoke(3), int)


def any_graph(graph: CompiledStateGraph, builder: StateGraph) -> None:
    """Annotations may leave the parameters out."""
    assert_type(graph.invoke({"anything": 1}, context=3), Any)
    builder.add_node("grow", grow).add_node("inner", graph)


any_graph(forms, StateGraph(Form, Settings))
any_graph(greeted, StateGraph[Form, Settings](Form, Settings))


def asked() -> None:
    """A union or a list has no class: annotate the answer."""
    assert_type(interrupt("name?", response_schema=str), str)
    answer: list[str] = interrupt("names?")
    print(answer)


async def system() -> None:
    async with ActorSystem({"forms": forms}, saver=SqliteSaver("runs.db")) as system:
        run = await system.start(
            "forms", "1", {"name": "Ada"}, if_busy="enqueue", durability="sync"
        )
        assert_type(run, Run[Any])
        print(run.status == "success")
        known: Run[Doubled] = await system.start("forms", None, {}, metadata={"by": "me"})
        assert_type(await known.result(), Doubled)
        assert_type(await system.resume("forms", "1", Command(resume=3)), Run[Any])
        assert_type(await system.runs(thread_id="1"), list[Run[Any]])
