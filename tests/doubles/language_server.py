"""A small language server that behaves as it is told on its command line; the standard library alone.

Run as a program: `python language_server.py MODE`. Well-behaved modes publish one error for
each line that holds the word "bad".
"""

import json
import os
import sys
import time
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else "publish"


def read() -> dict[str, Any] | None:
    size = 0
    while (line := sys.stdin.buffer.readline()).strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            size = int(value)
    if not line:
        return None
    return dict(json.loads(sys.stdin.buffer.read(size)))


def write(message: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)


def raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def error_in(number: int) -> dict[str, Any]:
    place = {"line": number, "character": 0}
    return {
        "range": {"start": place, "end": {"line": number, "character": 3}},
        "severity": 1,
        "source": "double",
        "message": f"line {number + 1} is bad",
    }


def errors(text: str) -> list[dict[str, Any]]:
    return [error_in(n) for n, line in enumerate(text.split("\n")) if "bad" in line]


def capabilities() -> dict[str, Any]:
    capabilities: dict[str, Any] = {
        "textDocumentSync": {"openClose": True, "change": 1, "save": True}
    }
    if MODE == "pull":
        capabilities["diagnosticProvider"] = {
            "interFileDependencies": False,
            "workspaceDiagnostics": False,
        }
    if MODE in {"lies", "evil-edits"}:
        capabilities |= {
            "referencesProvider": True,
            "renameProvider": True,
            "definitionProvider": {},
        }
    if MODE == "lies":
        capabilities["documentSymbolProvider"] = True
    return capabilities


LIES: dict[str, Any] = {
    "textDocument/references": [{"uri": 5, "range": "here"}],
    "textDocument/definition": "nowhere",
    "textDocument/documentSymbol": [{"name": 1}],
    "textDocument/rename": {"changes": [1, 2, 3]},
}


def edit(start: int, end: int, text: str) -> dict[str, Any]:
    span = {"start": {"line": 0, "character": start}, "end": {"line": 0, "character": end}}
    return {"range": span, "newText": text}


def evil_edits(params: dict[str, Any]) -> dict[str, Any]:
    new, uri = params["newName"], params["textDocument"]["uri"]
    match new:
        case "outside":
            return {"changes": {"file:///etc/hostname": [edit(0, 1, new)]}}
        case "overlap":
            return {"changes": {uri: [edit(0, 5, new), edit(3, 8, new)]}}
        case "delete_files":
            return {"documentChanges": [{"kind": "delete", "uri": uri}]}
    return {"changes": {uri: [edit(0, 5, new)]}}


def answer(method: str, params: Any) -> Any:
    if MODE == "lies" and method in LIES:
        return LIES[method]
    if method == "textDocument/rename":
        return evil_edits(params)
    if method == "textDocument/diagnostic":
        text = texts.get(params["textDocument"]["uri"], "")
        return {"kind": "full", "items": errors(text)}
    return None


def before_the_first_word() -> None:
    match MODE:
        case "crash":
            sys.exit(3)
        case "garbage":
            raw(b"Welcome to my language server!\n" * 1000)
        case "huge-header":
            raw(b"X-Filler: " + b"x" * 1_000_000)
        case "huge-body":
            raw(b"Content-Length: 999999999999\r\n\r\n")
        case "negative-length":
            raw(b"Content-Length: -5\r\n\r\n")
        case "bad-json":
            raw(b"Content-Length: 9\r\n\r\n{not json")
        case "deaf":
            time.sleep(3600)
        case "child":
            if os.fork() == 0:
                os.setsid()
                time.sleep(3600)


texts: dict[str, str] = {}


def publish(uri: str, version: int | None) -> None:
    if MODE == "lies":
        raw_items: Any = [error_in(0), {"range": 1}, 7, {"message": "no range"}]
        write(notification(uri, raw_items, "one"))
    elif MODE == "many":
        write(notification(uri, [error_in(n) for n in range(5000)], version))
    elif MODE in {"publish", "child", "no-version", "evil-edits"}:
        write(notification(uri, errors(texts[uri]), None if MODE == "no-version" else version))


def notification(uri: str, items: Any, version: Any) -> dict[str, Any]:
    params = {"uri": uri, "diagnostics": items}
    if version is not None:
        params["version"] = version
    return {"method": "textDocument/publishDiagnostics", "params": params}


def main() -> None:
    before_the_first_word()
    while (message := read()) is not None:
        method, params = message.get("method", ""), message.get("params") or {}
        if method == "initialize":
            if MODE == "hang":
                time.sleep(3600)
            if MODE == "tells-secrets":
                error = f"the token {os.environ['SECRET_TOKEN']} is wrong"
                write({"id": message["id"], "error": {"code": 1, "message": error}})
                continue
            write({"id": message["id"], "result": {"capabilities": capabilities()}})
        elif method == "exit":
            return
        elif method in {"textDocument/didOpen", "textDocument/didChange"}:
            document = params["textDocument"]
            changes = params.get("contentChanges")
            texts[document["uri"]] = changes[0]["text"] if changes else document["text"]
            if MODE == "crash-on-open":
                os.abort()
            if MODE == "crash-on-bad" and "bad" in texts[document["uri"]]:
                sys.exit(4)
            publish(document["uri"], document["version"])
        elif "id" in message and method and MODE != "silent":
            write({"id": message["id"], "result": answer(method, params)})


if __name__ == "__main__":
    main()
