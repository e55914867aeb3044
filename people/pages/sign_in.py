"""The pages by which a browser signs in and out, and the audit of it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib.auth import get_user_model, login
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache

from people.actions.audit import DONE, Act, record
from people.actions.browser_sessions import Browser, note_browser
from people.actions.login_links import is_valid, use_login_link
from people.pages.form import ThrottledForm
from people.pages.sender import address_of
from people.sign_in_throttle import GUESSES
from workspaces.access import Actor, IdentityKind
from workspaces.log.errors import LoginLinkInvalid
from workspaces.log.timestamps import now_ms
from workspaces.log.writer import writer

BACKEND = "django.contrib.auth.backends.ModelBackend"
HOME = "/"
# A person copies the link from a terminal, perhaps with a line break in its middle.
PASTED_CHARS = 2_000
LINK_COUNTS_MS = 10 * 60 * 1000
_LINK_USED_AT = "crush_link_used_at"  # a key of the session


class SignInPage(LoginView):
    template_name = "people/sign_in.html"
    form_class = ThrottledForm
    authentication_form = ThrottledForm
    redirect_authenticated_user = True
    next_page = HOME


@method_decorator(never_cache, name="dispatch")
class LoginLinkPage(View):
    """Opening the link changes nothing, because mail scanners and previews open links, too."""

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest) -> HttpResponse:
        if not request.GET.get("key"):
            return render(request, "people/paste_link.html")
        secret = _secret(request)
        if not is_valid(secret):
            return _ended(request)
        if secret != request.GET["key"]:  # a whole link was pasted
            return HttpResponseRedirect(f"{request.path}?{urlencode({'key': secret})}")
        return render(request, "people/login_link.html")

    def post(self, request: HttpRequest) -> HttpResponse:
        secret = _secret(request)
        try:
            user = writer.write_and_wait("", lambda _: use_login_link(secret))
        except LoginLinkInvalid:
            return _ended(request)
        login(request, user, backend=BACKEND)
        request.session[_LINK_USED_AT] = now_ms()
        # Another address: the secret leaves the address bar.
        return HttpResponseRedirect(HOME, status=303)


def came_by_link(request: HttpRequest) -> bool:
    """Whether the browser has signed in by a login link within the last ten minutes."""
    used_at: int | None = request.session.get(_LINK_USED_AT)
    return used_at is not None and used_at > now_ms() - LINK_COUNTS_MS


class SignOutPage(LogoutView):
    http_method_names = ["post", "options"]
    next_page = "/sign-in/"


def _secret(request: HttpRequest) -> str:
    # In the query: Django writes the path of a failed request to the log.
    text = "".join(request.GET.get("key", "")[:PASTED_CHARS].split())
    return text.rpartition("key=")[2]


def _ended(request: HttpRequest) -> HttpResponse:
    """Raises ``TooManyAttempts``."""
    GUESSES.count_guess(address_of(request))
    return render(request, "people/link_ended.html", status=410)


FAILED = "failed"


def record_sign_ins() -> None:
    """Connects the signals of Django. Called once, when the app is ready."""
    user_logged_in.connect(_signed_in, dispatch_uid="people.signed_in")
    user_logged_out.connect(_signed_out, dispatch_uid="people.signed_out")
    user_login_failed.connect(_failed, dispatch_uid="people.failed")


def _signed_in(request: HttpRequest, user: User, **_: Any) -> None:
    _store(request, Act.SIGN_IN, user)
    note_this_browser(request, user)


def note_this_browser(request: HttpRequest, user: User) -> None:
    """Stores which browser has signed in, if that is not stored yet."""
    key = request.session.session_key
    if key is None:
        request.session.save()
        key = request.session.session_key
    browser = Browser(str(key), address_of(request), request.headers.get("User-Agent", ""))
    writer.write_and_wait("", lambda _: note_browser(user, browser))


def _signed_out(request: HttpRequest, user: User | None, **_: Any) -> None:
    if user is not None:
        _store(request, Act.SIGN_OUT, user)


def _failed(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    # Only names that exist: people type passwords into the field of the name.
    name = str(credentials.get("username", ""))
    user = get_user_model().objects.filter(username__iexact=name).first()
    _store(request, Act.SIGN_IN, user, outcome=FAILED)


def _store(
    request: HttpRequest | None, act: Act, user: User | None, *, outcome: str = DONE
) -> None:
    address = "" if request is None else address_of(request)
    kind = IdentityKind.USER if outcome == DONE else IdentityKind.ANONYMOUS
    name = "" if user is None else user.get_username()
    actor = Actor(kind, name, None if user is None else user.pk, address=address)
    writer.write_and_wait("", lambda tx: record(tx, actor, act, target=name, outcome=outcome))
