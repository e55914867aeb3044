"""The OpenAPI schema of all resources, and the same as pages for browsers."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

from django.urls import include, path
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces.access import Right
from workspaces.rest.view import Resource


@cache
def openapi() -> dict[str, Any]:
    """Returns the schema. It is the same for every caller, and takes a second to build."""
    patterns = [path("api/", include("crushsite.rest_urls"))]
    schema: dict[str, Any] = SchemaGenerator(patterns=patterns).get_schema(public=True)  # type: ignore[no-untyped-call]  # the library is not annotated
    return schema


class SchemaView(Resource):
    """This description, as OpenAPI 3.1."""

    rights: ClassVar = {"get": Right.PUBLIC}

    @extend_schema(responses={200: OpenApiTypes.OBJECT})
    def get(self, _: Request) -> Response:
        return Response(openapi(), content_type="application/vnd.oai.openapi+json;version=3.1")


class DocsView(SpectacularSwaggerSplitView):
    """The schema as pages. Its files are part of the installation, so no network is needed."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    schema = None  # a page, not part of what it shows
    url = "/api/schema"
    title = "Crush server"
    template_name = "rest/docs.html"
