"""How the account page names browsers."""

import pytest

from people.pages.account import short_name

MOZILLA = "Mozilla/5.0"
WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (
            f"{MOZILLA} (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            "Firefox on Linux",
        ),
        (
            f"{MOZILLA} (X11; Linux x86_64) {WEBKIT} HeadlessChrome/156.0 Safari/537.36",
            "Chrome on Linux",
        ),
        (f"{MOZILLA} (Windows NT 10.0) {WEBKIT} Chrome/1 Safari/1 Edg/1", "Edge on Windows"),
        (f"{MOZILLA} (Linux; Android 16) {WEBKIT} Chrome/1 Mobile Safari/1", "Chrome on Android"),
        (f"{MOZILLA} (iPhone; like Mac OS X) {WEBKIT} Version/26 Safari/1", "Safari on iPhone"),
        ("curl/8.1", "curl/8.1"),
        ("x" * 100, "x" * 40),
        ("", "unknown browser"),
    ],
)
def test_a_browser_has_the_name_that_people_use(agent: str, name: str) -> None:
    assert short_name(agent) == name
