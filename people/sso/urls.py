"""The addresses of django-allauth's pages that this server offers.

Not all of them: the library's pages for e-mail addresses and forgotten passwords need mail, and
people sign up by an administrator or a provider only.
"""

from __future__ import annotations

from typing import Any

from allauth.account import views
from allauth.socialaccount.providers.openid_connect import views as openid_connect
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import include, path

from people.pages.sign_in import SignOutPage

_AGAIN = "again"


def callback(request: HttpRequest, **arguments: Any) -> HttpResponseBase:
    """Receives a browser from the provider.

    A browser that comes from another site does not send our cookie, which is ``SameSite=Strict``.
    It opens the same address once more, now from this site.
    """
    if settings.SESSION_COOKIE_NAME not in request.COOKIES and _AGAIN not in request.GET:
        query = request.GET.copy()
        query[_AGAIN] = "1"
        address = f"{request.path}?{query.urlencode()}"
        return render(request, "people/again.html", {"address": address})
    response: HttpResponseBase = openid_connect.callback(request, **arguments)
    return response


urlpatterns = [
    path("sign-in/", views.login, name="account_login"),
    path("sign-out/", SignOutPage.as_view(), name="account_logout"),
    path("accounts/sign-up/", views.signup, name="account_signup"),
    path("accounts/inactive/", views.account_inactive, name="account_inactive"),
    path("accounts/reauthenticate/", views.reauthenticate, name="account_reauthenticate"),
    path("accounts/2fa/", include("allauth.mfa.urls")),
    path("accounts/3rdparty/", include("allauth.socialaccount.urls")),
    path("accounts/<str:provider_id>/login/", openid_connect.login, name="openid_connect_login"),
    path(
        "accounts/<str:provider_id>/login/callback/",
        callback,
        name="openid_connect_callback",
    ),
]
