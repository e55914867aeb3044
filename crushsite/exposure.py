"""Who can reach the server: addresses, TLS, a proxy in front, and the names that browsers use.

On a loopback address or a socket file the kernel identifies who connects. Any other address needs
encryption, by certificates of our own or by a declared proxy, and an account or a token to sign in with.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import ssl
import sys
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import CommandError

from crushsite.program_name import command_line
from crushsite.server_client import LOCAL_TOKEN_FILE, read_local_token
from people.actions.tokens import PREFIX, adopt_token, digest_of
from people.identities import ensure_owner
from people.models import Token
from workspaces.log.errors import BadField
from workspaces.log.timestamps import now_ms

_SCHEMES = {"http", "https"}


def public_host(url: str) -> str:
    """Returns the host of CRUSH_PUBLIC_URL; empty if that is. Raises ``CommandError``."""
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises an error if it is no number
    except ValueError:
        parts = urlsplit("")
    if (
        parts.scheme not in _SCHEMES
        or not parts.hostname
        or parts.username is not None
        or parts.path not in {"", "/"}
        or parts.query
        or parts.fragment
    ):
        raise CommandError(
            f"CRUSH_PUBLIC_URL is {url!r}: it must be like https://crush.example.com, without a path."
        )
    return parts.hostname.lower()


def check_host(host: str) -> None:
    """Raises ``CommandError`` unless it is safe to listen there."""
    if host.startswith("unix://"):
        return
    if not host.startswith("tcp://"):
        raise CommandError("--host must be tcp://HOST:PORT or unix://PATH.")
    name = _name_in(host)
    if is_local(name):
        return
    is_encrypted = bool(settings.CRUSH_TLS_CERTIFICATE) or bool(
        settings.CRUSH_PUBLIC_URL and settings.CRUSH_TRUSTED_PROXIES
    )
    if not is_encrypted:
        raise CommandError(
            f"{name or host!r} is not a loopback address, so passwords and conversations would"
            " cross the network unencrypted. Set CRUSH_TLS_CERTIFICATE and CRUSH_TLS_KEY, or"
            " CRUSH_PUBLIC_URL and CRUSH_TRUSTED_PROXIES for a proxy that encrypts, or listen on"
            " 127.0.0.1 or a unix:// socket."
        )


def require_sign_in(host: str) -> None:
    """Raises ``CommandError`` where other machines reach the server and there is no way to sign in."""
    adopt_admin_token()
    if host.startswith("unix://") or is_local(_name_in(host)) or can_anyone_sign_in():
        return
    raise CommandError(
        f"{_name_in(host)} is not a loopback address, and there is no way to sign in yet. Add a user with"
        f" `{command_line('user add NAME --staff')}`, create a token with"
        f" `{command_line('token create NAME')}`, or set CRUSH_ADMIN_TOKEN_FILE."
    )


def can_anyone_sign_in() -> bool:
    users = get_user_model().objects.filter(is_active=True)
    if any(user.has_usable_password() for user in users.only("password")):
        return True
    tokens = Token.objects.filter(revoked_at__isnull=True, user__is_active=True)
    return any(t.expires_at is None or t.expires_at > now_ms() for t in tokens)


def adopt_admin_token() -> None:
    """Makes the token in CRUSH_ADMIN_TOKEN_FILE the owner's, for containers."""
    if not settings.CRUSH_ADMIN_TOKEN_FILE:
        return
    file = Path(settings.CRUSH_ADMIN_TOKEN_FILE)
    try:
        text = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"CRUSH_ADMIN_TOKEN_FILE: {file} cannot be read: {error}.") from error
    try:
        adopt_token(text, user=ensure_owner(), name="CRUSH_ADMIN_TOKEN_FILE")
    except BadField as refusal:
        raise CommandError(f"CRUSH_ADMIN_TOKEN_FILE: {refusal.sentence}.") from refusal


def ensure_local_token(folder: Path) -> None:
    """Writes the owner's token for commands, where TCP does not identify who connects.

    That is behind a proxy, on other systems than Linux, and where the setting is on. Removes the
    file otherwise. Raises ``CommandError``.
    """
    file = folder / LOCAL_TOKEN_FILE
    is_needed = (
        settings.CRUSH_LOCAL_TOKEN
        or settings.CRUSH_HAS_PROXY
        or not sys.platform.startswith("linux")
    )
    try:
        if not is_needed:
            file.unlink(missing_ok=True)
            return
        text = read_local_token(folder)
        if not text or not Token.objects.filter(digest=digest_of(text), revoked_at=None).exists():
            text = PREFIX + secrets.token_urlsafe(32)
            file.unlink(missing_ok=True)
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as opened:
                opened.write(text)
        adopt_token(text, user=ensure_owner(), name="commands on this machine")
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error}.") from error


def names_of(host: str) -> frozenset[str]:
    """The names besides those of loopback by which clients may call the server."""
    names = set()
    if public := public_host(settings.CRUSH_PUBLIC_URL):
        names.add(public)
    name = _name_in(host) if host.startswith("tcp://") else ""
    if name and not is_local(name):
        names |= {name, socket.gethostname()}
        if _is_any(name):
            names |= _own_addresses()
    return frozenset(f"[{name}]" if ":" in name else name.lower() for name in names)


def tls_context() -> ssl.SSLContext | None:
    """Returns what CRUSH_TLS_CERTIFICATE and CRUSH_TLS_KEY name. Raises ``CommandError``."""
    certificate, key = settings.CRUSH_TLS_CERTIFICATE, settings.CRUSH_TLS_KEY
    if not certificate:
        if key:
            raise CommandError("CRUSH_TLS_KEY is set, but CRUSH_TLS_CERTIFICATE is not.")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key or None)
    except OSError as error:  # also every error of TLS
        reason = getattr(error, "reason", None) or error.strerror or error
        raise CommandError(
            f"The certificate {certificate} cannot be used ({reason}). CRUSH_TLS_CERTIFICATE and"
            " CRUSH_TLS_KEY must name PEM files that belong together."
        ) from error
    return context


def is_local(name: str) -> bool:
    """Whether a host is this machine alone."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _name_in(host: str) -> str:
    return host.removeprefix("tcp://").rpartition(":")[0].strip("[]")


def _is_any(name: str) -> bool:
    return name in {"0.0.0.0", "::"}  # noqa: S104  compared, not bound


def _own_addresses() -> set[str]:
    """The addresses of this machine's name, so that clients may call it by number."""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return set()
    return {str(entry[4][0]).partition("%")[0] for entry in found}
