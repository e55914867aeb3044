"""A collector of traces as a process: takes OTLP over HTTP, and gives back the spans as JSON."""

from __future__ import annotations

import gzip
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

spans: list[dict[str, Any]] = []


class Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path != "/v1/traces":
            self._answer(404, b"")
            return
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            of_process = _facts(resource.resource.attributes)
            for scope in resource.scope_spans:
                spans.extend(_shown(span, of_process) for span in scope.spans)
        self._answer(200, b"")

    def do_GET(self) -> None:
        self._answer(200, json.dumps(spans).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _facts(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(each) for each in found.values] if kind == "array_value" else found


def _shown(span: WireSpan, of_process: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": span.name,
        "kind": WireSpan.SpanKind.Name(span.kind),
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "start": span.start_time_unix_nano,
        "end": span.end_time_unix_nano,
        "facts": _facts(span.attributes),
        "status": span.status.code,
        "process": of_process,
    }


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    print(f"listening http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
