"""The responses of views: JSON, or an empty body without a content type."""

from __future__ import annotations

from typing import Any

import orjson
from django.http import HttpResponse


def json_answer(data: Any, *, status: int = 200) -> HttpResponse:
    return HttpResponse(orjson.dumps(data), status=status, content_type="application/json")


def empty_answer(*, status: int = 200) -> HttpResponse:
    answer = HttpResponse(status=status)
    del answer["Content-Type"]
    return answer
