"""Typed readers for environment variables. A bad value raises an error with its name."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from workspaces.placement.roots import BadPlacement, Root, parse_labels, parse_roots


def read_text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def read_seconds(name: str, default: float) -> float:
    raw = read_text(name)
    if not raw:
        return default
    try:
        seconds = float(raw.removesuffix("s"))
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a number of seconds, not {raw!r}.") from None
    if not 0 <= seconds <= 86_400:
        raise ImproperlyConfigured(f"{name} must be between 0 and 86400 seconds, not {raw!r}.")
    return seconds


def read_number(name: str, default: int, *, low: int, high: int) -> int:
    raw = read_text(name)
    if not raw:
        return default
    if not raw.isdecimal() or not low <= int(raw) <= high:
        raise ImproperlyConfigured(
            f"{name} must be a whole number from {low} to {high}, not {raw!r}."
        )
    return int(raw)


def read_networks(name: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Reads addresses and networks with commas between them."""
    try:
        return tuple(
            ipaddress.ip_network(part.strip())
            for part in read_text(name).split(",")
            if part.strip()
        )
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{name}: {error}. It must be addresses or networks, like 10.0.0.5,10.1.0.0/16."
        ) from error


def read_flag(name: str) -> bool:
    raw = read_text(name).lower()
    if raw in {"", "0", "false", "no", "off"}:
        return False
    if raw in {"1", "true", "yes", "on"}:
        return True
    raise ImproperlyConfigured(f"{name} must be 1 or 0, not {raw!r}.")


def read_list(name: str) -> tuple[str, ...]:
    """Returns the values of a list with commas."""
    return tuple(part.strip() for part in read_text(name).split(",") if part.strip())


def read_roots(name: str) -> tuple[Root, ...]:
    """Reads roots, NAME=/path with commas."""
    try:
        return parse_roots(read_list(name))
    except BadPlacement as error:
        raise ImproperlyConfigured(f"{name}: {error}.") from error


def read_labels(name: str) -> tuple[str, ...]:
    try:
        return parse_labels(read_list(name))
    except BadPlacement as error:
        raise ImproperlyConfigured(f"{name}: {error}.") from error


EMAIL_SECONDS = 10


def email(url: str) -> dict[str, Any]:
    """Django's settings for the mail server of a URL: ``smtp://``, with TLS ``smtps://``.

    ``smtp://`` uses STARTTLS, unless ``?tls=off`` allows a connection that anyone may read.
    """
    if not url:
        return {}
    parts = urlsplit(url)
    if parts.scheme not in {"smtp", "smtps"} or not parts.hostname:
        raise ImproperlyConfigured(
            "CRUSH_EMAIL_URL must be smtp://USER:PASSWORD@HOST:PORT, or smtps:// for TLS from the start."
        )
    is_tls = parts.scheme == "smtps"
    return {
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": parts.port or (465 if is_tls else 587),
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_SSL": is_tls,
        "EMAIL_USE_TLS": not is_tls and _query(parts.query).get("tls") != "off",
        "EMAIL_TIMEOUT": EMAIL_SECONDS,
    }


SHORTEST_SECRET = 16


def read_secret_file(name: str) -> str:
    """Reads the secret in the file that a variable names; empty without the variable."""
    file = read_text(name)
    if not file:
        return ""
    try:
        secret = Path(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"{name}: {file} cannot be read: {error}.") from error
    if len(secret) < SHORTEST_SECRET:
        raise ImproperlyConfigured(
            f"{name}: {file} has fewer than {SHORTEST_SECRET} characters, so it can be guessed."
        )
    return secret


def read_choice(name: str, choices: Sequence[str]) -> str:
    """Reads one of the choices; the first is the default."""
    raw = read_text(name, choices[0]).lower()
    if raw not in choices:
        known = f"{', '.join(choices[:-1])} or {choices[-1]}"
        raise ImproperlyConfigured(f"{name} must be {known}, not {raw!r}.")
    return raw


