"""The page of a user's own account: tokens, and the browsers that have signed in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from django import forms
from django.conf import settings
from django.contrib.auth.mixins import LoginRequiredMixin
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from typing_extensions import override

from people.actions.browser_sessions import browser_sessions, end_browser_session
from people.actions.tokens import NAME_LIMIT, create_token, revoke_token
from people.identities import IDENTITIES, identity_of
from people.models import Token
from people.pages.sender import actor_of
from people.pages.sign_in import note_this_browser
from workspaces.access import EVERYWHERE, IdentityKind, Right
from workspaces.log.errors import Refusal, TokenUnknown
from workspaces.log.timestamps import for_people, now_ms
from workspaces.log.writer import writer
from workspaces.models import Workspace

SCOPES = sorted(set(Right) - {Right.PUBLIC, Right.SIGNED_IN})
_DAY_MS = 86_400_000
EXPIRIES = [("30", "30 days"), ("90", "90 days"), ("365", "a year"), ("0", "never")]


if TYPE_CHECKING:
    _Chosen: TypeAlias = forms.ModelMultipleChoiceField[Workspace]
else:
    _Chosen = forms.ModelMultipleChoiceField


class _Workspaces(_Chosen):
    @override
    def label_from_instance(self, obj: Workspace) -> str:
        return obj.path


class TokenForm(forms.Form):
    name = forms.CharField(max_length=NAME_LIMIT, help_text="What it is for, for example: laptop")
    expires = forms.ChoiceField(choices=EXPIRIES, initial="90")
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in SCOPES],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Rights",
        help_text="None chosen: all that you have.",
    )
    workspaces = _Workspaces(
        Workspace.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None chosen: all that you may use.",
    )

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        identity = identity_of(user, IdentityKind.USER)
        seen = Workspace.objects.order_by("path")
        if not identity.is_staff and EVERYWHERE not in identity.roles:
            seen = seen.filter(pk__in=list(identity.roles))
        cast("_Workspaces", self.fields["workspaces"]).queryset = seen


@dataclass(frozen=True, slots=True)
class ShownToken:
    """A token as the page lists it."""

    id: str
    name: str
    prefix: str
    state: str
    last_used: str
    limits: str


@method_decorator(never_cache, name="dispatch")
class AccountPage(LoginRequiredMixin, View):
    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest) -> HttpResponse:
        note_this_browser(request, _user(request))
        return _page(request, TokenForm(_user(request)))

    def post(self, request: HttpRequest) -> HttpResponse:
        """Each button has a value of its own."""
        task, _, key = request.POST.get("task", "").partition(" ")
        try:
            match task:
                case "create":
                    return self._create(request)
                case "revoke" if "\0" not in key:
                    self._revoke(request, key)
                case "end" if key.isdecimal() and len(key) < 19:
                    self._end(request, int(key))
                case _:
                    return _page(request, TokenForm(_user(request)), status=400)
        except Refusal as refusal:
            form = TokenForm(_user(request))
            return _page(request, form, error=refusal.sentence, status=refusal.status)
        return HttpResponseRedirect(reverse("account"), status=303)

    def _create(self, request: HttpRequest) -> HttpResponse:
        user = _user(request)
        form = TokenForm(user, request.POST)
        if not form.is_valid():
            return _page(request, form, status=400)
        chosen, days = form.cleaned_data, int(form.cleaned_data["expires"])
        create = partial(
            create_token,
            user=user,
            name=chosen["name"],
            created_by=user,
            scopes={Right(scope) for scope in chosen["scopes"]} or None,
            workspaces=list(chosen["workspaces"]) or None,
            expires_at=now_ms() + days * _DAY_MS if days else None,
            actor=actor_of(request),
        )
        made = writer.write_and_wait("", create)
        # Not a redirect: the text is nowhere but in this response.
        return _page(request, TokenForm(user), new=made.text)

    def _revoke(self, request: HttpRequest, token_id: str) -> None:
        if not Token.objects.filter(pk=token_id, user=_user(request)).exists():
            raise TokenUnknown
        revoke = partial(revoke_token, token_id=token_id, actor=actor_of(request))
        writer.write_and_wait("", revoke)
        IDENTITIES.forget()

    def _end(self, request: HttpRequest, browser_session_id: int) -> None:
        end = partial(
            end_browser_session,
            user=_user(request),
            browser_session_id=browser_session_id,
            actor=actor_of(request),
        )
        writer.write_and_wait("", end)
        IDENTITIES.forget()


def _user(request: HttpRequest) -> User:
    return cast("User", request.user)  # LoginRequiredMixin lets nobody else in


def _page(
    request: HttpRequest, form: TokenForm, *, new: str = "", error: str = "", status: int = 200
) -> HttpResponse:
    user = _user(request)
    tokens = Token.objects.filter(user=user, revoked_at__isnull=True).order_by("-created_at")
    browsers = [
        {
            "id": row.pk,
            "name": short_name(row.browser),
            "address": row.address,
            "at": for_people(row.created_at),
            "is_this": row.session_key == request.session.session_key,
        }
        for row in browser_sessions(user)
    ]
    context = {
        "form": form,
        "limits": [form["scopes"], form["workspaces"]],
        "new": new,
        "error": error,
        "tokens": [_shown(token) for token in tokens.prefetch_related("workspaces")],
        "browsers": browsers,
        "roles": _roles(user),
        "has_second_factors": settings.CRUSH_SSO,
    }
    return render(request, "people/account.html", context, status=status)


def _roles(user: User) -> list[tuple[str, str]]:
    identity = identity_of(user, IdentityKind.USER)
    if identity.is_staff:
        return [("everywhere", "staff")]
    paths = dict(Workspace.objects.filter(pk__in=identity.roles).values_list("pk", "path"))
    return [(paths.get(key, "everywhere"), role.value) for key, role in identity.roles.items()]


def _shown(token: Token) -> ShownToken:
    if token.expires_at is None:
        state = "never expires"
    elif token.expires_at <= now_ms():
        state = "expired"
    else:
        state = f"expires {for_people(token.expires_at)[:10]}"
    limits = [", ".join(token.scopes)] if token.scopes != ["all"] else []
    if not token.has_all_workspaces:
        limits.append(", ".join(workspace.path for workspace in token.workspaces.all()))
    used = "never used" if token.last_used_at is None else f"used {for_people(token.last_used_at)}"
    return ShownToken(token.pk, token.name, token.prefix, state, used, " in ".join(limits))


_BROWSERS = {
    "Edg": "Edge",
    "OPR": "Opera",
    "Firefox": "Firefox",
    "Chrome": "Chrome",
    "Version": "Safari",
}
_SYSTEMS = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Windows": "Windows",
    "Mac OS": "macOS",
    "Linux": "Linux",
}
_WORD_CHARS = 40


def short_name(agent: str) -> str:
    """What people call a browser that describes itself like this."""
    browser = next((name for key, name in _BROWSERS.items() if f"{key}/" in agent), "")
    system = next((name for key, name in _SYSTEMS.items() if key in agent), "")
    if not browser:
        return agent[:_WORD_CHARS] or "unknown browser"
    return f"{browser} on {system}" if system else browser
