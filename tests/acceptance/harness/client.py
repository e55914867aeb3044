"""A client of the `/v1` interface, as terminal clients use it: claim, attach, prompt, cancel, answer."""

import json
import ssl
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.acceptance.harness.http import Http
from tests.acceptance.harness.project import write_whole
from tests.acceptance.harness.stream import EventStream

Json = dict[str, Any]


class Client:
    """One connection pool and any number of client ids on one server. An async context manager."""

    def __init__(self, url: str, *, token: str = "", tls: ssl.SSLContext | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else None
        self.http = Http(url, headers=headers, tls=tls)
        self._streams: list[EventStream] = []

    async def workspace(
        self,
        path: Path | str,
        *,
        client_id: str | None = None,
        yolo: bool = False,
        env: list[str] | None = None,
        **more: Any,
    ) -> "Workspace":
        """POST the path: a claim of `client_id` (a new one unless given) on its workspace."""
        client_id = client_id or str(uuid.uuid4())
        body = {"path": str(path), "client_id": client_id, "yolo": yolo, **more}
        if env is not None:
            body["env"] = env
        answer = await self.http.call("POST", "/v1/workspaces", body)
        return Workspace(self, str(answer["id"]), client_id, answer)

    async def workspaces(self) -> list[Json]:
        return list(await self.http.call("GET", "/v1/workspaces"))

    async def retire(self, client_id: str) -> None:
        await self.http.call("DELETE", f"/v1/clients/{client_id}")

    def keep(self, stream: EventStream) -> None:
        """Close this stream with the client."""
        self._streams.append(stream)

    async def close(self) -> None:
        for stream in self._streams:
            await stream.close()
        await self.http.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class Workspace:
    """One client's view of one workspace."""

    def __init__(self, client: Client, workspace_id: str, client_id: str, answer: Json) -> None:
        self.client = client
        self.id = workspace_id
        self.client_id = client_id
        self.answer = answer  # what the POST answered

    @property
    def path(self) -> Path:
        return Path(self.answer["path"])

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Any endpoint below the workspace: `call("GET", "/lsps")`. Options as `Http.call` takes them."""
        return await self.client.http.call(
            method, f"/v1/workspaces/{self.id}{path}", body, **options
        )

    # --- attaching

    async def attach(self, *, init: bool = True) -> EventStream:
        """Open this client's event stream, and start the agent as interactive clients do."""
        stream = EventStream(
            self.client.http, f"/v1/workspaces/{self.id}/events", {"client_id": self.client_id}
        )
        self.client.keep(stream)
        await stream.open()
        if init:
            await self.init()
        return stream

    async def get(self, *, expect: int = 200) -> Json:
        return dict(await self.call("GET", "", expect=expect))

    async def release(self) -> None:
        await self.call("DELETE", "", params={"client_id": self.client_id})

    async def set_current(self, session: str, *, expect: int = 200) -> None:
        await self.call(
            "POST",
            "/current-session",
            {"session_id": session},
            params={"client_id": self.client_id},
            expect=expect,
        )

    # --- sessions and messages

    async def session(self, title: str = "New Session") -> str:
        """A new session's id."""
        return str((await self.call("POST", "/sessions", {"title": title}))["id"])

    async def sessions(self) -> list[Json]:
        return list(await self.call("GET", "/sessions"))

    async def get_session(self, session: str, *, expect: int = 200) -> Json:
        return dict(await self.call("GET", f"/sessions/{session}", expect=expect))

    async def rename(self, session: str, title: str) -> Json:
        current = await self.get_session(session)
        return dict(await self.call("PUT", f"/sessions/{session}", {**current, "title": title}))

    async def delete_session(self, session: str) -> None:
        await self.call("DELETE", f"/sessions/{session}")

    async def messages(self, session: str) -> list[Json]:
        return list(await self.call("GET", f"/sessions/{session}/messages"))

    async def user_messages(self, session: str | None = None) -> list[Json]:
        path = f"/sessions/{session}/messages/user" if session else "/messages/user"
        return list(await self.call("GET", path))

    async def history(self, session: str) -> list[Json]:
        return list(await self.call("GET", f"/sessions/{session}/history"))

    # --- the agent

    async def init(self) -> None:
        await self.call("POST", "/agent/init", {"interactive": True})

    async def agent(self) -> Json:
        return dict(await self.call("GET", "/agent"))

    async def agent_session(self, session: str) -> Json:
        return dict(await self.call("GET", f"/agent/sessions/{session}"))

    async def prompt(
        self,
        session: str,
        text: str,
        run_id: str | None = None,
        *,
        attachments: list[Json] | None = None,
        expect: int = 202,
    ) -> None:
        body: Json = {"session_id": session, "prompt": text}
        if run_id is not None:
            body["run_id"] = run_id
        if attachments is not None:
            body["attachments"] = attachments
        await self.call("POST", "/agent", body, expect=expect)

    async def cancel(self, session: str) -> None:
        await self.call("POST", f"/agent/sessions/{session}/cancel")

    async def queued(self, session: str) -> int:
        return int(await self.call("GET", f"/agent/sessions/{session}/prompts/queued"))

    async def queue(self, session: str) -> list[str]:
        """The texts of the queued prompts; the wire says null for none."""
        return list(await self.call("GET", f"/agent/sessions/{session}/prompts/list") or [])

    async def clear_queue(self, session: str) -> None:
        await self.call("POST", f"/agent/sessions/{session}/prompts/clear")

    async def shell(self, session: str, command: str) -> Json:
        return dict(
            await self.call("POST", f"/agent/sessions/{session}/shell", {"command": command})
        )

    # --- permissions and questions

    async def grant(self, permission: Json, action: str = "allow") -> bool:
        """Answer a `permission_request` payload; whether this answer was the one that counted."""
        body = {"permission": permission, "action": action}
        return bool((await self.call("POST", "/permissions/grant", body))["resolved"])

    async def skips_permissions(self) -> bool:
        return bool((await self.call("GET", "/permissions/skip"))["skip"])

    async def skip_permissions(self, skip: bool = True) -> None:
        await self.call("POST", "/permissions/skip", {"skip": skip})

    async def answer_questions(self, batch_id: str, responses: list[Json]) -> bool:
        body = {"batch_request_id": batch_id, "responses": responses}
        return bool((await self.call("POST", "/questions/answer", body))["resolved"])

    # --- configuration

    async def config(self) -> Json:
        return dict(await self.call("GET", "/config"))

    def configure(self, configuration: Json) -> None:
        """Replace the project's crush.json."""
        write_whole(self.path / "crush.json", json.dumps(configuration, indent=2))
