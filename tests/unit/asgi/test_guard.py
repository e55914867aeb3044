"""Who is answered, and how large a body may be: the guard called as plain ASGI."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crushsite.asgi.guard import Guard
from tests.unit.asgi.guarded import Echo, call, headers_of, status_of

HOST = ("Host", "localhost")

NOSNIFF = (b"x-content-type-options", b"nosniff")


LOOPBACK = [
    "localhost", "localhost:8000", "LocalHost:1", "127.0.0.1", "127.0.0.1:65535", "127.255.0.3:80",
    "[::1]", "[::1]:8000", "localhost:0",
]  # fmt: skip
FOREIGN = [
    "", " ", "evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example",
    "evil.localhost", "localhost.", "10.0.0.1", "0.0.0.0", "128.0.0.1", "127.0.0.256", "127.1",
    "127.0.0.01", "2130706433", "0x7f.0.0.1", "[::]", "[::2]", "::1", "[::1", "localhost:", "localhost:x",
    "localhost:65536", "localhost:999999", "localhost:80:80", "user@localhost", "localhost/",
    "localhost,evil.example", "localhost evil", "localhost\x00", "localhost\n", "lоcalhost".encode().decode("latin-1"),
    "١٢٧.0.0.1".encode().decode("latin-1"), "api.crush.localhost", "a" * 400, "127.0.0.1\u00b2",
]  # fmt: skip


@pytest.mark.parametrize("host", LOOPBACK)
async def test_it_answers_to_loopback_names_with_any_port(host):
    assert await status_of([("Host", host)]) == 200


@pytest.mark.parametrize("host", FOREIGN)
async def test_it_refuses_every_other_name(host):
    assert await status_of([("Host", host)]) == 403


async def test_it_judges_an_origin_for_each_host_anew():
    """One guard answers to several names; an origin is the page's own for one of them only."""
    guard = Guard(Echo())
    origin = ("Origin", "http://localhost:8000")
    for _ in range(2):
        same = await call(guard, [("Host", "localhost:8000"), origin])
        assert same[0]["status"] == 200
        other = await call(guard, [("Host", "localhost:9000"), origin])
        assert other[0]["status"] == 403
        elsewhere = await call(guard, [("Host", "127.0.0.1:8000"), origin])
        assert elsewhere[0]["status"] == 403


async def test_it_judges_a_name_the_same_the_second_time():
    guard = Guard(Echo())
    for _ in range(3):
        assert (await call(guard, [("Host", "evil.example")]))[0]["status"] == 403
        assert (await call(guard, [("Host", "localhost:1")]))[0]["status"] == 200


async def test_it_forgets_old_names_rather_than_growing():
    guard = Guard(Echo())
    for number in range(2_000):
        await call(guard, [("Host", f"h{number}.example")])
        await call(guard, [("Host", "localhost"), ("Origin", f"http://h{number}")])
    assert len(guard._hosts) <= 256
    assert len(guard._origins) <= 256
    assert (await call(guard, [("Host", "localhost")]))[0]["status"] == 200


async def test_it_refuses_a_missing_host_over_tcp():
    assert await status_of([]) == 403


async def test_it_answers_to_names_that_were_configured():
    names = {"extra_hosts": ["Crush.example", "10.0.0.1"]}
    assert await status_of([("Host", "crush.example:8000")], **names) == 200
    assert await status_of([("Host", "CRUSH.example")], **names) == 200
    assert await status_of([("Host", "10.0.0.1")], **names) == 200
    assert await status_of([("Host", "a.crush.example")], **names) == 403
    assert await status_of([("Host", "10.0.0.2")], **names) == 403


@pytest.mark.parametrize(
    "headers", [[], [("Host", "api.crush.localhost")], [("Host", "localhost")]]
)
async def test_a_socket_file_takes_its_own_name_or_none(headers):
    assert await status_of(headers, unix=True) == 200


async def test_a_socket_file_takes_no_foreign_name():
    assert await status_of([("Host", "evil.example")], unix=True) == 403


