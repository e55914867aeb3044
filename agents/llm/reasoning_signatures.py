"""What a provider wants back of its reasoning, kept in a reasoning part's ``signature``.

Pure. Each wire writes its own tag before what it keeps, so that a value is never
shown to a wire that did not make it. Anthropic's own signatures stand without a
tag, as they always did: they are base64 and hold no colon.
"""

from __future__ import annotations

from agents.llm.history import AssistantTurn
from workspaces.log.parts import Reasoning

RESPONSES = "openai-responses"
GEMINI = "gemini"
DETAILS = "reasoning-details"
LONGEST_SEAL = 1_000_000  # characters; more than that is no provider's
REDACTED = "redacted"  # Anthropic's: thinking that the provider has encrypted


def sealed(tag: str, value: str) -> str:
    return f"{tag}:{value}"


def unsealed(tag: str, part: Reasoning) -> str:
    """What was kept, empty where another wire made the part."""
    ours, value = part.signature.partition(":")[::2]
    return value if ours == tag else ""


def is_untagged(part: Reasoning) -> bool:
    return bool(part.signature) and ":" not in part.signature


def is_from(turn: AssistantTurn, *, provider: str, model: str) -> bool:
    """Whether this provider's model made the reply. Older rows do not say who did."""
    return turn.provider in ("", provider) and turn.model in ("", model)
