"""Where each page and endpoint lives. The API's own part is ``api_urls``."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("", include("crushsite.api_urls")),
    path("admin/", admin.site.urls),
]
