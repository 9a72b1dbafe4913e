"""A namespace of a real cluster, by the tools that its user has: kubectl and helm."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CHARTS = ROOT / "deploy" / "kubernetes"
KUBE = ROOT / "tests" / "kube"
NAMESPACE = "cairn-test"


def run(*command: str | Path, text: str | None = None, seconds: float = 900) -> str:
    done = subprocess.run(list(map(str, command)), input=text, text=True, capture_output=True, timeout=seconds)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def until(check: Callable[[], object], what: str, seconds: float) -> float:
    begun = time.monotonic()
    while not check():
        assert time.monotonic() - begun < seconds, f"after {seconds} s still no {what}"
        time.sleep(1)
    return time.monotonic() - begun


class Cluster:
    """What the test does to the namespace."""

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        return run("kubectl", "-n", NAMESPACE, *arguments, text=text)

    def get(self, *arguments: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self.kubectl("get", *arguments, "-o", "json"))["items"]
        return items

    def helm(self, *arguments: str | Path) -> str:
        return run("helm", "-n", NAMESPACE, *arguments)

    def deploy(self, *more: str) -> str:
        production = CHARTS / "cairn" / "values-production.yaml"
        files: list[str | Path] = ["-f", production, "-f", KUBE / "values-small.yaml"]
        return self.helm(
            "upgrade",
            "--install",
            "cairn",
            CHARTS / "cairn",
            *files,
            "--wait",
            "--wait-for-jobs",
            "--timeout",
            "10m",
            *more,
        )

    def inside(self, *arguments: str) -> dict[str, Any]:
        """Run in_cluster.py in its pod."""
        script = (KUBE / "in_cluster.py").read_text()
        said = self.kubectl("exec", "-i", "probe", "--", "python", "-", *arguments, text=script)
        answer: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
        return answer

    def replicas(self, deployment: str) -> int:
        return int(self.kubectl("get", "deployment", deployment, "-o", "jsonpath={.status.readyReplicas}") or 0)
