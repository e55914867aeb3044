"""The endpoints of both interfaces, without the admin: what the quick handler resolves."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver

urlpatterns: list[URLPattern | URLResolver] = []
