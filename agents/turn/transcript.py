"""The conversation for a model, as messages that are independent of a provider's wire.

Pure. The runner builds these from stored messages; each provider wire under
``agents/llm`` translates them.
"""

from __future__ import annotations

from dataclasses import dataclass

from workspaces.log.parts import Parts, Role


@dataclass(frozen=True, slots=True)
class TurnMessage:
    id: str
    role: Role
    parts: Parts
    model: str = ""
    provider: str = ""
