"""A full inbox stops reading from its peer, until the application has read half of it."""

from crushsite.asgi.inbox import INBOX_BYTES, Inbox


class Peer:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def pauseProducing(self) -> None:  # noqa: N802
        self.calls.append("pause")

    def resumeProducing(self) -> None:  # noqa: N802
        self.calls.append("resume")


def text(size: int) -> dict[str, str]:
    return {"type": "websocket.receive", "text": "x" * size}


async def test_large_messages_pause_the_peer() -> None:
    peer = Peer()
    inbox = Inbox(peer)
    for _ in range(4):
        inbox.put_nowait(text(INBOX_BYTES // 4))
    assert peer.calls == []
    inbox.put_nowait(text(INBOX_BYTES // 4))
    assert peer.calls == ["pause"]
    for _ in range(2):
        await inbox.get()
    assert peer.calls == ["pause"]
    await inbox.get()
    assert peer.calls == ["pause", "resume"]


async def test_many_small_messages_do_too() -> None:
    peer = Peer()
    inbox = Inbox(peer)
    for _ in range(33):
        inbox.put_nowait(text(1))
    assert peer.calls == ["pause"]
    while not inbox.empty():
        await inbox.get()
    assert peer.calls == ["pause", "resume"]


async def test_without_a_source_everything_is_kept_in_order() -> None:
    inbox = Inbox()
    for number in range(100):
        inbox.put_nowait({"type": "http.request", "body": b"x" * INBOX_BYTES, "n": number})
    assert [(await inbox.get())["n"] for _ in range(100)] == list(range(100))
