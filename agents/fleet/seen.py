"""Which messages a consumer has taken: the newest 4,096 ids.

Pure. A mailbox delivers at least once; this makes it once for a consumer that
keeps the set beside its own state.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from agents.fleet.documents import BadDocument, written

CAPACITY = 4096


class Seen:
    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._ids: dict[str, None] = {}  # in the order of their coming
        for message_id in ids:
            self.admit(message_id)

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def admit(self, message_id: str) -> bool:
        """Whether it is new. Then the oldest gives way when there are too many."""
        if message_id in self._ids:
            return False
        self._ids[message_id] = None
        if len(self._ids) > CAPACITY:
            del self._ids[next(iter(self._ids))]
        return True

    def encode(self) -> bytes:
        """A plain array, oldest first."""
        return written(list(self._ids))

    @classmethod
    def decode(cls, data: bytes) -> Seen:
        """Raises ``BadDocument``."""
        try:
            ids = orjson.loads(data)
        except orjson.JSONDecodeError:
            raise BadDocument("The ids seen are not one JSON document.") from None
        if not isinstance(ids, list) or not all(isinstance(item, str) for item in ids):
            raise BadDocument("The ids seen must be a list of texts.")
        return cls(ids)
