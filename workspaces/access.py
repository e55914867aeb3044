"""Who calls, and what they may do: rights, roles, identities.

The edge (``crushsite.asgi.identify``) finds the identity of each request once. Everything else
calls ``Caller.require`` and decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from subprocess import SubprocessError
from typing import Any

from workspaces.log.errors import Forbidden, ForbiddenToTools, Refusal, Unauthenticated


class Right(StrEnum):
    """What an endpoint, a stream, a socket command or an admin action needs."""

    PUBLIC = "public"  # needs no identity
    SIGNED_IN = "signed in"  # any identity: the endpoint itself looks at each workspace
    ACCOUNT = "account"  # one's own tokens and login links: any identity, but no tool
    READ = "read"  # sessions, messages, streams, files, configuration without secrets
    OPEN = "open"  # open a folder as a workspace, close it, attach a client
    PROMPT = "prompt"  # send prompts; create and rename sessions
    CANCEL = "cancel"  # cancel runs, clear queues, delete sessions
    ANSWER = "answer"  # answer permission requests and questions
    CONFIGURE = "configure"  # models, keys, MCP and language servers, project files
    SHELL = "shell"  # run commands without a model
    SKIP = "skip"  # stop requesting permissions
    WORK = "work"  # join the server as a remote worker
    TRUST = "trust"  # let a folder's own configuration act
    ADMINISTER = "administer"  # members, tokens, audit, the server itself


class MemberRole(StrEnum):
    """What a user may do in one workspace. Each role includes the one before it."""

    VIEWER = "viewer"
    PROMPTER = "prompter"
    APPROVER = "approver"
    ADMIN = "admin"


_VIEWER = frozenset({Right.PUBLIC, Right.SIGNED_IN, Right.ACCOUNT, Right.READ, Right.OPEN})
_PROMPTER = _VIEWER | {Right.PROMPT, Right.CANCEL}
_APPROVER = _PROMPTER | {Right.ANSWER}
ALL_RIGHTS = frozenset(Right)

RIGHTS_OF: Mapping[MemberRole, frozenset[Right]] = {
    MemberRole.VIEWER: _VIEWER,
    MemberRole.PROMPTER: _PROMPTER,
    MemberRole.APPROVER: _APPROVER,
    MemberRole.ADMIN: ALL_RIGHTS,
}

EVERYWHERE = "*"  # the key of a role that holds in every workspace

# What a tool of this server may do, whatever user it runs as: a model must not answer for a person.
RIGHTS_OF_TOOLS = frozenset({Right.PUBLIC, Right.SIGNED_IN, Right.READ, Right.OPEN, Right.PROMPT})


class IdentityKind(StrEnum):
    """How an identity was proved."""

    ANONYMOUS = "anonymous"
    OWNER = "owner"  # a process of the server's own user on this machine
    USER = "user"  # a browser's session
    TOKEN = "token"  # noqa: S105  the name of a kind, not a secret


@dataclass(frozen=True, slots=True)
class Identity:
    """One person or program, as the server has identified it."""

    kind: IdentityKind
    name: str = ""  # shown to others as the author
    user_id: int | None = None
    is_staff: bool = False
    roles: Mapping[str, MemberRole] = field(default_factory=dict)  # by workspace, or EVERYWHERE
    # A token may do less than its user: only these rights, only in these workspaces.
    scopes: frozenset[Right] | None = None
    workspaces: frozenset[str] | None = None
    token_id: str = ""

    def may(self, right: Right, workspace_id: str = "") -> bool:
        """Whether this identity has a right; without a workspace, on the server as a whole."""
        if right is Right.PUBLIC:
            return True
        if right is Right.SIGNED_IN:
            return self.kind is not IdentityKind.ANONYMOUS
        if self.scopes is not None and right not in self.scopes:
            return False
        if self.workspaces is not None and workspace_id not in self.workspaces:
            return False
        if right is Right.ACCOUNT:
            return self.kind is not IdentityKind.ANONYMOUS
        if self.is_staff:
            return True
        everywhere = self.roles.get(EVERYWHERE)
        if not workspace_id:  # the whole server is an administrator's
            return everywhere is MemberRole.ADMIN
        held = (self.roles.get(workspace_id), everywhere)
        return any(role is not None and right in RIGHTS_OF[role] for role in held)

    def sees(self, workspace_id: str) -> bool:
        """Whether a list may show this workspace."""
        return self.may(Right.READ, workspace_id)

    @property
    def visible_workspaces(self) -> frozenset[str] | None:
        """The workspaces that lists may show; ``None`` for all."""
        if self.scopes is not None and Right.READ not in self.scopes:
            return frozenset()
        if self.is_staff or EVERYWHERE in self.roles:  # every role may read
            return self.workspaces
        own = frozenset(self.roles)
        return own if self.workspaces is None else own & self.workspaces


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does something, as the audit stores it and as others see it."""

    kind: IdentityKind
    name: str
    user_id: int | None = None
    token_id: str = ""
    client_id: str = ""
    address: str = ""
    via: str = ""  # the kind of client: "v1", "socket", "rest", "admin", "page", "command"
    is_tool: bool = False  # known of those who send prompts; see ``Caller.sender``

    def author(self) -> dict[str, Any]:
        """Returns this person or program for others, as rows and events contain it."""
        user_id = None if self.user_id is None else str(self.user_id)
        return {"kind": self.kind.value, "name": self.name, "user_id": user_id}


