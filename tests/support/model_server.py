"""A model server for tests of whole processes: it answers well, slowly, with errors, or not at all, and counts."""

from __future__ import annotations

import json
import re
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Server(ThreadingHTTPServer):
    request_queue_size = 128


class ModelServer:
    """An OpenAI-compatible model that chooses the first three runbook steps it is shown.

    `delay` seconds pass before it answers; with another `status` it refuses. `times`: when it was called (monotonic).
    """

    def __init__(self) -> None:
        outer = self
        self.delay = 0.0
        self.status = 200
        self.times: list[float] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.times.append(time.monotonic())
                time.sleep(outer.delay)
                if outer.status != 200:
                    self._send(outer.status, "application/json", b'{"error": {"message": "out of order"}}')
                    return
                answer = json.dumps(quote(body["messages"][-1]["content"]))
                if body.get("stream"):
                    chunks = [{"choices": [{"index": 0, "delta": {"content": answer}, "finish_reason": "stop"}]}]
                    payload = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
                    self._send(200, "text/event-stream", payload + b"data: [DONE]\n\n")
                else:
                    message = {"role": "assistant", "content": answer}
                    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
                    self._send(200, "application/json", json.dumps(whole).encode())

            def _send(self, status: int, kind: str, payload: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def handle(self) -> None:
                with suppress(ConnectionError):  # the client died or lost patience: some tests are about that
                    super().handle()

            def log_message(self, *_: Any) -> None:
                pass

        self._handler = Handler
        self._port = 0
        self._server: _Server | None = None
        self.start()
        self.url = f"http://127.0.0.1:{self._port}/v1"

    @property
    def calls(self) -> int:
        """How often it was called."""
        return len(self.times)

    def start(self) -> None:
        """Listen, where it did before; nothing when it does."""
        if self._server is not None:
            return
        self._server = _Server(("127.0.0.1", self._port), self._handler)
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def stop(self) -> None:
        """Listen no more: whoever calls is refused."""
        if self._server is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = None


def quote(prompt: str) -> dict[str, Any]:
    """A plan of the first steps, whole."""
    blocks = re.findall(r'<<excerpt id="(\w+)" kind="runbook"[^\n]*>>\n(.*?)\n<<end of', prompt, re.DOTALL)[:3]
    numbers = {key: [int(number) for number in re.findall(r"^\[(\d+)\] ", text, re.MULTILINE)] for key, text in blocks}
    items = [{"step": key, "units": units, "lead": ""} for key, units in numbers.items()]
    return {"answerable": bool(items), "lead": "", "items": items}
