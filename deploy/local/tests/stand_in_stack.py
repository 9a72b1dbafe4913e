"""Run by test_supervisor.py: the real supervisor over two small HTTP servers instead of the stack.

`base` is needed by `front`; `front` has a child of its own. BROKEN=1 adds a process that cannot start, STUCK=1
one whose topics never get created.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from cairn_local import probes
from cairn_local.home import Home, find
from cairn_local.keeper import Unit
from cairn_local.plan import Plan
from cairn_local.programs import Program, Server
from cairn_local.settings import StackSettings
from cairn_local.supervisor import supervise
from cairn_shared import logging

SERVER = """
import http.server, os, subprocess, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'{}')
    def log_message(self, *args): pass
if os.environ.get('WITH_CHILD'):
    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
print('serving', flush=True)
http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()
"""


def unit(name: str, port: int, env: Mapping[str, str] | None = None, needs: tuple[str, ...] = ()) -> Unit:
    address = f"http://127.0.0.1:{port}"
    program = Program(name, (sys.executable, "-c", SERVER), env={"PORT": str(port), **(env or {})}, grace=5.0)
    return Unit(Server(program, lambda: probes.http(f"{address}/health/ready"), address), needs=needs)


def build(
    settings: StackSettings,
    home: Home,
    ports: Mapping[str, int],
    secrets: Mapping[str, str],
    environ: Mapping[str, str],
) -> Plan:
    units = [
        unit("front", ports["gateway"], {"WITH_CHILD": "1"}, needs=("base",)),
        unit("base", ports["postgres"]),
    ]
    if environ.get("BROKEN"):
        script = "print('the disk is on fire', flush=True); raise SystemExit(2)"
        broken = Program("broken", (sys.executable, "-c", script))
        units.append(Unit(Server(broken, lambda: probes.port("http://127.0.0.1:1"), "http://127.0.0.1:1")))
    if environ.get("STUCK"):
        stuck = unit("stuck", ports["mongo"])
        units.append(Unit(stuck.server, when_ready=lambda: time.sleep(600)))
    return Plan(tuple(units), f"http://127.0.0.1:{ports['gateway']}", "none")


if __name__ == "__main__":
    logging.configure("cairn-local")
    sys.exit(supervise(find(), StackSettings(), build=build))
