"""The URLs of all pages and endpoints. Those of the API are in ``api_urls``."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path, re_path
from django.utils.module_loading import autodiscover_modules
from django.views.generic import RedirectView

from crushsite.console.pages import AppManifest, ConsolePage, ServiceWorker

# The admin's URLs depend on the models registered so far.
autodiscover_modules("admin")

urlpatterns = [
    path("", include("crushsite.api_urls")),
    path("api/", include("crushsite.rest_urls")),
    path("", include("people.urls")),
    path("", include("notifications.urls")),
    # Django's own page has no throttle, and its changes are not in the audit.
    path("admin/password_change/", RedirectView.as_view(pattern_name="password")),
    path("admin/", admin.site.urls),
    # The console's, as in its ``static/console/core/routes.js``
    path("", ConsolePage.as_view(), name="console"),
    re_path(r"^(?:inbox|search|usage|settings|w)(?:/.*)?$", ConsolePage.as_view()),
    path("service-worker.js", ServiceWorker.as_view()),
    path("manifest.webmanifest", AppManifest.as_view(), name="app-manifest"),
]
