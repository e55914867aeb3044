"""Folders' trust as the ``trust`` command sees it: through the running server, else right here."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.conf import settings
from django.core.management import CommandError

from crushsite.database import require_database
from crushsite.server_client import (
    RunningServer,
    ServerGone,
    ServerRefused,
    find_running_server,
)
from workspaces.actions.trust import revoke_trust, set_trust
from workspaces.config.cache import config_of_folder
from workspaces.queries.trust import answered_requests, shown_answer, shown_trust
from workspaces.storage.writer import writer

PATH = "/api/trust"
ALLOW, DENY, REVOKE = "allow", "deny", "revoke"


class FolderTrusts:
    def __init__(self) -> None:
        self._server = find_running_server(settings.DATA_DIR)
        if self._server is None:
            require_database()

    def answers(self) -> list[dict[str, Any]]:
        if self._server is not None:
            listed: list[dict[str, Any]] = _call(self._server, "GET")["answers"]
            return listed
        return [shown_answer(request) for request in answered_requests("")]

    def shown(self, path: str) -> dict[str, Any]:
        """Raises ``CommandError``."""
        if self._server is not None:
            shown: dict[str, Any] = _call(self._server, "GET", query={"path": path})
            return shown
        return shown_trust(config_of_folder(path))

    def answer(self, path: str, answer: str, *, digest: str = "") -> dict[str, Any]:
        """``digest`` is that of what was shown. Raises ``CommandError``."""
        if self._server is not None:
            body = {"path": path, "answer": answer, "digest": digest}
            answered: dict[str, Any] = _call(self._server, "POST", body)
            return answered
        if answer == REVOKE:
            writer.write_and_wait("", partial(revoke_trust, path=path))
        else:
            config = config_of_folder(path)
            if config.trust.powers.digest != digest:
                raise CommandError("The folder's configuration has changed meanwhile: try again.")
            is_allowed = answer == ALLOW
            job = partial(set_trust, path=path, config=config, is_allowed=is_allowed)
            writer.write_and_wait("", job)
        return self.shown(path)


def _call(
    server: RunningServer,
    method: str,
    body: dict[str, str] | None = None,
    *,
    query: dict[str, str] | None = None,
) -> Any:
    try:
        return server.call(method, PATH, body, query=query)
    except ServerRefused as refusal:
        raise CommandError(refusal.sentence) from refusal
    except ServerGone as error:
        raise CommandError(f"The server is gone: {error}") from error
