"""JSON-RPC with one language server: requests in both directions, and notifications.

It never waits for the server to read, and limits the unread output. When the
connection ends for any reason, every open request fails and ``gone`` holds the
reason. The module does not interpret methods.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import orjson

HEADER_LIMIT = 8 * 1024
BODY_LIMIT = 32 * 1024 * 1024
IN_A_THREAD = 128 * 1024  # a larger body is parsed in a thread, to keep the event loop free


class BrokenPeer(Exception):
    """The input is not a message. The error text gives the reason and quotes no input."""


async def read_message(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Reads the next message; ``None`` at the end. Raises ``BrokenPeer``."""
    try:
        header = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise BrokenPeer("its output ends inside a header") from None
        return None
    except asyncio.LimitOverrunError:
        raise BrokenPeer("it writes text to its output that is no message") from None
    size = _length(header)
    try:
        body = await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        raise BrokenPeer("its output ends inside a message") from None
    try:
        if size > IN_A_THREAD:
            message = await asyncio.to_thread(orjson.loads, body)
        else:
            message = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise BrokenPeer("one of its messages is not JSON") from None
    if not isinstance(message, dict):
        raise BrokenPeer("one of its messages is not an object")
    return message


def encode(message: dict[str, Any]) -> bytes:
    body = orjson.dumps(message)
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def _length(header: bytes) -> int:
    if len(header) > HEADER_LIMIT:
        raise BrokenPeer("one of its headers is too long")
    found: int | None = None
    for line in header.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon and name.strip().lower() == b"content-length":
            digits = value.strip()
            if found is not None or not digits.isdigit() or len(digits) > 12:
                raise BrokenPeer("one of its headers has no valid length")
            found = int(digits)
    if found is None:
        raise BrokenPeer("one of its headers has no valid length")
    if found > BODY_LIMIT:
        raise BrokenPeer(f"one of its messages is larger than {BODY_LIMIT:,} bytes")
    return found


logger = logging.getLogger(__name__)

UNREAD_LIMIT = 32 * 1024 * 1024  # of the output that the server has not read yet
_MESSAGES_A_TURN = 100  # messages to handle before yielding to the event loop
_MESSAGE_CHARS = 300
METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603


class RequestFailed(Exception):
    """A request failed. People and models may read the message."""


class NoSuchMethod(Exception):
    """``on_request`` raises it for a method that the client does not support."""


class LspPeer:
    def __init__(
        self,
        reader: asyncio.StreamReader,
        transport: asyncio.WriteTransport,
        *,
        on_request: Callable[[str, Any], Any],
        on_notification: Callable[[str, Any], None],
        clean: Callable[[str], str] = str,
    ) -> None:
        """Callbacks must not block. ``clean`` removes secrets from the server's error messages."""
        self._reader = reader
        self._transport = transport
        self._on_request = on_request
        self._on_notification = on_notification
        self._clean = clean
        self._open: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self.gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._listen(), name="language-server")

    async def request(self, method: str, params: Any, *, seconds: float) -> Any:
        """Sends a request and returns its result. Raises ``RequestFailed``."""
        if self.gone.done():
            raise RequestFailed("The language server has ended.")
        self._last_id += 1
        number = self._last_id
        future = asyncio.get_running_loop().create_future()
        self._open[number] = future
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            self.notify("$/cancelRequest", {"id": number})
            raise RequestFailed(
                f"The language server did not respond to {method} within {seconds:g} s."
            ) from None
        except asyncio.CancelledError:
            self.notify("$/cancelRequest", {"id": number})
            raise
        finally:
            self._open.pop(number, None)

    def notify(self, method: str, params: Any) -> None:
        if not self.gone.done():
            self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def end(self, why: str) -> None:
        """Closes the connection. Idempotent; the first reason is kept."""
        if not self.gone.done():
            self.gone.set_result(why)
        for future in self._open.values():
            if not future.done():
                future.set_exception(RequestFailed("The language server has ended."))
        self._task.cancel()
        self._transport.close()

    def _send(self, message: dict[str, Any]) -> None:
        if self._transport.is_closing():
            return self.end("its input is closed")
        self._transport.write(encode(message))
        if self._transport.get_write_buffer_size() > UNREAD_LIMIT:
            self._transport.abort()
            self.end("it does not read its input")
        return None

    async def _listen(self) -> None:
        why = "it has closed its output"
        try:
            count = 0
            while (message := await read_message(self._reader)) is not None:
                self._take(message)
                count += 1
                if count % _MESSAGES_A_TURN == 0:
                    await asyncio.sleep(0)
        except BrokenPeer as broken:
            why = str(broken)
        except OSError as error:
            why = f"its output cannot be read: {error.strerror}"
        except Exception:
            logger.exception("a message of a language server could not be handled")
            why = "one of its messages could not be handled"
        self.end(why)

    def _take(self, message: dict[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        if isinstance(method, str):
            if number is None:
                self._on_notification(method, message.get("params"))
            elif isinstance(number, int | str):
                self._answer(number, method, message.get("params"))
            return
        future = self._open.get(number) if isinstance(number, int) else None
        if future is None or future.done():
            return  # a late response: its request was cancelled
        error = message.get("error")
        if error is not None:
            text = self._clean(_error_message(error))[:_MESSAGE_CHARS]
            future.set_exception(RequestFailed(f"The language server returned an error: {text}"))
        else:
            future.set_result(message.get("result"))

    def _answer(self, number: int | str, method: str, params: Any) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
        try:
            answer["result"] = self._on_request(method, params)
        except NoSuchMethod:
            answer["error"] = {"code": METHOD_NOT_FOUND, "message": "not supported"}
        except Exception:
            logger.exception("a request of a language server could not be answered")
            answer["error"] = {"code": INTERNAL_ERROR, "message": "failed"}
        self._send(answer)


def _error_message(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else None
    text = " ".join(message.split()) if isinstance(message, str) else ""
    return text[: 10 * _MESSAGE_CHARS] or "without a reason"
