"""The errors of model calls, each kind with a stable code.

The message is a sentence for users with advice on what to do; it never holds a
key. The errors depend on no HTTP library: ``agents.llm.error_answers`` reads responses
into them, and ``agents.llm.retries`` uses ``retryable`` and ``retry_after``.
"""

from __future__ import annotations

from typing import ClassVar


class ModelError(Exception):
    """A call of a model failed. ``default`` is the sentence where nothing more is known."""

    code: ClassVar[str] = "model_error"
    default: ClassVar[str] = "The model could not answer."
    retryable = False

    def __init__(
        self, sentence: str = "", *, retry_after: float | None = None, retryable: bool | None = None
    ) -> None:
        self.sentence = sentence or self.default
        self.retry_after = retry_after  # seconds, from the provider's Retry-After
        if retryable is not None:
            self.retryable = retryable
        super().__init__(self.sentence)


class WrongKey(ModelError):
    code = "wrong_key"
    default = "The provider refused the API key. Check it in the configuration."


class QuotaExhausted(ModelError):
    code = "quota_exhausted"
    default = "The provider's account has no credit left. Add credit, or choose another model."


class UnknownModel(ModelError):
    code = "unknown_model"
    default = "The provider has no model with this id. Check the id in the configuration."


class UnusableModel(ModelError):
    code = "unusable_model"
    default = "The configured model cannot be used. Choose another model."


class MissingPackage(ModelError):
    code = "missing_package"
    default = "A package that this type of provider needs is not installed."


class UnknownProviderKind(ModelError):
    code = "unknown_provider_kind"
    default = "This server does not support this type of provider."


class ContextExhausted(ModelError):
    code = "window_exhausted"
    default = "The conversation no longer fits into the model's context window."


class ContentFiltered(ModelError):
    code = "content_filtered"
    default = "The provider's content filter refused the prompt."


class RateLimited(ModelError):
    code = "rate_limited"
    default = "The provider limits the rate of requests. Try again later."
    retryable = True


class Overloaded(ModelError):
    code = "overloaded"
    default = "The provider is overloaded or failing. Try again later."
    retryable = True


class BadRequest(ModelError):
    code = "bad_request"
    default = "The provider does not accept this request."


class BrokenStream(ModelError):
    code = "broken_stream"
    default = "The model's reply ended before it was complete."
    retryable = True


class Silent(ModelError):
    code = "silent"
    default = "The provider sent nothing for too long."
    retryable = True


class Unreachable(ModelError):
    code = "unreachable"
    default = "The provider cannot be reached. Check its address and the network."
    retryable = True


class ReplyTooLarge(ModelError):
    code = "reply_too_large"
    default = "The model's reply is larger than a message may be."
