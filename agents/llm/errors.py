"""What can go wrong between us and a model, each kind with a stable code.

The message is a sentence for people and says what to do; it never holds a
key. Knows no HTTP library: ``agents.llm.error_answers`` reads answers into
these, ``agents.llm.retries`` decides by ``retryable`` and ``retry_after``.
"""

from __future__ import annotations


class ModelError(Exception):
    """The model could not answer."""

    code = "model_error"
    retryable = False

    def __init__(
        self, sentence: str = "", *, retry_after: float | None = None, retryable: bool | None = None
    ) -> None:
        self.sentence = sentence or (type(self).__doc__ or "")
        self.retry_after = retry_after  # seconds the provider asked us to wait
        if retryable is not None:
            self.retryable = retryable
        super().__init__(self.sentence)


class WrongKey(ModelError):
    """The provider refused the API key."""

    code = "wrong_key"


class QuotaExhausted(ModelError):
    """The provider's account has no credit left."""

    code = "quota_exhausted"


class UnknownModel(ModelError):
    """The provider does not know this model."""

    code = "unknown_model"


class UnusableModel(ModelError):
    """The configured model cannot be used."""

    code = "unusable_model"


class MissingPackage(ModelError):
    """A package that this type of provider needs is not installed."""

    code = "missing_package"


class UnknownProviderKind(ModelError):
    """There is no wire for this type of provider."""

    code = "unknown_provider_kind"


class ContextExhausted(ModelError):
    """The conversation no longer fits into the model's context window."""

    code = "window_exhausted"


class ContentFiltered(ModelError):
    """The provider's content filter refused the prompt."""

    code = "content_filtered"


class RateLimited(ModelError):
    """The provider asks us to slow down."""

    code = "rate_limited"
    retryable = True


class Overloaded(ModelError):
    """The provider is overloaded or failing."""

    code = "overloaded"
    retryable = True


class BadRequest(ModelError):
    """The provider does not accept this request."""

    code = "bad_request"


class BrokenStream(ModelError):
    """The model's reply broke off."""

    code = "broken_stream"
    retryable = True


class Silent(ModelError):
    """The provider went silent."""

    code = "silent"
    retryable = True


class Unreachable(ModelError):
    """The provider cannot be reached."""

    code = "unreachable"
    retryable = True


class ReplyTooLarge(ModelError):
    """The model's reply is larger than a message may be."""

    code = "reply_too_large"
