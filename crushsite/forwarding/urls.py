"""The addresses that only web processes request, from workers: each about many folders at once."""

from __future__ import annotations

from django.urls import path

from agents.api.folder_reads import GitStatesView, ShownWorkspacesView

urlpatterns = [
    path("folders/workspaces", ShownWorkspacesView.as_view()),
    path("folders/git", GitStatesView.as_view()),
]
