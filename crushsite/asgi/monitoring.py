"""The application of a worker that listens: its state and its metrics, and nothing else."""

from __future__ import annotations

from crushsite.asgi.guard import Application, Receive, Scope, Send
from crushsite.asgi.routing import MONITORED, Router
from crushsite.process import ServerProcess

MONITORING_URLS = "crushsite.monitoring.views"


def only_monitoring(server: ServerProcess) -> Application:
    """Returns the application of a process that has no clients."""
    router = Router(server, urlconf=MONITORING_URLS)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()  # the handshake; closing instead of accepting sends a 403
            await send({"type": "websocket.close", "code": 1008})
        elif scope["path"] in MONITORED:
            await router(scope, receive, send)
        else:
            await router.api(scope, receive, send)  # it answers 404

    return application
