"""Refuses a process whose ``secret.key`` is another one than that of the database's secrets.

Such a process could not decrypt the environments of workspaces, and would encrypt new ones that the
others cannot decrypt. The database has the fingerprint of its key, from the first start with it.
"""

from __future__ import annotations

from django.core.management import CommandError
from django.db import connection
from django.db.models import F

from crushsite.program_name import command_line
from workspaces.log.secrets import SecretsUnavailable, box
from workspaces.models import KnownKey, Workspace

NAME = "secret.key"
TRIED = 20  # environments


def require_key() -> None:
    """Raises ``CommandError`` unless this process has the key of the database. Synchronous.

    If the database has no fingerprint, it gets this key's. Creates the key of a database that
    several processes can share.
    """
    try:
        is_shared = connection.vendor != "sqlite"
        problem = key_problem(creates=is_shared and not KnownKey.objects.filter(name=NAME).exists())
        own = box().fingerprint(creates=False) if not problem else None
        if own is not None:
            KnownKey.objects.get_or_create(name=NAME, defaults={"fingerprint": own})
            problem = key_problem()  # another process may have been first
    except SecretsUnavailable as error:
        problem = error.sentence
    finally:
        connection.close()
    if problem:
        raise CommandError(problem)


def key_problem(*, creates: bool = False) -> str:
    """Returns why this process may not use the database; empty if it may."""
    try:
        own = box().fingerprint(creates=creates)
        known = KnownKey.objects.filter(name=NAME).first()
        # Without a key, the first secret creates one.
        fits = own == known.fingerprint if known else own is None or _opens_environments()
    except SecretsUnavailable as error:
        return error.sentence
    if fits:
        return ""
    fault = f"has no {NAME}" if own is None else f"has another {NAME}"
    return (
        f"The data folder {fault}, and the secrets of this database are encrypted with one that it"
        " lacks. Copy that one from another process of this server, or from a backup. If it is"
        f" lost, `{command_line('secret-key --accept')}` begins with a new one."
    )


def accept_key() -> None:
    """Makes this process's key the one of the database. Raises ``SecretsUnavailable``."""
    own = box().fingerprint(creates=True)
    assert own is not None  # noqa: S101  it was created
    KnownKey.objects.update_or_create(name=NAME, defaults={"fingerprint": own})


def _opens_environments() -> bool:
    """Whether the key opens an environment that an earlier version has stored, if there is one."""
    stored = Workspace.objects.exclude(sealed_env="").order_by(F("opened_at").desc())
    sealed = list(stored.values_list("sealed_env", flat=True)[:TRIED])
    return not sealed or any(_opens(each) for each in sealed)


def _opens(sealed: str) -> bool:
    try:
        box().open(sealed)
    except SecretsUnavailable:
        return False
    return True
