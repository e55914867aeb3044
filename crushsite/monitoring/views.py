"""The endpoints for service managers, balancers and monitoring, and their addresses.

A worker that listens has no others.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse
from django.urls import URLPattern, URLResolver, path

from crushsite.monitoring.figures import FIGURES
from crushsite.monitoring.metrics import CONTENT_TYPE
from crushsite.monitoring.readiness import READINESS
from workspaces.access import Right
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView


class LivenessView(ApiView):
    """Whether the process is alive: its event loop answers. Uses neither database nor disk."""

    rights: ClassVar = {"get": Right.PUBLIC}

    async def get(self) -> HttpResponse:
        return _fresh({"message": "ok"})


class ReadinessView(ApiView):
    """Whether the process can do its work now, and else the names of the checks that fail."""

    rights: ClassVar = {"get": Right.PUBLIC}

    async def get(self) -> HttpResponse:
        failing = await READINESS.failing()
        if not failing:
            return _fresh({"message": "ready", "failing": []})
        message = f"not ready: {', '.join(failing)}"
        return _fresh({"message": message, "failing": failing}, status=503)


class MetricsView(ApiView):
    """The figures of this process, for Prometheus."""

    rights: ClassVar = {"get": Right.ADMINISTER}

    async def get(self) -> HttpResponse:
        answer = HttpResponse(await FIGURES.page(), content_type=CONTENT_TYPE)
        answer["Cache-Control"] = "no-store"
        return answer


def _fresh(body: dict[str, Any], *, status: int = 200) -> HttpResponse:
    answer = json_answer(body, status=status)
    answer["Cache-Control"] = "no-store"
    return answer


urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", LivenessView.as_view()),
    path("readyz", ReadinessView.as_view()),
    path("metrics", MetricsView.as_view()),
]
