from __future__ import annotations

import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse

from cairn_gateway.sources.errors import Malformed
from cairn_gateway.sources.logs import otlp
from cairn_shared.errors import InvalidInput


@dataclass
class Collector:
    """A server that keeps what the exporter sends."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    types: list[str] = field(default_factory=list)


@pytest.fixture
def collector() -> Iterator[Collector]:
    seen = Collector()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            seen.bodies.append(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            seen.types.append(self.headers["content-type"])
            self.send_response(200)
            self.send_header("content-type", otlp.PROTOBUF)
            self.end_headers()
            self.wfile.write(otlp.answer(0, otlp.PROTOBUF))

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    seen.url = f"http://127.0.0.1:{server.server_port}/v1/logs"
    yield seen
    server.shutdown()
    server.server_close()
    thread.join()


def test_what_opentelemetrys_exporter_sends_is_read(collector: Collector) -> None:
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
    from opentelemetry.sdk.resources import Resource

    provider = LoggerProvider(Resource.create({"service.name": "checkout", "host.name": "h1"}))
    provider.add_log_record_processor(
        SimpleLogRecordProcessor(OTLPLogExporter(endpoint=collector.url, compression=Compression.Gzip))
    )
    logger = provider.get_logger("test")
    from opentelemetry._logs import LogRecord, SeverityNumber

    logger.emit(
        LogRecord(
            timestamp=1772697600123456789,
            severity_number=SeverityNumber.ERROR2,
            body="pool of 20 is empty",
            attributes={},
        )
    )
    provider.shutdown()
    assert otlp.media_type(collector.types[0]) == otlp.PROTOBUF
    record = otlp.read_export(collector.bodies[0], otlp.PROTOBUF).records[0]
    assert (record.text, record.service, record.severity, record.host) == (
        "pool of 20 is empty",
        "checkout",
        "error",
        "h1",
    )
    assert record.at is not None
    assert record.at.isoformat() == "2026-03-05T08:00:00.123456+00:00"


def test_the_json_encoding_with_hexadecimal_ids_is_read() -> None:
    body = {
        "resourceLogs": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "checkout"}}]},
                "scopeLogs": [
                    {
                        "scope": {"name": "s"},
                        "logRecords": [
                            {
                                "timeUnixNano": "1772697600000000000",
                                "severityNumber": 17,
                                "severityText": "ERROR",
                                "traceId": "5b8efff798038103d269b633813fc60c",
                                "spanId": "eee19b7ec3c1b174",
                                "body": {"stringValue": "boom"},
                                "flags": 1,
                                "somethingNew": True,
                            },
                            {"body": {"kvlistValue": {"values": [{"key": "a", "value": {"intValue": "7"}}]}}},
                            {"severityNumber": 9},
                        ],
                    }
                ],
            }
        ]
    }
    exported = otlp.read_export(json.dumps(body).encode(), otlp.JSON)
    assert [record.text for record in exported.records] == ["boom", "a=7"]
    assert exported.rejected == 1
    assert exported.records[0].service == "checkout"


def test_an_exception_in_the_attributes_is_text() -> None:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add()
    for name, value in (("type", "ValueError"), ("message", "bad"), ("stacktrace", "at a.py")):
        attribute = record.attributes.add()
        attribute.key = f"exception.{name}"
        attribute.value.string_value = value
    assert otlp.read_export(request.SerializeToString(), otlp.PROTOBUF).records[0].text == "ValueError\nbad\nat a.py"


def test_an_event_without_a_body_says_all_in_its_name_and_attributes() -> None:
    attributes = [{"key": "order", "value": {"kvlistValue": {"values": [{"key": "id", "value": {"intValue": "42"}}]}}}]
    records = [{"eventName": "refund.failed", "attributes": attributes}, {"attributes": attributes}, {}]
    request = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    exported = otlp.read_export(json.dumps(request).encode(), otlp.JSON)
    assert ([one.text for one in exported.records], exported.rejected) == (["refund.failed order.id=42"], 2)


@pytest.mark.parametrize(
    ("body", "kind"), [(b"\xff\xff", otlp.PROTOBUF), (b"{", otlp.JSON), (b"[]", otlp.JSON), (b"\xff", otlp.JSON)]
)
def test_what_is_no_export_is_malformed(body: bytes, kind: str) -> None:
    with pytest.raises(Malformed):
        otlp.read_export(body, kind)


def test_other_content_types_are_refused() -> None:
    with pytest.raises(InvalidInput):
        otlp.media_type("text/plain")


def test_answers_are_in_the_encoding_of_the_request() -> None:
    response = ExportLogsServiceResponse.FromString(otlp.answer(3, otlp.PROTOBUF))
    assert response.partial_success.rejected_log_records == 3
    assert ExportLogsServiceResponse.FromString(otlp.answer(0, otlp.PROTOBUF)) == ExportLogsServiceResponse()
    assert json.loads(otlp.answer(3, otlp.JSON))["partialSuccess"]["rejectedLogRecords"] == "3"
    assert Status.FromString(otlp.refusal(3, "no", otlp.PROTOBUF)).message == "no"
