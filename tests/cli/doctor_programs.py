"""Nodes with mistakes in their source, and right ones, for tests of doctor."""

# ruff: noqa: ASYNC210, ASYNC221, ASYNC230, ASYNC240, ASYNC251, PTH123, S607 - planted mistakes

import asyncio
import sqlite3
import subprocess
import time
from pathlib import Path
from time import sleep as doze
from typing import Annotated, Any, TypedDict

import anyio.lowlevel
import anyio.to_thread
import requests

from actorgraph import Command, interrupt
from actorgraph.channels import UntrackedValue


class Client:
    """Can't be stored."""


class Basket(TypedDict):
    """Has a value that can't be stored."""

    clients: dict[str, Client]


class Cart(TypedDict, total=False):
    """A state with and without values that can be stored."""

    total: int
    items: list[Basket]
    kept_out: Annotated[Client, UntrackedValue]
    anything: Any


def fetch(address):
    return requests.get(address, timeout=1)


async def blocks(state):
    time.sleep(1)
    doze(1)
    import urllib.request as client

    client.urlopen("http://localhost")
    subprocess.run(["true"], check=True)
    database = sqlite3.connect("x.db")
    database.close()
    fetch("http://localhost")
    session = requests.Session()
    session.post("http://localhost")


async def reads(state):
    where = Path("x")
    with open("x") as file:
        return {"total": file.read() + where.read_text()}


async def is_right(state):
    await anyio.lowlevel.checkpoint()
    await anyio.to_thread.run_sync(time.sleep, 0)
    later = lambda: time.sleep(1)  # noqa: E731 - for a thread

    def in_a_thread():
        time.sleep(1)

    await anyio.to_thread.run_sync(in_a_thread)
    await anyio.to_thread.run_sync(later)
    return {"total": 1}


async def on_asyncio(state):
    async with asyncio.timeout(1):
        await asyncio.sleep(0)


def misspells(state):
    if state:
        return Command(update={"totl": 1})
    return {"total": 1, "sum": 2}


def asks(state):
    return {"total": interrupt("how many?")}
