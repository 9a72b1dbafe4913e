"""Further processes of a running stack's services, with settings of a test's own: the state is in the stores."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx
import psutil
from whole_stack import Stack, until

from cairn_local.ports import free_port
from cairn_local.programs import python_module


@dataclass(frozen=True)
class Replica:
    """A process of the test's own."""

    process: subprocess.Popen[bytes]
    url: str


def start(stack: Stack, service: str, cleanup: ExitStack, **settings: str) -> Replica:
    """As the stack starts its own, but for `settings`; ready when this returns, killed by `cleanup`."""
    environment = psutil.Process(stack.state()[service]["pid"]).environ()
    port = free_port()
    process = subprocess.Popen(
        [*python_module(f"cairn_{service}")],
        env=environment | {"PORT": str(port)} | settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    cleanup.callback(_end, process)
    url = f"http://127.0.0.1:{port}"
    until(lambda: httpx.get(f"{url}/health/ready", trust_env=False).status_code == 200, f"a second {service}")
    return Replica(process, url)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(10)


@contextmanager
def without_model(stack: Stack, **settings: str) -> Iterator[str]:
    """The address of a gateway whose answerer has no model configured; both have `settings`."""
    with ExitStack() as cleanup:
        answerer = start(stack, "answerer", cleanup, LLM_BASE_URL="", LLM_API_KEY="", LLM_MODEL="", **settings)
        yield start(stack, "gateway", cleanup, ANSWERER_URL=answerer.url, **settings).url
