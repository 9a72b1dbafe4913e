"""A real Kafka with TLS and SASL, its certificates made here: `KAFKA_HOME=... pytest -m chaos tests/security`."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import socket
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import SecretStr

from cairn_shared.errors import Unavailable
from cairn_shared.kafka.connection import connection
from cairn_shared.kafka.producer import open_producer
from cairn_shared.settings import KafkaSettings

HOME = os.environ.get("KAFKA_HOME", "")
pytestmark = [pytest.mark.chaos, pytest.mark.skipif(not HOME, reason="KAFKA_HOME is not set")]
PASSWORD = "right-password-of-the-broker"


def name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def authority(folder: Path, common: str) -> tuple[ec.EllipticCurvePrivateKey, Path]:
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name(common))
        .issuer_name(name(common))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{common}.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return key, path


def keystore(folder: Path, issuer: ec.EllipticCurvePrivateKey, issuer_name: str) -> Path:
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name("broker"))
        .issuer_name(name(issuer_name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(issuer, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "broker.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path, Path]]:
    """A broker's port, the file of its authority, and that of another authority."""
    folder = tmp_path_factory.mktemp("kafka")
    key, ca = authority(folder, "authority")
    _, other = authority(folder, "another")
    port, controller = free_port(), free_port()
    jaas = "org.apache.kafka.common.security"
    values = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"SASL_SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"SASL_SSL://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "SASL_SSL",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{jaas}.plain.PlainLoginModule required username="cairn" '
        f'password="{PASSWORD}" user_cairn="{PASSWORD}";',
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{jaas}.scram.ScramLoginModule required;",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{jaas}.scram.ScramLoginModule required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": keystore(folder, key, "authority"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ca,
        "log.dirs": folder / "log",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "auto.create.topics.enable": "false",
    }
    properties = folder / "server.properties"
    properties.write_text("".join(f"{one}={value}\n" for one, value in values.items()))
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    environment = {**os.environ, "LOG_DIR": str(folder), "KAFKA_HEAP_OPTS": "-Xms128m -Xmx512m"}
    scram = [f"--add-scram={kind}=[name=cairn,password={PASSWORD}]" for kind in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
    command = [f"{HOME}/bin/kafka-storage.sh", "format", "-t", cluster, "-c", str(properties), *scram]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60)
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            [f"{HOME}/bin/kafka-server-start.sh", str(properties)], env=environment, stdout=out, stderr=out
        )
    try:
        admin = AdminClient({**connection(settings(port, ca)), "log_level": 0})
        for _ in range(30):
            try:
                admin.list_topics(timeout=2)
                break
            except KafkaException:
                assert process.poll() is None, (folder / "out").read_text()[-2000:]
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(timeout=20)
        yield port, ca, other
    finally:
        process.terminate()
        process.wait(30)


def settings(port: int, ca: Path, mechanism: str = "PLAIN", password: str = PASSWORD) -> KafkaSettings:
    return KafkaSettings.model_validate(
        {
            "kafka_bootstrap_servers": f"127.0.0.1:{port}",
            "kafka_delivery_timeout": 6,
            "kafka_security_protocol": "SASL_SSL",
            "kafka_sasl_mechanism": mechanism,
            "kafka_sasl_username": "cairn",
            "kafka_sasl_password": SecretStr(password),
            "kafka_ssl_ca": str(ca),
        }
    )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_records_pass_with_each_mechanism(broker: tuple[int, Path, Path], mechanism: str) -> None:
    port, ca, _ = broker
    async with open_producer(settings(port, ca, mechanism), "t") as producer:
        delivery = await producer.send("t", key=b"k", value=mechanism.encode())
    assert delivery.topic == "t"


@pytest.mark.parametrize("what", ["password", "authority", "plaintext"])
async def test_nothing_passes_to_whom_the_client_or_the_broker_does_not_trust(
    broker: tuple[int, Path, Path], what: str
) -> None:
    port, ca, other = broker
    wrong = {
        "password": settings(port, ca, password="wrong"),
        "authority": settings(port, other),
        "plaintext": KafkaSettings(kafka_bootstrap_servers=f"127.0.0.1:{port}"),
    }[what]
    async with open_producer(wrong.model_copy(update={"kafka_delivery_timeout": 3.0}), "t") as producer:
        with pytest.raises(Unavailable):
            await producer.send("t", key=b"k", value=b"v")
