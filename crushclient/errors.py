"""The errors of the client. Each has a sentence for people; those of the server also a code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class CrushError(Exception):
    """The base of all errors of this package."""


class ConnectionFailed(CrushError):
    """The server cannot be reached, or it disconnected before its response was complete."""


class UnsafeAddress(CrushError):
    """The address of the server is malformed, or would send a token without encryption."""


class CommandUnconfirmed(CrushError):
    """The stream ended before the reply: the command may or may not have been carried out."""


class StreamClosed(CrushError):
    """The stream was closed by this program, and is used after that."""


class ApiError(CrushError):
    """The server refused a request.

    ``code`` is stable and made for programs, ``detail`` is a sentence for people. ``errors`` names
    the fields at fault, if the server lists them.
    """

    def __init__(
        self,
        status: int,
        *,
        code: str = "",
        title: str = "",
        detail: str = "",
        errors: Sequence[Mapping[str, Any]] = (),
        problem: Mapping[str, Any] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(detail or title or f"the server answered with status {status}")
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail
        self.errors = list(errors)
        self.problem: Mapping[str, Any] = problem or {}
        self.retry_after_seconds = retry_after_seconds


class InvalidRequestError(ApiError):
    """400, 413, 415, 422: a field is missing or wrong."""


class AuthenticationError(ApiError):
    """401: no credential, or an expired or revoked one. On a stream also close code 4401."""


class NotAllowedError(ApiError):
    """403: the user has no right to do this here."""


class NotFoundError(ApiError):
    """404 and 410: unknown, deleted, or closed."""


class ConflictError(ApiError):
    """409 and 412: conflicts with the current state. On a stream also close code 4409."""


class TooManyRequestsError(ApiError):
    """429: the queue is full, or requests come too fast."""


class ServerFailure(ApiError):
    """5xx: the server or a service behind it failed."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: NotAllowedError,
    404: NotFoundError,
    409: ConflictError,
    410: NotFoundError,
    412: ConflictError,
    413: InvalidRequestError,
    415: InvalidRequestError,
    422: InvalidRequestError,
    429: TooManyRequestsError,
}


def error_of(status: int, body: Any, *, retry_after: str = "") -> ApiError:
    """Returns the error of a response; ``body`` is its decoded JSON, or ``None``.

    Reads problem details (RFC 9457), and the ``{"message": …}`` of ``/v1`` and of the server's edge.
    """
    problem = body if isinstance(body, Mapping) else {}
    errors = problem.get("errors")
    kind = _BY_STATUS.get(status, ServerFailure if status >= 500 else ApiError)
    return kind(
        status,
        code=_text(problem, "code"),
        title=_text(problem, "title"),
        detail=_text(problem, "detail") or _text(problem, "message"),
        errors=[each for each in errors if isinstance(each, Mapping)]
        if isinstance(errors, list)
        else (),
        problem=problem,
        retry_after_seconds=float(retry_after)
        if retry_after.isascii() and retry_after.isdecimal()
        else None,
    )


def _text(problem: Mapping[str, Any], name: str) -> str:
    value = problem.get(name)
    return value if isinstance(value, str) else ""
