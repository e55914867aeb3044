"""How a login presents this client to a server."""

import pytest

from agents.config.settings import McpSettings
from agents.tools.mcp.limits import McpTimeouts
from agents.tools.mcp.protocol.login import Login
from tests.doubles.mcp_backing import MemoryBacking

DOCUMENT = "https://example.org/client.json"


def login_of(**more: str) -> Login:
    settings = McpSettings("s", "http", url="https://example.org/mcp", **more)
    return Login(settings, MemoryBacking("/", {}), McpTimeouts())


async def test_a_client_id_that_is_an_address_describes_the_client_there() -> None:
    login = login_of(oauth_client_id=DOCUMENT)
    assert login.auth().context.client_metadata_url == DOCUMENT
    assert await login.get_client_info() is None  # else no server would be asked for it


@pytest.mark.parametrize(
    "given",
    [
        {"oauth_client_id": "my-client"},
        {"oauth_client_id": "http://example.org/client.json"},
        {"oauth_client_id": DOCUMENT, "oauth_client_secret": "secret"},
    ],
)
async def test_any_other_client_id_is_a_registered_client(given: dict[str, str]) -> None:
    login = login_of(**given)
    assert login.auth().context.client_metadata_url is None
    known = await login.get_client_info()
    assert known is not None
    assert known.client_id == given["oauth_client_id"]
