"""What every resource adds to the OpenAPI schema, beyond what drf-spectacular finds by itself."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.extensions import (
    OpenApiAuthenticationExtension,
    OpenApiSerializerFieldExtension,
)
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework.serializers import Serializer
from typing_extensions import override

from workspaces.access import Right
from workspaces.rest.problems import PROBLEM_TYPE, ProblemSerializer

ALWAYS: Final = {
    400: "The request is wrong; `errors` names the fields.",
    401: "The request has no identity, or its token is not valid.",
    403: "The identity lacks the right that this needs.",
    404: "There is no such object, or its workspace is closed.",
    414: "The address is too long.",
    429: "Too many requests; see `Retry-After`.",
    431: "The headers are too long.",
    503: "The server is stopping, or its database cannot be reached; see `Retry-After`.",
    507: "The disk of the database is full.",
}
WHEN_WRITING: Final = {
    409: "Conflicts with the current state; `detail` gives the reason.",
    413: "The body is too large.",
    422: "Another request was sent with this `Idempotency-Key`.",
}

IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="A name of your choice. A request that is sent again with it gets the response of"
    " the first one, for a day.",
)


class ResourceSchema(AutoSchema):
    """Adds the rights, the errors, and the headers that every resource has."""

    @override
    def get_tags(self) -> list[str]:
        return [type(self.view).__module__.rpartition(".")[2].replace("_", " ")]

    @override
    def _is_list_view(self, serializer: Any = None) -> bool:
        """A view that returns pages declares their order."""
        return self.method == "GET" and hasattr(self.view, "ordering")

    @override
    def get_override_parameters(
        self,
    ) -> list[OpenApiParameter | Serializer[Any] | type[Serializer[Any]]]:
        return [IDEMPOTENCY_KEY] if self.method == "POST" else []

    @override
    def get_auth(self) -> list[dict[str, Any]]:
        return [] if self._right() is Right.PUBLIC else [{"token": []}, {"session": []}]

    @override
    def get_description(self) -> str:  # type: ignore[override]  # as in drf-spectacular
        right = self._right()
        described = super().get_description()
        if right in {Right.PUBLIC, Right.SIGNED_IN}:
            return described
        return f"{described}\n\nNeeds the right `{right}`.".strip()

    @override
    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        component = self.resolve_serializer(ProblemSerializer(), direction)
        content = {PROBLEM_TYPE: {"schema": component.ref}}
        writes = {} if self.method == "GET" else WHEN_WRITING
        for status, description in sorted((ALWAYS | writes).items()):
            if str(status) not in bodies:
                bodies[str(status)] = {"description": description, "content": content}
        return bodies

    @override
    def map_parsers(self) -> list[Any]:
        # Bodies of any type are read as JSON; clients should send this one.
        types: list[Any] = super().map_parsers()
        return ["application/json" if each == "*/*" else each for each in types]

    def _right(self) -> Right:
        rights: dict[str, Right] = getattr(self.view, "rights")  # noqa: B009  every view is a Resource
        return rights[self.method.lower()]


class EdgeScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # its metaclass is untyped
    target_class = "workspaces.rest.view.EdgeAuthentication"
    name = ["token", "session"]

    @override
    def get_security_definition(self, auto_schema: AutoSchema) -> list[dict[str, str]]:
        return [
            {"type": "http", "scheme": "bearer", "description": "A token: `crush_…`."},
            {"type": "apiKey", "in": "cookie", "name": "crush_sessionid"},
        ]


class FlagSchema(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]  # the same
    """A field of bodies that is true or false: without this, the schema calls it a string."""

    target_class = "workspaces.api.fields.Flag"

    @override
    def map_serializer_field(self, auto_schema: Any, direction: str) -> dict[str, Any]:
        return {"type": "boolean"}


class PlainTextSchema(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]  # the same
    """A field of bodies that is a text."""

    target_class = "workspaces.api.fields.PlainText"

    @override
    def map_serializer_field(self, auto_schema: Any, direction: str) -> dict[str, Any]:
        return {"type": "string"}