def author_of(actor: Actor | None, *, with_client: bool = False) -> dict[str, Any] | None:
    """Returns the author of an act; ``None`` for what the server does itself.

    ``with_client``: also the kind of client, where it is known.
    """
    if actor is None:
        return None
    return actor.author() | ({"via": actor.via} if with_client and actor.via else {})


def is_person(actor: Actor | None) -> bool:
    """Whether a user acts, by hand or by a program of theirs, and no tool of this server."""
    return actor is not None and actor.user_id is not None and not actor.is_tool


ANONYMOUS = Identity(IdentityKind.ANONYMOUS)
OWNER = Identity(IdentityKind.OWNER, name="owner", is_staff=True)


async def _is_no_tool() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Caller:
    """The identity of a request, and the process that sent it."""

    identity: Identity = ANONYMOUS
    address: str = ""  # where the request comes from, for the audit
    reason: str = ""  # why a credential was not accepted
    # Whether the request comes from a tool of this server. Looks at processes, so it takes time.
    is_tool: Callable[[], Awaitable[bool]] = _is_no_tool
    # Looks the identity up again, where it can end while a stream or a socket is open.
    renew: Callable[[], Awaitable[Identity]] | None = None

    def actor(self, client_id: str = "", *, via: str = "") -> Actor:
        """Returns who acts, through this client."""
        who = self.identity
        return Actor(who.kind, who.name, who.user_id, who.token_id, client_id, self.address, via)

    async def sender(self, actor: Actor) -> Actor:
        """Returns the actor of a prompt, with whether a tool of this server sends it."""
        try:
            return replace(actor, is_tool=await self.is_tool())
        except (OSError, SubprocessError):  # the process cannot be examined; the prompt counts
            return replace(actor, is_tool=True)

    async def current(self) -> Identity:
        """Returns the identity as it is now."""
        return self.identity if self.renew is None else await self.renew()

    async def may(self, right: Right, workspace_id: str = "") -> bool:
        try:
            await self.require(right, workspace_id)
        except Refusal:
            return False
        return True

    async def require(self, right: Right, workspace_id: str = "") -> None:
        """Raises ``Unauthenticated``, ``Forbidden`` or ``ForbiddenToTools``."""
        self._require(await self.current(), right, workspace_id)
        if right not in RIGHTS_OF_TOOLS:
            await self.require_person()

    def require_to_read(self, right: Right, workspace_id: str = "") -> bool:
        """Does the same at once, and returns whether that is possible.

        For a request without a body: its identity was found a moment ago.
        """
        if right in RIGHTS_OF_TOOLS:
            self._require(self.identity, right, workspace_id)
            return True
        return False

    def _require(self, identity: Identity, right: Right, workspace_id: str) -> None:
        if not identity.may(right, workspace_id):
            if identity.kind is IdentityKind.ANONYMOUS:
                raise Unauthenticated(self.reason)
            raise Forbidden

    async def require_person(self) -> None:
        """Raises ``ForbiddenToTools`` if the request comes from a tool of this server."""
        if await self.is_tool():
            raise ForbiddenToTools


ANONYMOUS_CALLER = Caller()
CALLER = "crush.caller"  # the key of an ASGI scope


def caller_of(scope: Mapping[str, Any]) -> Caller:
    """Returns the caller that the edge has found; anonymous without one."""
    caller: Caller = scope.get(CALLER, ANONYMOUS_CALLER)
    return caller
