"""Answers to judge: the real answerer over a scratch index, both as processes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from eval_index import Servers
from eval_sets import Question

from cairn_local.ports import free_port
from cairn_local.programs import python_module
from cairn_shared.api.ask import AskResponse

READY_SECONDS = 60.0


@contextmanager
def answerer(servers: Servers, dsn: str, logs: Path) -> Iterator[str]:
    """The address of an answerer whose retriever searches `dsn`; both end with the block."""
    retriever_port, port = free_port(), free_port()
    common = {"PG_DSN": dsn, "EMBEDDER_URL": servers.embedder, "HOST": "127.0.0.1"}
    with ExitStack() as stack:
        stack.enter_context(_process("cairn_retriever", retriever_port, common, logs))
        address = f"http://127.0.0.1:{retriever_port}"
        more = {"RETRIEVER_URL": address, "REDIS_URL": f"{servers.tests.redis()}/1"}
        stack.enter_context(_process("cairn_answerer", port, common | more, logs))
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _process(module: str, port: int, environment: dict[str, str], logs: Path) -> Iterator[None]:
    with (logs / f"{module}.log").open("wb") as log:
        process = subprocess.Popen(
            [*python_module(module)],
            env={**os.environ, **environment, "PORT": str(port)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait(process, f"http://127.0.0.1:{port}/health/ready", module)
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], address: str, module: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{module} ended while starting: see its log")
        try:
            if httpx.get(address, timeout=2, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"{module} was not ready within {READY_SECONDS:.0f} s")


def answers(address: str, questions: Sequence[Question]) -> list[AskResponse]:
    """What the answerer says to each."""
    with httpx.Client(base_url=address, timeout=120, trust_env=False) as client:
        found = []
        for question in questions:
            response = client.post("/ask", json={"question": question.text})
            response.raise_for_status()
            found.append(AskResponse.model_validate_json(response.content))
    return found
