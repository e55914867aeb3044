"""The generated operations and types of the client: current, and right for each form of a schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clients.generator.__main__ import ROOT, digests, python_files, read_schemas
from clients.generator.openapi import operations_of, type_of
from clients.generator.python_operations import operations_module
from clients.generator.python_types import types_module

NOTE = {"$ref": "#/components/schemas/Note"}
OPERATION = "/api/workspaces/{workspace_id}/notes"


def answer(schema: Any, kind: str = "application/json") -> dict[str, Any]:
    return {"200": {"content": {kind: {"schema": schema}}}}


def operation(tag: str, identifier: str, **more: Any) -> dict[str, Any]:
    return {"tags": [tag], "operationId": identifier, "responses": answer(NOTE), **more}


def parameter(name: str, place: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": {"type": "string"}, **more}


def schema(**paths: Any) -> dict[str, Any]:
    components = {
        "Note": {
            "type": "object",
            "description": "A note.",
            "properties": {
                "text": {"type": "string", "description": "Its text."},
                "from": {"type": "string"},
                "id": {"type": "integer", "readOnly": True},
            },
            "required": ["text"],
        },
        "Page": {"properties": {"items": {"type": "array", "items": NOTE}, "next": {}}},
    }
    return {"paths": paths, "components": {"schemas": components}}


def test_the_generated_files_are_current() -> None:
    schemas = read_schemas()
    files = python_files(json.loads(schemas["openapi"]))
    stale = {path for path, text in files.items() if path.read_text() != text}
    # CI generates the TypeScript types again; here their digest shows whether the schema is theirs.
    stale |= {
        path
        for path, line in digests(schemas).items()
        if not path.read_text().startswith(f"{line}\n")
    }
    assert {str(path.relative_to(ROOT)) for path in stale} == set(), (
        "run `python -m clients.generator`"
    )


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({"type": "string"}, "str"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"type": "array", "items": NOTE}, "list[Note]"),
        ({"allOf": [NOTE], "description": "one"}, "Note"),
        ({"oneOf": [NOTE, {"type": "null"}]}, "Note | None"),
        ({"enum": ["a", "b", None]}, "Literal['a', 'b'] | None"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "dict[str, float]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({}, "Any"),
    ],
)
def test_types(shape: dict[str, Any], expected: str) -> None:
    assert type_of(shape) == expected


@pytest.mark.parametrize(
    ("method", "path", "identifier", "expected"),
    [
        ("get", OPERATION, "workspaces_notes_list", "notes.list"),
        ("post", OPERATION, "workspaces_notes_create", "notes.create"),
        ("delete", OPERATION, "workspaces_notes_destroy", "notes.delete_all"),
        ("get", f"{OPERATION}/{{id}}", "workspaces_notes_retrieve", "notes.get"),
        ("patch", f"{OPERATION}/{{id}}", "workspaces_notes_partial_update", "notes.update"),
        ("delete", f"{OPERATION}/{{id}}", "workspaces_notes_destroy", "notes.delete"),
        ("post", f"{OPERATION}/{{id}}/forks", "workspaces_notes_forks_create", "notes.fork"),
        ("post", f"{OPERATION}/{{id}}/dismiss", "workspaces_notes_dismiss_create", "notes.dismiss"),
        ("get", f"{OPERATION}/{{id}}/diff", "workspaces_notes_diff_retrieve", "notes.get_diff"),
        ("get", "/api/push-key", "push_key_retrieve", "push_key.get"),
    ],
)  # fmt: skip
def test_names(method: str, path: str, identifier: str, expected: str) -> None:
    names = ("workspace_id", "id") if "{id}" in path else ("workspace_id",)
    parameters = [parameter(name, "path") for name in names if f"{{{name}}}" in path]
    listed = operation(
        "notes", "workspaces_notes_list", parameters=[parameter("workspace_id", "path")]
    )
    paths = {OPERATION: {"get": listed}}
    made = operation("notes", identifier, parameters=parameters)
    paths[path] = {**paths.get(path, {}), method: made}
    found = operations_of(schema(**paths))
    assert expected in [f"{each.group}.{each.name}" for each in found]


def test_one_name_for_two_operations_is_resolved_by_the_workspace_or_refused() -> None:
    everywhere = {"get": operation("notes", "notes_list")}
    here = {
        "get": operation(
            "notes", "workspaces_notes_list", parameters=[parameter("workspace_id", "path")]
        )
    }
    found = operations_of(schema(**{"/api/notes": everywhere, OPERATION: here}))
    assert [each.name for each in found] == ["list", "list_of_workspace"]
    with pytest.raises(ValueError, match=r"notes\.list"):
        operations_of(schema(**{"/api/notes": everywhere, "/api/more/notes": everywhere}))


def test_a_method_has_the_arguments_of_its_path_query_and_body() -> None:
    post = operation(
        "notes",
        "workspaces_notes_create",
        parameters=[
            parameter("workspace_id", "path", required=True),
            parameter("class", "query"),
            parameter("Idempotency-Key", "header"),
        ],
        requestBody={"content": {"application/json": {"schema": NOTE}}},
    )
    code = operations_module(schema(**{OPERATION: {"post": post}}))
    arguments = (
        "self, workspace_id: str, *, text: str, class_: str | NotGiven = NOT_GIVEN,"
        " from_: str | NotGiven = NOT_GIVEN, idempotency_key: str = ''"
    )
    assert f"async def create({arguments}) -> t.Note:" in code
    assert "query={'class': class_}, body={'text': text, 'from': from_}" in code
    assert "``text``: Its text." in code
    compile(code, "operations", "exec")


def test_a_list_in_pages_can_be_iterated() -> None:
    get = operation(
        "notes", "notes_list", parameters=[parameter("cursor", "query"), parameter("q", "query")]
    )
    get["responses"] = answer({"$ref": "#/components/schemas/Page"})
    code = operations_module(schema(**{"/api/notes": {"get": get}}))
    assert "def iterate(self, *, q: str | NotGiven = NOT_GIVEN) -> AsyncIterator[t.Note]:" in code
    assert "self._iterate('GET', '/api/notes', query={'q': q})" in code


def test_other_content_is_bytes() -> None:
    get = {**operation("notes", "notes_retrieve"), "responses": answer({}, "text/markdown")}
    body = {"content": {"application/x-ndjson": {"schema": {}}}}
    put = {**operation("notes", "notes_update", requestBody=body), "responses": {"204": {}}}
    code = operations_module(schema(**{"/api/notes": {"get": get, "put": put}}))
    assert "async def get(self) -> bytes:" in code
    assert "async def replace(self, *, content: bytes) -> None:" in code
    assert "content_type='application/x-ndjson'" in code


def test_an_object_with_names_that_python_reserves_has_them() -> None:
    code = types_module(schema())
    namespace: dict[str, Any] = {}
    exec(compile(code, "types", "exec"), namespace)
    assert set(namespace["Note"].__annotations__) == {"text", "from", "id"}
    assert namespace["Page"].__annotations__.keys() == {"items", "next"}
