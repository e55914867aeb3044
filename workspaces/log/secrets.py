"""Encrypts stored secrets with a key in a file of its own.

Uses no database and no setting: it gets the key file's path, creates the file once, and refuses a
file that others can read. No key or secret appears in an error or a repr.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import secrets
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from workspaces.log.errors import Refusal

if TYPE_CHECKING:
    from cryptography.fernet import Fernet


_MAX_KEY_BYTES = 1_024
_CONSTANT = b"the fingerprint of a secret.key"


class SecretsUnavailable(Refusal):
    """Secrets cannot be sealed or opened; the sentence says what to do about it."""

    code = "secrets_unavailable"
    status = 503


class SecretBox:
    """Encrypts and decrypts texts. The key is read, or created, at the first use.

    Thread-safe; several processes may use one key file, even while it is created. Every method
    may raise ``SecretsUnavailable``.
    """

    __slots__ = ("_fernet", "_path")

    def __init__(self, key_file: Path) -> None:
        self._path = key_file
        self._fernet: Fernet | None = None

    def seal(self, text: str) -> str:
        # Variables may contain invalid UTF-8, which Python represents as surrogates.
        return self._cipher().encrypt(text.encode("utf-8", "surrogatepass")).decode("ascii")

    def open(self, token: str) -> str:
        from cryptography.fernet import InvalidToken  # noqa: PLC0415  see `_cipher`

        try:
            return self._cipher().decrypt(token.encode()).decode("utf-8", "surrogatepass")
        except (InvalidToken, UnicodeError):
            # Without the cause: a decoding error would contain part of the text.
            raise SecretsUnavailable(
                f"A stored secret does not fit the key in {self._path}: it was sealed with another "
                "key or is damaged. Put the former key file back, or enter the secret again."
            ) from None

    def seal_env(self, env: Mapping[str, str]) -> str:
        return self.seal(json.dumps(dict(env), separators=(",", ":")))

    def open_env(self, token: str) -> dict[str, str]:
        text = self.open(token)
        try:
            env = json.loads(text)
        except ValueError:
            env = None
        if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
            raise SecretsUnavailable("A stored secret is not an environment.")
        return env

    def fingerprint(self, *, creates: bool) -> str | None:
        """Returns what identifies the key and does not reveal it.

        ``None`` if there is no key yet, unless this ``creates`` it.
        """
        key = self._key() if creates else _read_key(self._path)
        return None if key is None else hmac.new(key, _CONSTANT, "sha256").hexdigest()

    def _key(self) -> bytes:
        """Returns the key, and creates it at its first use."""
        key = _read_key(self._path)
        if key is None:
            # As Fernet.generate_key makes it.
            _create_key(self._path, base64.urlsafe_b64encode(os.urandom(32)))
            # Read the file again, because another process may have created it first.
            key = _read_key(self._path)
            if key is None:
                raise SecretsUnavailable(f"{self._path} cannot be made: its folder is none.")
        return key

    def _cipher(self) -> Fernet:
        if self._fernet is None:
            from cryptography.fernet import Fernet  # noqa: PLC0415  10 MB, which a process without secrets does not need

            key = self._key()
            try:
                self._fernet = Fernet(key)
            except ValueError:
                raise SecretsUnavailable(
                    f"{self._path} does not hold a key. Put the former one back, or remove the "
                    "file to begin with a new key and lose what was sealed."
                ) from None
        return self._fernet


def _read_key(path: Path) -> bytes | None:
    try:
        # O_NONBLOCK, because the file could be a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SecretsUnavailable(f"{path} cannot be read: {error.strerror}.") from None
    try:
        _check_private(path, os.fstat(descriptor))
        return os.read(descriptor, _MAX_KEY_BYTES).strip()
    finally:
        os.close(descriptor)


def _check_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SecretsUnavailable(f"{path} is not a file.")
    if status.st_mode & 0o077:
        raise SecretsUnavailable(
            f"{path} can be read or changed by other users (mode {status.st_mode & 0o777:04o}). "
            f"If no one else has read it, run: chmod 600 {path}"
        )
    if status.st_uid not in {os.geteuid(), 0}:
        raise SecretsUnavailable(f"{path} belongs to another user.")


def _create_key(path: Path, key: bytes) -> None:
    """Creates the key file atomically; never replaces an existing one."""
    mine = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}")
    try:
        _make_private_folder(path.parent)
        descriptor = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(key)
                file.flush()
                # Encrypted data may reach the disk first, and would be lost without the key.
                os.fsync(descriptor)
            # ``link`` fails if the name exists; ``rename`` would replace the other process's key.
            os.link(mine, path)
            _sync_folder(path.parent)
        finally:
            mine.unlink()
    except FileExistsError:
        return
    except OSError as error:
        raise SecretsUnavailable(f"{path} cannot be made: {error.strerror}.") from None


def _make_private_folder(folder: Path) -> None:
    # ``mkdir(parents=True)`` applies the mode only to the last folder.
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@cache
def box() -> SecretBox:
    return SecretBox(settings.DATA_DIR / "secret.key")