@pytest.mark.parametrize(
    "name",
    ["Host", "Origin", "Content-Length", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"],
)
@pytest.mark.parametrize("value", ["localhost", "1"])
async def test_it_refuses_a_header_that_is_sent_twice(name, value):
    headers = [("Host", "localhost"), (name, value), (name, value)]
    assert await status_of(headers) == 400


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("localhost:8000", "HTTP://LOCALHOST:8000"),
        ("localhost", "http://localhost"),
        ("localhost", "http://localhost:80"),
        ("localhost:80", "http://localhost"),
        ("localhost", "https://localhost"),
        ("localhost:443", "https://localhost"),
        ("127.0.0.1:1", "http://127.0.0.1:1"),
        ("[::1]:1", "http://[::1]:1"),
        ("localhost:1", "ws://localhost:1"),
        ("localhost:1", "wss://localhost:1"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_it_answers_its_own_pages(host, origin, method):
    assert await status_of([("Host", host), ("Origin", origin)], method=method) == 200


@pytest.mark.parametrize(
    "origin",
    [
        "null", "", "http://evil.example", "http://localhost:8001", "http://localhost", "https://localhost",
        "http://127.0.0.1:8000", "http://[::1]:8000", "file://", "http://", "localhost:8000",
        "chrome-extension://localhost:8000", "http://localhost:8000/", "http://localhost:8000.evil.example",
        "http://localhost:8000@evil.example", "http://evil.example#http://localhost:8000",
        "http://localhost:8000 http://evil.example", "ftp://localhost:8000", "//localhost:8000", "http:localhost:8000",
        "http://" + "a" * 400,
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_it_refuses_pages_of_any_other_origin(origin, method):
    headers = [("Host", "localhost:8000"), ("Origin", origin)]
    assert await status_of(headers, method=method) == 403


async def test_it_refuses_an_origin_where_there_is_no_host_to_compare():
    assert await status_of([("Origin", "http://localhost")], unix=True) == 403


@pytest.mark.parametrize(
    ("site", "method", "status"),
    [
        ("cross-site", "POST", 403),
        ("Cross-Site ", "DELETE", 403),
        ("cross-site", "PROPFIND", 403),
        ("cross-site", "GET", 403),
        ("cross-site", "HEAD", 403),
        ("cross-site", "OPTIONS", 403),
        ("same-site", "GET", 403),  # another port of this host
        ("same-site", "POST", 403),
        ("same-origin", "POST", 200),
        ("same-origin", "GET", 200),
        ("none", "POST", 200),
        ("none", "GET", 200),
    ],
)
async def test_it_refuses_what_another_site_requests(site, method, status):
    headers = [("Host", "localhost"), ("Sec-Fetch-Site", site)]
    assert await status_of(headers, method=method) == status


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site "])
@pytest.mark.parametrize(
    ("method", "mode", "target", "status"),
    [
        ("GET", "navigate", "document", 200),  # a link that a person follows
        ("GET", "Navigate", " Document", 200),
        ("POST", "navigate", "document", 403),  # a form
        ("GET", "navigate", "iframe", 403),
        ("GET", "navigate", "object", 403),
        ("GET", "no-cors", "image", 403),
        ("GET", "no-cors", "document", 403),
        ("GET", "cors", "empty", 403),
        ("GET", "navigate", "", 403),
    ],
)
async def test_of_another_site_only_links_are_followed(site, method, mode, target, status):
    headers = [("Host", "localhost"), ("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode)]
    headers += [("Sec-Fetch-Dest", target)] if target else []
    assert await status_of(headers, method=method) == status


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Host", "evil.example")],
        [("Host", "localhost"), ("Host", "localhost")],
        [("Host", "localhost"), ("Origin", "null")],
        [("Host", "localhost"), ("Origin", "http://evil.example")],
        [("Host", "localhost"), ("Sec-Fetch-Site", "cross-site")],
        [("Host", "localhost"), ("Sec-Fetch-Site", "same-site")],
    ],
)
async def test_it_closes_a_websocket_before_it_is_accepted(headers):
    app = Echo()
    sent = await call(Guard(app), headers, kind="websocket")
    assert [message["type"] for message in sent] == ["websocket.close"]
    assert app.calls == []


async def test_it_lets_its_own_websockets_pass():
    headers = [("Host", "localhost:8000"), ("Origin", "http://localhost:8000")]
    sent = await call(Guard(Echo()), headers, kind="websocket")
    assert sent == [{"type": "websocket.accept"}]


@pytest.mark.parametrize("kind", ["lifespan", "channel", "something new"])
async def test_it_does_not_touch_what_is_no_request(kind):
    app = Echo()

    async def unused(*_):
        raise AssertionError

    scope = {"type": kind}
    await Guard(app)(scope, unused, unused)
    assert app.calls == [scope]


async def test_it_hides_no_error_of_the_application():
    async def broken(scope, receive, send):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await call(Guard(broken), [HOST])


async def test_it_hands_on_the_clients_leaving():
    seen = []

    async def app(scope, receive, send):
        seen.append(await receive())

    async def receive():
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "headers": headers_of([HOST])}
    await Guard(app)(scope, receive, None)
    assert seen == [{"type": "http.disconnect"}]


async def test_it_forbids_guessing_the_kind_of_an_answer():
    for headers in ([HOST], []):
        start, _ = await call(Guard(Echo([(b"a", b"b")])), headers)
        assert NOSNIFF in start["headers"]


async def test_it_forbids_guessing_only_once():
    given_already = [(b"X-Content-Type-Options", b"nosniff")]
    start, _ = await call(Guard(Echo(given_already)), [HOST])
    assert start["headers"] == given_already


@given(st.binary(max_size=40), st.binary(max_size=40))
async def test_it_never_raises_on_any_header(host, origin):
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": "GET", "headers": [(b"host", host), (b"origin", origin)]}
    await Guard(Echo())(scope, receive, send)
    assert sent[0]["status"] == 403
