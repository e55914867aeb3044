"""What people are told of a failure holds nothing that the server was given."""

from agents.config.settings import McpSettings
from agents.tools.mcp.limits import MAX_ERROR_CHARS
from agents.tools.mcp.status import Redaction

SETTINGS = McpSettings(
    "s",
    "http",
    args=("--token", "value-after-a-flag", "--api-key=value-in-a-flag", "--level", "information"),
    url="https://user:p4ssw0rd-in-url@example.org/mcp?api_key=in-the-query",
    env={"DATABASE": "value-of-a-variable"},
    headers={"Authorization": "Bearer value-of-a-header"},
    oauth_client_secret="value-of-a-client",
)
ENV = {
    "MY_TOKEN": "value-of-the-workspace",
    "PLAIN": "opaque-value-of-the-workspace",
    "HOME": "/home/dev",
    "SHELL": "/usr/local/bin/zsh",
    "LANG": "C.UTF-8",
    "GREETING": "several words of no secret",
}
TELLING = Redaction.of(SETTINGS, ENV, path="/home/dev/project")


def test_values_that_it_was_given_are_masked_wherever_they_stand() -> None:
    for secret in (
        "value-of-a-variable",
        "value-of-a-header",
        "value-of-a-client",
        "value-of-the-workspace",
        "opaque-value-of-the-workspace",
        "value-after-a-flag",
        "value-in-a-flag",
        "p4ssw0rd-in-url",
        "in-the-query",
    ):
        assert TELLING.shown(f"failed with {secret}!") == "failed with ********!"


def test_addresses_and_assignments_lose_their_secrets() -> None:
    told = TELLING.shown(f"no answer from {SETTINGS.url} (token=abcdefgh)")
    for secret in ("p4ssw0rd", "in-the-query", "abcdefgh"):
        assert secret not in told
    assert "example.org/mcp" in told


def test_folders_stay_readable() -> None:
    assert TELLING.shown("no file /home/dev/project/x") == "no file /home/dev/project/x"


def test_what_is_no_secret_stays_readable() -> None:
    for text in ("level information", "/usr/local/bin/zsh", "C.UTF-8", ENV["GREETING"]):
        assert TELLING.shown(text) == text


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    told = TELLING.shown("begin " + "x" * 10_000 + " end")
    assert len(told) < MAX_ERROR_CHARS + 10
    assert told.startswith("begin ")
    assert told.endswith(" end")


def test_nothing_unprintable_is_told() -> None:
    assert TELLING.shown("a\x1b[31mb\x00c\nd") == "a [31mb c\nd"
