"""Where each page and endpoint lives. The API's own part is ``api_urls``."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.utils.module_loading import autodiscover_modules

# The admin's addresses are those of what is registered now.
autodiscover_modules("admin")

urlpatterns = [
    path("", include("crushsite.api_urls")),
    path("admin/", admin.site.urls),
]
