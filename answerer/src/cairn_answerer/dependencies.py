"""What routes need, by name. The only place that reads `app.state`.

Coroutine functions, for FastAPI hands plain ones to a thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from cairn_answerer.pipeline import Answerer
from cairn_shared.web.arrival import seconds_left


@dataclass(frozen=True)
class State:
    """The long-lived objects of the process."""

    answerer: Answerer
    deadline: float
    keep_alive: float


async def _state(request: Request) -> State:
    state = request.app.state.services
    if not isinstance(state, State):
        raise TypeError("the lifespan has not run")
    return state


async def _answerer(state: Annotated[State, Depends(_state)]) -> Answerer:
    return state.answerer


async def _seconds(request: Request, state: Annotated[State, Depends(_state)]) -> float:
    return seconds_left(request, state.deadline)


async def _keep_alive(state: Annotated[State, Depends(_state)]) -> float:
    return state.keep_alive


Asker = Annotated[Answerer, Depends(_answerer)]
Seconds = Annotated[float, Depends(_seconds)]
KeepAlive = Annotated[float, Depends(_keep_alive)]