def require_module(module: str, *, setting: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ImproperlyConfigured(
            f"{setting} needs {module}: install it with `pip install 'crush-server[{extra}]'`."
        )


def openid_provider(
    url: str, *, name: str, client_id: str, secret_file: str
) -> dict[str, dict[str, Any]]:
    """django-allauth's settings for one provider; empty without a URL."""
    if not url:
        return {}
    if not client_id or not secret_file:
        raise ImproperlyConfigured(
            "CRUSH_OIDC_URL needs CRUSH_OIDC_CLIENT_ID and CRUSH_OIDC_SECRET_FILE."
        )
    try:
        secret = Path(secret_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(
            f"CRUSH_OIDC_SECRET_FILE: {secret_file} cannot be read: {error}."
        ) from error
    app = {
        "provider_id": "oidc",
        "name": name,
        "client_id": client_id,
        "secret": secret,
        "settings": {"server_url": url, "oauth_pkce_enabled": True},
    }
    return {"openid_connect": {"APPS": [app]}}


def data_dir() -> Path:
    """``CRUSH_DATA_DIR``, or a folder of ours under the user's data home."""
    chosen = read_text("CRUSH_DATA_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    home = read_text("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "crush-server"


def database(url: str, *, folder: Path) -> dict[str, Any]:
    """Django's database settings: SQLite in ``folder`` unless a URL names PostgreSQL."""
    if not url:
        return _sqlite(folder / "server.sqlite3")
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return _sqlite(Path(unquote(parts.path)))
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(
            "DATABASE_URL must begin with postgres:// or sqlite://; leave it empty for SQLite in the data folder."
        )
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "CONN_HEALTH_CHECKS": True,
        "CONN_MAX_AGE": None,  # threads that end close theirs (``workspaces.log.reader``)
        "OPTIONS": _postgres_options(_query(parts.query)),
        # Not psycopg's own option: it would keep the texts of the ORM, which contain the values.
        "PREPARED_AFTER": _prepared_after(_query(parts.query)),
    }


# A process that freezes or vanishes inside a transaction must not lock its rows for long, and both
# client and server must drop a connection whose other end is gone.
_SESSION = {
    "idle_in_transaction_session_timeout": "3s",
    "lock_timeout": "1s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "5s",
}
_CONNECTION = {
    "connect_timeout": "3",
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "5000",
    "application_name": "crush-server",
}


PREPARED_NAME = "prepare_threshold"
PREPARED_AFTER = 5


def _postgres_options(given: Mapping[str, str]) -> dict[str, str]:
    """Merges our options with the URL's, which win: a session parameter's last value counts."""
    session = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
    options = f"{session} {given.get('options', '')}".strip()
    others = {name: value for name, value in given.items() if name != PREPARED_NAME}
    return {**_CONNECTION, **others, "options": options}


def _prepared_after(given: Mapping[str, str]) -> int | None:
    """Returns how often a statement by hand is executed before it is prepared; None: never."""
    threshold = given.get(PREPARED_NAME, str(PREPARED_AFTER))
    if threshold != "none" and not threshold.isdecimal():
        raise ImproperlyConfigured(
            f"{PREPARED_NAME} in DATABASE_URL must be a number, or none if a pooler cannot keep"
            " prepared statements."
        )
    return None if threshold == "none" else int(threshold)


def _sqlite(path: Path) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 30,
            # NORMAL in WAL mode: a commit survives the death of any process; only a power failure
            # may lose the last commits. FULL costs an fsync per commit, 4.4 ms instead of 0.03 ms
            # (`python -m tests.bench.bypasses synchronous`).
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=%s;"
            % ("FULL" if read_flag("CRUSH_SQLITE_FSYNC") else "NORMAL"),
        },
        "TEST": {"NAME": str(path.with_name("test.sqlite3"))},
    }


def _query(query: str) -> Mapping[str, str]:
    pairs = (item.partition("=") for item in query.split("&") if item)
    return {unquote(key): unquote(value) for key, _, value in pairs}


def channel_layers(url: str, *, prefix: str) -> dict[str, Any]:
    """The in-memory layer of one process, or Redis between several."""
    if not url:
        return {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    return {
        "default": {
            "BACKEND": "workspaces.delivery.redis_layer.RedisLayer",
            "CONFIG": {"url": url, "prefix": prefix},
        }
    }


def read_or_create_secret_key(folder: Path) -> str:
    """Returns the key. Of several processes that create it, the first to link its file wins."""
    given = os.environ.get("CRUSH_SECRET_KEY", "")
    if given:
        return given
    path = folder / "django.key"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        mine = folder / f".django.key.{os.getpid()}.{secrets.token_hex(4)}"
        descriptor = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(64))
        try:
            os.link(mine, path)
        except FileExistsError:
            pass
        finally:
            mine.unlink()
    return path.read_text()
