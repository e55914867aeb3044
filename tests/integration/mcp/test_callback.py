"""The address that a browser returns to after a login."""

import aiohttp
import pytest

from agents.tools.mcp.browser_login import Callback, callback_server
from agents.tools.mcp.contract import McpFailed


async def visit(callback: Callback, **query: str) -> int:
    async with (
        aiohttp.ClientSession() as browser,
        browser.get(callback.address, params=query) as page,
    ):
        return page.status


async def test_a_code_comes_with_its_state_and_its_issuer() -> None:
    async with callback_server(0) as callback:
        callback.expect("first")
        assert await visit(callback, code="c1", state="first", iss="https://a.example") == 200
        assert await callback.code() == ("c1", "first", "https://a.example")


async def test_a_login_that_needs_a_second_code_waits_for_that_one() -> None:
    async with callback_server(0) as callback:
        callback.expect("first")
        await visit(callback, code="c1", state="first")
        assert await callback.code() == ("c1", "first", None)
        callback.expect("second")
        assert await visit(callback, code="stale", state="first") == 400
        assert await visit(callback, code="c2", state="second") == 200
        assert await callback.code() == ("c2", "second", None)


async def test_a_refused_login_can_be_followed_by_another_code() -> None:
    async with callback_server(0) as callback:
        callback.expect("first")
        assert await visit(callback, error="access_denied", state="first") == 400
        with pytest.raises(McpFailed, match="access_denied"):
            await callback.code()
        callback.expect("second")
        await visit(callback, code="c2", state="second")
        assert await callback.code() == ("c2", "second", None)
