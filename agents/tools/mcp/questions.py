"""What a stateless server asks before it answers a request, and the request sent again with it.

Nobody is there to answer a server's questions: a question to a person is
declined, a question to a model is refused, and the workspace's folder is told
to a command alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import mcp_types as types
from mcp import ClientSession
from mcp.client import ClientRequestContext
from mcp.client._input_required import run_input_required_driver
from pydantic import BaseModel, TypeAdapter

Result = TypeVar("Result", bound=BaseModel)
Send = Callable[
    [types.InputResponses | None, str | None], Awaitable[Result | types.InputRequiredResult]
]

CALLED: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


async def answered(session: ClientSession, send: Send[Result]) -> Result:
    """The request's result, whatever the server asks before. Raises what the package raises."""
    first = await send(None, None)
    if not isinstance(first, types.InputRequiredResult):
        return first

    async def answer(
        key: str, question: types.InputRequest
    ) -> types.InputResponse | types.ErrorData:
        if isinstance(question, types.ElicitRequest):
            return types.ElicitResult(action="decline")
        context = ClientRequestContext(session=session, request_id=key)
        return await session.dispatch_input_request(context, question)

    return await run_input_required_driver(first, dispatch=answer, retry=send)
