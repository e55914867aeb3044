"""Reads what the generator needs from an OpenAPI schema: operations, their names and their types."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]
METHODS = ("get", "post", "put", "patch", "delete")
_VERBS = {"list": "list", "retrieve": "get", "create": "create", "update": "replace"}
_VERBS |= {"partial_update": "update", "destroy": "delete"}
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, or a field of a body."""

    name: str  # on the wire
    type: str
    is_required: bool
    description: str

    @property
    def identifier(self) -> str:
        return identifier_of(self.name)


CLIENT_NAME = "x-client-name"  # where the schema itself names the function of an operation


@dataclass(frozen=True, slots=True)
class Operation:
    group: str
    name: str
    method: str
    path: str
    description: str
    in_path: tuple[Field, ...]
    in_query: tuple[Field, ...]
    body: tuple[Field, ...]
    body_type: str  # of a body without fields of its own; "bytes" if it is not JSON
    content_type: str
    has_key: bool  # takes an ``Idempotency-Key``
    answer: str  # "bytes" if it is not JSON, "None" if it is empty
    item: str  # of a list in pages


def operations_of(schema: Json) -> list[Operation]:
    """Returns all operations, by group and name. Raises ``ValueError`` if two have one name."""
    found = [
        _operation(schema, path, method, about)
        for path, methods in schema["paths"].items()
        for method, about in methods.items()
        if method in METHODS
    ]
    names = Counter((each.group, each.name) for each in found)
    found = [
        _renamed(each)
        if names[each.group, each.name] > 1 and "{workspace_id}" in each.path
        else each
        for each in found
    ]
    names = Counter((each.group, each.name) for each in found)
    if twice := [f"{group}.{name}" for (group, name), count in names.items() if count > 1]:
        raise ValueError(f"two operations have one name: {', '.join(sorted(twice))}")
    return sorted(found, key=lambda each: (each.group, each.path, METHODS.index(each.method)))


def _renamed(operation: Operation) -> Operation:
    values = {name: getattr(operation, name) for name in Operation.__slots__}
    return Operation(**{**values, "name": f"{operation.name}_of_workspace"})


def _operation(schema: Json, path: str, method: str, about: Json) -> Operation:
    parameters = about.get("parameters", ())
    fields = {
        place: tuple(
            Field(
                each["name"],
                type_of(each.get("schema", {})),
                bool(each.get("required")),
                each.get("description", ""),
            )
            for each in parameters
            if each["in"] == place
        )
        for place in ("path", "query")
    }
    order = re.findall(r"{(\w+)}", path)
    in_path = tuple(sorted(fields["path"], key=lambda field: order.index(field.name)))
    body, body_type, content_type = _body(schema, about)
    answer, item = _answer(schema, about)
    group, name = _names(schema["paths"], path, about["operationId"], method)
    name = about.get(CLIENT_NAME, name)
    return Operation(
        identifier_of(group),
        identifier_of(name),
        method,
        path,
        about.get("description", ""),
        in_path,
        fields["query"],
        body,
        body_type,
        content_type,
        has_key=any(each["name"] == "Idempotency-Key" for each in parameters),
        answer=answer,
        item=item,
    )


def _names(paths: Json, path: str, operation_id: str, method: str) -> tuple[str, str]:
    """Returns the group and the name: those of the noun in the address, and what is done to it."""
    verbs = (
        verb for verb in sorted(_VERBS, key=len, reverse=True) if operation_id.endswith(f"_{verb}")
    )
    verb = _VERBS.get(next(verbs, ""), method)
    words = [
        word.replace("-", "_") for word in path.removeprefix("/api/").split("/") if word[0] != "{"
    ]
    if words[0] == "workspaces" and len(words) > 1:
        words = words[1:]
    noun, group = words[-1], words[-2] if len(words) > 1 else words[-1]
    if path.endswith("}"):
        return noun, verb
    if len(words) == 1 or _is_collection(paths, path):
        is_whole = verb in {"update", "delete"} and _is_collection(paths, path)
        return noun, f"{verb}_all" if is_whole else verb
    if verb == "create":
        return group, noun.removesuffix("s") if not noun.endswith("ss") else noun
    return group, f"{verb}_{noun}"


