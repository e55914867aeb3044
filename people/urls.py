"""The pages of this app."""

from __future__ import annotations

from django.conf import settings
from django.urls import include, path

from people.pages.account import AccountPage
from people.pages.password import PasswordPage
from people.pages.sign_in import LoginLinkPage, SignInPage, SignOutPage

urlpatterns = [
    # The library's pages come first: they have the same addresses, and know second factors.
    *([path("", include("people.sso.urls"))] if settings.CRUSH_SSO else []),
    path("sign-in/", SignInPage.as_view(), name="sign-in"),
    path("sign-in/link/", LoginLinkPage.as_view(), name="login-link"),
    path("sign-out/", SignOutPage.as_view(), name="sign-out"),
    path("account/", AccountPage.as_view(), name="account"),
    path("account/password/", PasswordPage.as_view(), name="password"),
]
