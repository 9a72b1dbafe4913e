"""Apache Kafka in KRaft mode from an unpacked distribution (KAFKA_HOME), its log durable in the data folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from cairn_local import probes
from cairn_local.home import private_folder
from cairn_local.programs import Program, Server


def server(home: Path, data: Path, port: int, controller_port: int) -> Server:
    """A combined broker and controller on 127.0.0.1. Needs `java` (17 or newer).

    Raises:
        RuntimeError: `home` is no Kafka distribution, or there is no Java.
    """
    for script in ("kafka-server-start.sh", "kafka-storage.sh"):
        if not (home / "bin" / script).is_file():
            raise RuntimeError(f"KAFKA_HOME: there is no bin/{script} in {home}")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise RuntimeError("BROKER=apache needs Java 17 or newer: install a JRE, or leave BROKER unset")
    properties = data / "server.properties"
    environment = {
        "LOG_DIR": str(data / "logs"),  # the scripts of a full distribution write there, else into KAFKA_HOME
        "KAFKA_HEAP_OPTS": os.environ.get("KAFKA_HEAP_OPTS", "-Xms128m -Xmx512m"),
    }

    def prepare() -> None:
        private_folder(data)
        (data / "logs").mkdir(exist_ok=True)
        properties.write_text(_properties(data / "log", port, controller_port))
        if (data / "log" / "meta.properties").exists():
            return
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = [str(home / "bin" / "kafka-storage.sh"), "format", "-t", cluster, "-c", str(properties)]
        command.append("--ignore-formatted")
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode:
            raise RuntimeError(f"kafka-storage.sh format failed: {(done.stderr or done.stdout).strip()[-800:]}")

    return Server(
        program=Program(
            name="kafka",
            argv=(str(home / "bin" / "kafka-server-start.sh"), str(properties)),
            env=environment,
            cwd=data.parent,
        ),
        probe=lambda: probes.kafka(f"127.0.0.1:{port}"),
        address=f"127.0.0.1:{port}",
        prepare=prepare,
        ready_timeout=120.0,
    )


def _properties(log: Path, port: int, controller_port: int) -> str:
    values = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": log,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,  # tests do not wait long for a dead member
        "auto.create.topics.enable": "false",
        "delete.topic.enable": "true",
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())
