"""The checks of ``doctor --server``: what can be seen of a server from elsewhere. None of them raises."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from crushsite.cli.diagnosis import folder_findings
from crushsite.cli.servers import ServerLogin
from crushsite.cli.terminal import visible
from crushsite.client.listing import items, opened
from crushsite.monitoring.findings import Finding, fail, ok, warn
from crushsite.program_name import command_line
from crushsite.server_client import UNIX, tls_context
from workspaces.release import VERSION

if TYPE_CHECKING:
    from crushclient import Client, CrushError

CONNECT_SECONDS = 10.0
MODEL_SECONDS = 40.0
STREAM_SECONDS = 15.0
DAY = 86_400
CERTIFICATE_DAYS = 14  # before its end, a warning
TOKEN_DAYS = 7
CLOCK_SECONDS = 30.0  # between the clocks: times in lists mislead, and tokens end early or late
_STREAMS: Mapping[Literal["websocket", "sse"], str] = {
    "websocket": "WebSocket",
    "sse": "event stream",
}


async def diagnose_server(
    login: ServerLogin, path: str | None, *, asks_model: bool
) -> AsyncIterator[Finding]:
    """Yields all findings; ends early where the others would fail for the same reason.

    ``path``: a folder of that server, whose configuration is checked, too.
    """
    from crushclient import Client, CrushError, RetryPolicy, TlsOptions  # noqa: PLC0415

    yield ok("address", login.url)
    async for finding in _connection(login):
        yield finding
        if finding.is_failure:
            return
    tls = TlsOptions(ca_file=login.ca_file or None)
    retry = RetryPolicy(attempts=1, give_up_seconds=0)
    async with Client(login.url, token=login.token, tls=tls, retry=retry) as client:
        try:
            me = None
            async for finding, found in _identity(client, login):
                me = found or me
                yield finding
            if me is None:
                return
            async for finding in _rights(client, me, checks_stream=path is None):
                yield finding
            async for finding in _folder(client, path, asks_model=asks_model):
                yield finding
        except CrushError as error:
            yield fail("server", _reason(error))


async def _connection(login: ServerLogin) -> AsyncIterator[Finding]:
    began = time.perf_counter()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            if login.url.startswith(UNIX):
                path = login.url.removeprefix(UNIX)
                _, writer = await asyncio.open_unix_connection(path)
            else:
                parts = urlsplit(login.url)
                is_encrypted = parts.scheme == "https"
                port = parts.port or (443 if is_encrypted else 80)
                context = tls_context(login.ca_file) if is_encrypted else None
                _, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
    except ssl.SSLCertVerificationError as error:
        yield fail("certificate", f"{error.verify_message}. {_advice(login)}")
        return
    except ssl.SSLError as error:
        yield fail("TLS", f"{error.reason or error}: is this the port for https?")
        return
    except TimeoutError:
        yield fail("connection", f"no answer within {CONNECT_SECONDS:g} s")
        return
    except OSError as error:
        # Of a failed connection the event loop replaces the system's words with the address.
        is_known = error.errno is not None and error.errno > 0
        yield fail("connection", os.strerror(error.errno or 0) if is_known else str(error))
        return
    milliseconds = (time.perf_counter() - began) * 1000
    encrypted = writer.get_extra_info("ssl_object")
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    yield ok("connection", f"opened in {milliseconds:.0f} ms")
    if encrypted is not None:
        yield _certificate(encrypted)
    elif not login.url.startswith(UNIX):
        yield ok("TLS", "none is needed: the connection stays on this machine")


def _advice(login: ServerLogin) -> str:
    if login.ca_file:
        return f"It does not come from the authority in {login.ca_file}"
    return "If it comes from an authority of your own, name the authority's file with --ca-file"


def _certificate(encrypted: ssl.SSLObject) -> Finding:
    certificate: Mapping[str, Any] = encrypted.getpeercert() or {}
    issuer = {name: value for entry in certificate.get("issuer", ()) for name, value in entry}
    by = issuer.get("organizationName") or issuer.get("commonName") or "an unnamed authority"
    ends = ssl.cert_time_to_seconds(certificate["notAfter"])
    days = int((ends - time.time()) // DAY)
    text = f"{encrypted.version()}, by {visible(str(by))}, valid for {days} more days"
    return (warn if days < CERTIFICATE_DAYS else ok)("certificate", text)


async def _identity(
    client: Client, login: ServerLogin
) -> AsyncIterator[tuple[Finding, Mapping[str, Any] | None]]:
    """The version, the clock, and who the token is; the second item is the caller itself."""
    from crushclient import ApiError, AuthenticationError  # noqa: PLC0415  loaded by the caller

    sign_in = f"sign in with `{command_line(f'login {login.url}')}`"
    try:
        facts = await client.request("GET", "/v1/version")
        version = visible(str((facts or {}).get("version", "")))
        if not version:
            yield fail("version", "this is not a server of this program"), None
            return
        if version == VERSION:
            yield ok("version", version), None
        else:
            yield warn("version", f"{version}; this program is {VERSION}"), None
        reply = await client.exchange("GET", "/api/me")
    except AuthenticationError as error:
        problem = "not accepted" if login.token else "none is stored"
        yield fail("token", f"{problem} ({_reason(error)}): {sign_in}"), None
        return
    except ApiError as error:
        yield fail("server", f"{_reason(error)} (status {error.status})"), None
        return
    yield _clock(reply.headers.get("Date", "")), None
    me = reply.data
    who = f"{visible(me['name'])} ({me['kind']}{', staff' if me['is_staff'] else ''})"
    yield ok("user", who), me


def _clock(date: str) -> Finding:
    try:
        there = parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError):
        return warn("clock", "the server does not send its time")
    behind = time.time() - there
    if abs(behind) < CLOCK_SECONDS:
        return ok("clock", "the same as here")
    word = "behind" if behind > 0 else "ahead of"
    return warn("clock", f"{abs(behind):.0f} s {word} the clock of this machine")


async def _rights(
    client: Client, me: Mapping[str, Any], *, checks_stream: bool
) -> AsyncIterator[Finding]:
    from crushclient import ApiError  # noqa: PLC0415  loaded by the caller

    if me["token_id"]:
        with suppress(ApiError):  # a token may lack the right to see itself
            token = await client.request("GET", f"/api/tokens/{me['token_id']}")
            yield _token(token)
    workspaces = await items(client, "/api/workspaces", {"state": "all"})
    count = f"{len(workspaces)} workspace{'' if len(workspaces) == 1 else 's'}"
    if me["is_staff"]:
        held = f"all, in {count}"
    else:
        by_id = {each["id"]: each["path"] for each in workspaces}
        roles = [
            f"{role['role']} in {visible(by_id.get(role['workspace_id'], 'every workspace'))}"
            for role in me["roles"]
        ]
        held = ", ".join(roles) or "none in any workspace"
    if me["scopes"] is not None:
        held += f"; of these the token has: {', '.join(me['scopes'])}"
    yield (ok if workspaces or me["is_staff"] else warn)("rights", held)
    if not checks_stream:
        return
    is_open = next((each for each in workspaces if each["is_open"]), None)
    if is_open is None:
        yield ok("stream", "not checked, because no workspace is open there: --path opens one")
        return
    async for finding in _streams(client, is_open["id"]):
        yield finding


def _token(token: Mapping[str, Any]) -> Finding:
    if token["expires_at"] is None:
        return ok("token", f"{visible(token['name'])}, never expires")
    days = round((token["expires_at"] - time.time()) / DAY)
    text = f"{visible(token['name'])}, expires in {days} days"
    return (warn if days < TOKEN_DAYS else ok)("token", text)


async def _streams(client: Client, workspace_id: str) -> AsyncIterator[Finding]:
    """A proxy may hold back events, or refuse WebSockets."""
    from crushclient import CrushError, StreamLive  # noqa: PLC0415  loaded by the caller

    for protocol, name in _STREAMS.items():
        began = time.perf_counter()
        try:
            async with (
                asyncio.timeout(STREAM_SECONDS),
                client.stream(workspace_id, protocol=protocol) as stream,
            ):
                while not isinstance(await anext(stream), StreamLive):
                    pass
        except TimeoutError:
            held = "nothing came: does a proxy hold it back?"
            yield fail(name, f"{held} It must pass events on at once")
        except CrushError as error:
            advice = "; a proxy must pass `Upgrade` on" if protocol == "websocket" else ""
            yield fail(name, f"{_reason(error)}{advice}")
        else:
            yield ok(name, f"live after {(time.perf_counter() - began) * 1000:.0f} ms")


async def _folder(client: Client, path: str | None, *, asks_model: bool) -> AsyncIterator[Finding]:
    if path is None:
        return
    body = {"path": path, "asks_model": asks_model}
    async with opened(client, path) as workspace:
        async for finding in _streams(client, workspace.id):
            yield finding
        facts = await client.request("POST", "/api/diagnosis", body=body, seconds=MODEL_SECONDS)
    for finding in folder_findings(facts):
        yield finding


def _reason(error: CrushError) -> str:
    return visible(" ".join(str(error).split())).rstrip(".")
