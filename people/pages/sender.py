"""Who sends a request to one of Django's pages: for the audit and the throttle."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.http import HttpRequest

from workspaces.access import Actor, Caller, IdentityKind, caller_of


def caller_of_page(request: HttpRequest) -> Caller:
    return caller_of(getattr(request, "scope", {}))


def address_of(request: HttpRequest) -> str:
    """Where a request comes from: the client, also behind a declared proxy."""
    return caller_of_page(request).address or str(request.META.get("REMOTE_ADDR", ""))


def actor_of(request: HttpRequest, *, via: str = "page") -> Actor:
    """Returns the user who has signed in, for the audit."""
    user = request.user
    return Actor(
        IdentityKind.USER, user.get_username(), user.pk, address=address_of(request), via=via
    )


def is_of_tool(request: HttpRequest) -> bool:
    """Whether a tool of this server sends the request. Looks at processes."""
    return async_to_sync(caller_of_page(request).is_tool)()