def _is_collection(paths: Json, path: str) -> bool:
    listed = paths[path].get("get", {}).get("operationId", "").endswith("_list")
    return listed or any(each.startswith(f"{path}/{{") for each in paths)


def _body(schema: Json, about: Json) -> tuple[tuple[Field, ...], str, str]:
    content = about.get("requestBody", {}).get("content", {})
    if not content:
        return (), "", ""
    kind = "application/json" if "application/json" in content else next(iter(content))
    if "json" not in kind or "ndjson" in kind or "jsonl" in kind:
        return (), "bytes", kind
    body = _resolved(schema, content[kind].get("schema", {}))
    if "properties" not in body:
        return (), type_of(content[kind].get("schema", {})), kind
    required = set(body.get("required", ()))
    fields = [
        Field(name, type_of(each), name in required, each.get("description", ""))
        for name, each in body["properties"].items()
        if not each.get("readOnly")
    ]
    return tuple(fields), "", kind


def _answer(schema: Json, about: Json) -> tuple[str, str]:
    for status, answer in sorted(about["responses"].items()):
        if not status.startswith("2"):
            continue
        content = answer.get("content", {})
        if not content:
            return "None", ""
        if "application/json" not in content:
            return "bytes", ""
        shape = content["application/json"].get("schema", {})
        page = _resolved(schema, shape)
        is_page = set(page.get("properties", ())) == {"items", "next"}
        item = type_of(page["properties"]["items"].get("items", {})) if is_page else ""
        return type_of(shape), item
    return "None", ""


def _resolved(schema: Json, shape: Json) -> Json:
    while "$ref" in shape or len(shape.get("allOf", ())) == 1:
        shape = (
            schema["components"]["schemas"][shape["$ref"].rpartition("/")[2]]
            if "$ref" in shape
            else shape["allOf"][0]
        )
    return shape


def type_of(shape: Json) -> str:
    """Returns the annotation of a JSON schema; names of components are those of their types."""
    if "$ref" in shape:
        return str(shape["$ref"]).rpartition("/")[2]
    for union in ("oneOf", "anyOf"):
        if union in shape:
            return " | ".join(dict.fromkeys(map(type_of, shape[union])))
    if len(shape.get("allOf", ())) == 1:
        return type_of(shape["allOf"][0])
    if "const" in shape:
        return f"Literal[{shape['const']!r}]"
    if "enum" in shape:
        return _literal(shape["enum"])
    kind = shape.get("type")
    if isinstance(kind, list):
        return " | ".join(type_of({**shape, "type": each}) for each in kind)
    if kind == "array":
        return f"list[{type_of(shape.get('items', {}))}]"
    if kind == "object":
        more = shape.get("additionalProperties")
        value = type_of(more) if isinstance(more, Mapping) and more else "Any"
        return f"dict[str, {value}]"
    return _PLAIN.get(str(kind), "Any")


def _literal(values: list[Any]) -> str:
    texts = [repr(value) for value in values if value is not None]
    parts = [f"Literal[{', '.join(texts)}]"] if texts else []
    return " | ".join([*parts, *(["None"] if None in values else [])])


def fields_of(shape: Json) -> Iterator[Field]:
    """Yields the fields of an object, required ones first."""
    required = set(shape.get("required", ()))
    for name, each in sorted(
        shape.get("properties", {}).items(), key=lambda e: e[0] not in required
    ):
        yield Field(name, type_of(each), name in required, each.get("description", ""))


def identifier_of(name: str) -> str:
    plain = re.sub(r"\W", "_", name)
    return f"{plain}_" if keyword.iskeyword(plain) or plain in {"self", "id_"} else plain
