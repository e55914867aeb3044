"""The console's page, the same for each of its addresses, and what installs it as an app.

Everything that it shows comes from the REST interface and the streams.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django.contrib.auth.mixins import LoginRequiredMixin
from django.contrib.staticfiles.storage import staticfiles_storage
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.utils.cache import patch_cache_control
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.gzip import gzip_page
from typing_extensions import override

STATIC = Path(__file__).parent / "static" / "console"

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "font-src 'self'",
        "img-src 'self' blob: data:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        # The console's own policy, and that of its templates' library.
        "trusted-types console lit-html",
    )
)

# The files of modules (joined_modules.py) for the first frame of a page, by the beginning of its
# path. The browser gets them at once, instead of finding one after the other.
_FRAME = ("main.js", "core/element.js", "vendor/lit.js")
_SESSION = (*_FRAME, "session/session.js", "stream/session_feed.js", "vendor/marked.js")
_BOARD = (*_FRAME, "board/board.js")
_SESSION_PATH = re.compile(r"/w/([^/]+)/s/([^/]+)/?")
# Phones want pictures of points, and cut the maskable one to their own form. Made from `icon.svg`.
ICONS = (
    ("icon.svg", "any", "image/svg+xml", "any"),
    ("icon-192.png", "192x192", "image/png", "any"),
    ("icon-512.png", "512x512", "image/png", "any"),
    ("icon-maskable-512.png", "512x512", "image/png", "maskable"),
)


@method_decorator(gzip_page, name="dispatch")  # it has no secrets
class ConsolePage(LoginRequiredMixin, View):
    http_method_names = ["get", "head"]

    @override
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        answer = super().dispatch(request, *args, **kwargs)
        answer.headers["Content-Security-Policy"] = POLICY
        patch_cache_control(answer, no_cache=True, private=True)
        return answer

    def get(self, request: HttpRequest, **_: str) -> HttpResponse:
        session = _SESSION_PATH.fullmatch(request.path)
        names = _SESSION if session else _BOARD if request.path == "/" else _FRAME
        context = {
            "preloaded": [f"console/{name}" for name in names],
            "workspace": session and session[1],
            "session": session and session[2],
        }
        return render(request, "console/shell.html", context)


class ServiceWorker(View):
    """At the root, so that it is responsible for every page of the console."""

    http_method_names = ["get", "head"]

    def get(self, _: HttpRequest) -> HttpResponse:
        text = (STATIC / "service_worker.js").read_bytes()
        answer = HttpResponse(text, content_type="text/javascript")
        patch_cache_control(answer, no_cache=True)
        return answer


class AppManifest(View):
    """Lets browsers install the console as an app."""

    http_method_names = ["get", "head"]

    def get(self, _: HttpRequest) -> HttpResponse:
        manifest = {
            "name": "Crush server",
            "short_name": "Crush",
            "description": "Prompt, watch and answer your coding agents.",
            "start_url": "/",
            "scope": "/",
            "display": "standalone",
            "background_color": "#f7f5f0",
            "theme_color": "#0b6158",
            "icons": [
                {
                    "src": staticfiles_storage.url(f"console/{name}"),
                    "sizes": sizes,
                    "type": kind,
                    "purpose": purpose,
                }
                for name, sizes, kind, purpose in ICONS
            ],
        }
        answer = JsonResponse(manifest, content_type="application/manifest+json")
        patch_cache_control(answer, max_age=3600)
        return answer
