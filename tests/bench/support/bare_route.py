"""An empty route of FastAPI on the server that Cairn's processes use: what a request costs at least."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import uvicorn
from fastapi import FastAPI
from whole_stack import until

from cairn_local.ports import free_port

app = FastAPI()


@app.post("/")
async def nothing() -> dict[str, str]:
    """Answers."""
    return {"status": "ok"}


@app.get("/health")
async def health() -> dict[str, str]:
    """The load generator begins with it."""
    return {"status": "ok"}


@contextmanager
def bare_route() -> Iterator[tuple[psutil.Process, str]]:
    """Its process, and its address."""
    port = free_port()
    paths = {"PYTHONPATH": str(Path(__file__).parents[2] / "support")}
    process = subprocess.Popen([sys.executable, __file__, str(port)], env=os.environ | paths)
    url = f"http://127.0.0.1:{port}/"
    try:
        until(lambda: httpx.get(url + "health", trust_env=False).status_code == 200, "the bare route")
        yield psutil.Process(process.pid), url
    finally:
        process.kill()
        process.wait(10)


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_level="warning")
