"""Anthropic's body as the clouds take it: the model stands in the address. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.llm.contract import ModelRequest
from agents.llm.wires.anthropic_encode import encode

BEDROCK = "bedrock-2023-05-31"
VERTEX = "vertex-2023-10-16"


def cloud_body(
    request: ModelRequest, version: str, *, provider: str, extra_body: Mapping[str, Any]
) -> dict[str, Any]:
    body = encode(request, provider=provider, extra_body=extra_body)
    del body["model"]
    if version == BEDROCK:
        del body["stream"]  # the address says it
    return {"anthropic_version": version, **body}
