"""A web site on loopback that does what each path says. Knows nothing of the code under test.

Run it in a test's own event loop with ``async with web_site() as site``, or as a
program, which prints ``listening http://127.0.0.1:PORT``.
"""

from __future__ import annotations

import asyncio
import gzip
import signal
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

PAGE = """<!doctype html><html><head><title>The  title</title><style>p {}</style></head><body>
<nav><a href="/menu">Menu</a></nav>
<h1>Heading</h1><p>Some <b>bold</b> words and a <a href="other?x=1">link</a>.</p>
<ul><li>one</li><li>two</li></ul><script>alert("no")</script><!-- a remark -->
<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<pre><code>x = 1\ny = 2</code></pre><img src="data:image/png;base64,AAAA" alt="pic">
<footer>Imprint</footer></body></html>"""

RESULTS = """<html><body><div class="results">
<div class="result results_links result--ad"><h2><a class="result__a"
 href="https://duckduckgo.com/y.js?ad=1">An advertisement</a></h2></div>
<div class="result results_links web-result"><h2 class="result__title"><a class="result__a"
 href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.org%2Ffirst%3Fa%3D1%26b%3D2&amp;rut=x">First <b>hit</b></a></h2>
<a class="result__snippet" href="x">What the <b>first</b> page says.</a></div>
<div class="result results_links web-result"><h2><a class="result__a" href="https://example.org/second">Second</a></h2></div>
</div></body></html>"""

CODE = {
    "data": {
        "search": {
            "results": {
                "matchCount": 2,
                "limitHit": True,
                "timedout": [],
                "alert": None,
                "results": [
                    {
                        "__typename": "FileMatch",
                        "repository": {"name": "github.com/a/b"},
                        "file": {
                            "path": "src/x.go",
                            "url": "/github.com/a/b/-/blob/src/x.go",
                            "content": "".join(f"line {n}\n" for n in range(1, 41)),
                        },
                        "lineMatches": [{"preview": "line 20", "lineNumber": 19}],
                    },
                    {"__typename": "Repository", "name": "github.com/a/b"},
                ],
            }
        }
    }
}


@dataclass
class Site:
    url: str = ""
    requests: list[web.Request] = field(default_factory=list)
    resume: asyncio.Event = field(default_factory=asyncio.Event)  # `/slow` waits in its middle

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


async def answer(request: web.Request, site: Site) -> web.StreamResponse:
    query = request.query
    match request.path.strip("/").split("/")[0]:
        case "page":
            return web.Response(text=PAGE, content_type="text/html")
        case "text":
            return web.Response(text="plain <b>words</b>\n")
        case "json":
            return web.json_response({"a": 1})
        case "long":
            text = "".join(f"<p>paragraph {n} of many</p>" for n in range(int(query["n"])))
            return web.Response(text=f"<title>Long</title>{text}", content_type="text/html")
        case "big":
            return await streamed(request, b"x" * 65536, int(query["n"]))
        case "sized":
            return web.Response(body=b"y" * int(query["n"]), content_type="application/zip")
        case "claims":  # more than is there, which breaks off
            response = web.StreamResponse(headers={"Content-Length": query["n"]})
            await response.prepare(request)
            await response.write(b"z" * 1000)
            assert request.transport is not None
            request.transport.close()
            return response
        case "bytes":
            return web.Response(
                body=bytes.fromhex(query["hex"]), headers={"Content-Type": query["type"]}
            )
        case "gzip":
            return packed("gzip", gzip.compress(PAGE.encode()))
        case "deflate":
            return packed("deflate", zlib.compress(PAGE.encode()))
        case "raw-deflate":
            return packed("deflate", zlib.compress(PAGE.encode())[2:-4])
        case "broken-gzip":
            return packed("gzip", b"\x1f\x8b\x08\0 nothing of it is true")
        case "cut-gzip":
            return packed("gzip", gzip.compress(PAGE.encode())[:-30])
        case "brotli":
            return packed("br", b"\x0b\x02\x80hello\x03")
        case "bomb":
            return packed("gzip", gzip.compress(b"\0" * 200_000_000, 9))
        case "nested":
            n = int(query["n"])
            return web.Response(text="<div>" * n + "deep" + "</div>" * n, content_type="text/html")
        case "status":
            return web.Response(status=int(query["code"]), text="the server's own words")
        case "go":
            return web.Response(
                status=int(query.get("code", "302")), headers={"Location": query["to"]}
            )
        case "round":
            return web.Response(status=302, headers={"Location": "/round"})
        case "hang":
            await asyncio.sleep(3600)
            return web.Response()
        case "slow":  # half a megabyte, its size told before; it waits in the middle
            size = {"Content-Length": "500000"}
            response = await streamed(request, b"s" * 5_000, 50, pause=0.05, headers=size)
            await site.resume.wait()
            await response.write(b"s" * 250_000)
            return response
        case "drip":  # a byte now and then, for ever
            return await streamed(request, b".", 1_000_000, pause=0.05)
        case "search":
            return search_page(query)
        case ".api":
            return await code_results(request)
    return web.Response(status=404)


def search_page(query: Mapping[str, str]) -> web.Response:
    if query.get("q") == "nothing":
        return web.Response(
            text='<div class="no-results">No results.</div>', content_type="text/html"
        )
    if query.get("q") == "robot":
        return web.Response(
            text='<div class="anomaly-modal__title">Bots</div>', content_type="text/html"
        )
    if query.get("q") == "changed":
        return web.Response(text="<main>All new</main>", content_type="text/html")
    return web.Response(text=RESULTS, content_type="text/html")


async def code_results(request: web.Request) -> web.Response:
    body = await request.json()
    if "broken" in body["variables"]["query"]:
        return web.json_response({"errors": [{"message": "no such filter"}]})
    if "nothing" in body["variables"]["query"]:
        return web.json_response({"data": {"search": {"results": {"results": []}}}})
    return web.json_response(CODE)


def packed(encoding: str, body: bytes) -> web.Response:
    headers = {"Content-Encoding": encoding, "Content-Type": "text/html; charset=utf-8"}
    return web.Response(body=body, headers=headers)


async def streamed(
    request: web.Request,
    piece: bytes,
    count: int,
    *,
    pause: float = 0,
    headers: Mapping[str, str] | None = None,
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/plain", **(headers or {})})
    await response.prepare(request)
    for _ in range(count):
        await response.write(piece)
        await asyncio.sleep(pause)
    return response


@asynccontextmanager
async def web_site() -> AsyncIterator[Site]:
    site = Site()

    async def handle(request: web.Request) -> web.StreamResponse:
        site.requests.append(request)
        try:
            return await answer(request, site)
        except ConnectionError:
            raise asyncio.CancelledError from None  # who asked has left

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield site
    finally:
        await runner.cleanup()


async def main() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with web_site() as site:
        print(f"listening {site.url}", flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
