"""What the generated operations share: requests, arguments that are not given, and pages."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

from crushclient.transport import HttpTransport, Reply


class _Absent(Enum):
    NOT_GIVEN = "not given"


NotGiven: TypeAlias = Literal[_Absent.NOT_GIVEN]
NOT_GIVEN: Final = _Absent.NOT_GIVEN


class OperationGroup:
    """The base of each group. The arguments that are ``NOT_GIVEN`` are not sent."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport

    async def _call(self, method: str, address: str, **options: Any) -> Any:
        return (await self._reply(method, address, **options)).data

    async def _read(self, method: str, address: str, **options: Any) -> bytes:
        return (await self._reply(method, address, **options)).content

    async def _iterate(
        self,
        method: str,
        address: str,
        *,
        path: Sequence[str | int] = (),
        query: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[Any]:
        cursor: Any = NOT_GIVEN
        while cursor is not None:
            page = await self._call(
                method, address, path=path, query={**(query or {}), "cursor": cursor}
            )
            for item in page["items"]:
                yield item
            cursor = page["next"]

    async def _reply(
        self,
        method: str,
        address: str,
        *,
        path: Sequence[str | int] = (),
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        **options: Any,
    ) -> Reply:
        for value in path:
            start, _, rest = address.partition("{")
            address = f"{start}{quote(str(value), safe='')}{rest.partition('}')[2]}"
        return await self._transport.request(
            method,
            address,
            query=_given(query or {}),
            body=_given(body) if isinstance(body, Mapping) else body,
            **options,
        )

    @staticmethod
    def _new_key() -> str:
        return str(uuid.uuid4())


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not NOT_GIVEN}
