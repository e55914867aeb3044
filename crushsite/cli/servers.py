"""Which server a command uses, and the tokens for it.

In this order: ``--server``, ``CRUSH_SERVER``, the server on this data folder. A token comes from
``--token-file``, ``CRUSH_TOKEN``, or a login. Each login is a file of its own that only its user
can read.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import ssl
from argparse import ArgumentParser
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.management.base import CommandError

from crushsite.cli.exit_codes import Exit
from crushsite.program_name import command_line
from crushsite.server_client import UNIX, RunningServer, tls_context

SERVER_VARIABLE = "CRUSH_SERVER"
TOKEN_VARIABLE = "CRUSH_TOKEN"  # noqa: S105  the name of a variable
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NEVER_IN_TOKENS = re.compile(r"[^\x21-\x7e]")


@dataclass(frozen=True, slots=True)
class ServerLogin:
    """A server that a user has signed in to."""

    url: str
    token: str = field(default="", repr=False)
    user: str = ""
    ca_file: str = ""

    def as_server(self) -> RunningServer:
        return RunningServer(self.url, token=self.token, ca_file=self.ca_file, is_named=True)


def add_server_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("server")
    group.add_argument(
        "--server",
        metavar="URL",
        help=f"https://HOST, http://127.0.0.1:PORT or unix:///PATH (default: {SERVER_VARIABLE}, else"
        " the server on this machine)",
    )
    group.add_argument(
        "--token-file",
        metavar="FILE",
        help=f"a file with the token (default: {TOKEN_VARIABLE}, else that of `login`)",
    )
    group.add_argument(
        "--ca-file",
        metavar="FILE",
        help="the authority of the server's certificate, if it is one of your own",
    )


def chosen_login(options: Mapping[str, Any]) -> ServerLogin | None:
    """Returns the server that options or the environment name; ``None`` for the local one.

    Raises ``CommandError``.
    """
    named = options.get("server") or os.environ.get(SERVER_VARIABLE, "").strip()
    if not named:
        return None
    url = checked_url(named)
    stored = stored_login(url)
    token_file = options.get("token_file")
    if token_file:
        token = token_in(Path(token_file))
    else:
        token = os.environ.get(TOKEN_VARIABLE, "").strip() or (stored.token if stored else "")
    ca_file = checked_ca_file(options.get("ca_file") or (stored.ca_file if stored else ""))
    return ServerLogin(url, checked_token(token), stored.user if stored else "", ca_file)


def checked_url(text: str) -> str:
    """Returns the address in its shortest form. Raises ``CommandError``."""
    if text.startswith(UNIX):
        path = Path(text.removeprefix(UNIX)).expanduser()
        if not path.is_absolute():
            raise CommandError(f"{text}: the path must be absolute, like unix:///run/crush.sock.")
        return f"{UNIX}{path}"
    try:
        parts = urlsplit(text)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError as error:
        raise CommandError(f"{text}: {error}.") from error
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise CommandError(f"{text}: must be https://HOST, http://127.0.0.1:PORT or unix:///PATH.")
    if parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username is not None:
        raise CommandError(f"{text}: nothing may follow the host and the port.")
    if parts.scheme == "http" and not _is_this_machine(host):
        raise CommandError(f"{text}: your token would cross the network unencrypted. Use https://.")
    name = f"[{host}]" if ":" in host else host
    is_default = port is None or port == _DEFAULT_PORTS[parts.scheme]
    return f"{parts.scheme}://{name}" if is_default else f"{parts.scheme}://{name}:{port}"


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def checked_token(text: str) -> str:
    """Raises ``CommandError`` for a token that no header can hold."""
    if _NEVER_IN_TOKENS.search(text):
        raise CommandError("The token contains blanks or other characters that no token has.")
    return text


def token_in(file: Path) -> str:
    """Returns the token in a file. Raises ``CommandError``."""
    try:
        text = file.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise CommandError(f"--token-file: {file} cannot be read: {reason}.") from error
    if not text:
        raise CommandError(f"--token-file: {file} is empty.")
    return text


def checked_ca_file(path: str) -> str:
    """Raises ``CommandError`` for a file without certificates."""
    if not path:
        return ""
    full = str(Path(path).expanduser().resolve())
    try:
        tls_context(full)
    except (OSError, ssl.SSLError) as error:
        raise CommandError(
            f"--ca-file: {path} has no certificate in PEM form ({error.strerror or error})."
        ) from error
    return full


# -- the stored logins


def _folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".config") / "crush-server" / "servers"


def _file_of(url: str) -> Path:
    return _folder() / (re.sub(r"[^a-z0-9.]+", "_", url.lower()).strip("_") + ".json")


def stored_login(url: str) -> ServerLogin | None:
    """Returns the login for an address. Raises ``CommandError`` if others can read its file."""
    return _read(_file_of(url))


def stored_logins() -> list[ServerLogin]:
    """Returns all logins, by address."""
    found = [_read(file) for file in sorted(_folder().glob("*.json"))]
    return [login for login in found if login is not None]


def _read(file: Path) -> ServerLogin | None:
    try:
        mode = file.stat().st_mode & 0o777
        fields = json.loads(file.read_bytes())
        login = ServerLogin(
            **{name: str(fields[name]) for name in ("url", "token", "user", "ca_file")}
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{file} cannot be read. Remove it, and log in again.") from error
    if mode & 0o077:
        raise CommandError(f"Other users can read {file}: run `chmod 600 {file}`.")
    return login


def store_login(login: ServerLogin) -> Path:
    """Writes a login's file, which no other user can read at any moment."""
    file = _file_of(login.url)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    with suppress(FileNotFoundError):
        new.unlink()
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(asdict(login), stream)
    new.replace(file)
    return file


def remove_login(url: str) -> bool:
    """Removes a login; ``False`` if there is none."""
    file = _file_of(url)
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    return True


def unauthorised(url: str, sentence: str) -> CommandError:
    """The error for a server that does not accept the token, or misses one."""
    advice = f" Sign in with `{command_line(f'login {url}')}`."
    return CommandError(f"{url}: {sentence}.{advice}", returncode=Exit.UNAUTHORISED)
