from __future__ import annotations

import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from google.protobuf.json_format import MessageToJson
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


def batch_of_three() -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    of_resource = request.resource_logs.add()
    one = of_resource.resource.attributes.add(key="service.name")
    one.value.string_value = "api"
    records = of_resource.scope_logs.add().log_records
    for text in ("the first", "BROKEN one", "the third"):
        records.add(severity_number=17).body.string_value = text
    return request


def test_a_record_with_invalid_utf_8_costs_only_itself() -> None:
    body = batch_of_three().SerializeToString().replace(b"BROKEN", b"BR\xff\xfeEN")
    found = otlp.read_export(body, otlp.PROTOBUF)
    assert [(one.text, one.service, one.severity) for one in found.records] == [
        ("the first", "api", "error"),
        ("the third", "api", "error"),
    ]
    assert found.rejected == 1
    said = ExportLogsServiceResponse.FromString(otlp.answer(found.rejected, otlp.PROTOBUF)).partial_success
    assert said.rejected_log_records == 1


@pytest.mark.parametrize("bad", [b"\\ud800", b"\xff\xfe"])
def test_a_json_record_with_half_a_character_costs_only_itself(bad: bytes) -> None:
    body = MessageToJson(batch_of_three(), indent=None).encode().replace(b"BROKEN", bad)
    found = otlp.read_export(body, otlp.JSON)
    assert [(one.text, one.service) for one in found.records] == [("the first", "api"), ("the third", "api")]
    assert found.rejected == 1


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"\xff\xff\xff", otlp.PROTOBUF),
        (b'{"resourceLogs": 3}', otlp.JSON),
        (b'{"resourceLogs": [3]}', otlp.JSON),
        (b'{"resourceLogs": [{"scopeLogs": [{"logRecords": {}}]}]}', otlp.JSON),
        (b'{"resourceLogs": [', otlp.JSON),
    ],
)
def test_what_is_no_export_at_all_is_refused(body: bytes, kind: str) -> None:
    with pytest.raises(Malformed):
        otlp.read_export(body, kind)
