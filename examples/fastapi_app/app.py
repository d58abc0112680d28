"""A chat behind FastAPI with Ebbtide; `plain.py` is the same with plain `create_agent`."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import Body, Depends, FastAPI, Header, HTTPException, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, messages_to_dict
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.types import Command
from psycopg_pool import AsyncConnectionPool

from ebbtide import EbbtideMiddleware, SqlArchive, adelete_user, atranscript
from ebbtide.graph.models import choose_model

URL = os.environ["DATABASE_URL"]  # postgresql://user@host/name
ARCHIVE = URL.replace("postgresql://", "postgresql+psycopg://", 1)


def refund(order: str) -> str:
    """Pay an order back."""
    return f"Order {order} was paid back."


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Make the agent when the server starts; a person decides about each refund."""
    async with AsyncConnectionPool[Any](URL, kwargs={"autocommit": True}) as pool:
        saver, model = AsyncPostgresSaver(pool), choose_model(None, os.environ)
        await saver.setup()
        memory = EbbtideMiddleware(archive=SqlArchive(ARCHIVE))
        layers = [memory, HumanInTheLoopMiddleware({"refund": True})]
        app.state.agent = create_agent(model, [refund], middleware=layers, checkpointer=saver)
        yield


app = FastAPI(lifespan=lifespan)
User = Annotated[str, Header(alias="x-user", min_length=1)]  # in place of your authentication


def thread_of(thread: str, user: User) -> RunnableConfig:
    """Return the config of a user's thread. Two users may have threads of the same name."""
    return {"configurable": {"thread_id": f"{user}/{thread}", "user_id": user}}


Thread = Annotated[RunnableConfig, Depends(thread_of)]
Said = Annotated[str, Body(min_length=1)]
Decision = Annotated[Literal["approve", "reject"], Body()]
Before = Annotated[int | None, Query(ge=1)]


@app.post("/{thread}", response_class=EventSourceResponse)
async def run(config: Thread, said: Said = "", decision: Decision = "reject") -> AsyncIterator[Any]:
    """Stream the answer to a message, or the rest of a turn after a decision."""
    new: Any = {"messages": said} if said else Command(resume={"decisions": [{"type": decision}]})
    async for mode, it in app.state.agent.astream(new, config, stream_mode=["messages", "updates"]):
        if mode == "updates" and "__interrupt__" in it:
            yield ServerSentEvent(event="approval", data=it["__interrupt__"][0].value)
        elif mode == "messages" and isinstance(it[0], AIMessage) and it[0].text:
            yield ServerSentEvent(event="text", data=it[0].text)


@app.get("/{thread}")
async def read(config: Thread, before: Before = None) -> list[dict[str, Any]]:
    """Return the last turns of the conversation, or those before a turn."""
    if not (page := (await atranscript(app.state.agent, config, limit=20, before=before))[0]):
        raise HTTPException(404)
    return messages_to_dict(page)


@app.delete("/")
async def forget(user: User) -> None:
    """Delete all data of the user."""
    await adelete_user(app.state.agent, user)
