"""The page of a link."""

from __future__ import annotations

from django.urls import path

from notifications.links import PATH
from notifications.pages import AnswerPage

urlpatterns = [path(PATH.strip("/") + "/", AnswerPage.as_view(), name="answer")]
