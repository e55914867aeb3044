"""Every stream refuses each wrong identity, and clients that have left for good."""

import aiohttp
import pytest

from tests.integration.delivery.conftest import CLIENT, Site
from tests.integration.rights import wrong_callers
from workspaces.access import Right
from workspaces.log.writer import writer
from workspaces.models import RetiredClient

STREAMS = ("v1", "native", "socket")


async def status_of(site: Site, stream: str) -> int:
    query = f"client_id={CLIENT}"
    if stream == "socket":
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await site.session.ws_connect(site.socket(query))
        return refused.value.status
    url = site.v1() if stream == "v1" else site.native(query)
    async with site.session.get(url) as answer:
        return answer.status


@pytest.mark.parametrize("stream", STREAMS)
async def test_a_stream_refuses_wrong_identities(site: Site, stream: str) -> None:
    async with wrong_callers(Right.READ, site.workspace_id) as wrong:
        for one in wrong:
            site.application.caller = one.caller
            assert await status_of(site, stream) == one.status, one.name


@pytest.mark.parametrize("stream", STREAMS)
async def test_a_stream_refuses_a_retired_client(site: Site, stream: str) -> None:
    await writer.write("", lambda _: RetiredClient.objects.create(client_id=CLIENT))
    assert await status_of(site, stream) == 409
