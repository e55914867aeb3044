"""``manage.py refresh_catalogue``: the models' windows and prices, as the installed package lists them."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from agents.config.providers.generate import (
    TARGET,
    CannotGenerate,
    encoded,
    encoded_facts,
    generate,
    generate_facts,
)
from agents.config.providers.model_facts import FACTS_FILE


class Command(BaseCommand):
    help = (
        "Rewrites the catalogue of models from the installed package genai-prices."
        " Needs no network. A running server reads it when it starts again."
    )
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--check", action="store_true", help="write nothing; exit code 1 when it would change"
        )
        parser.add_argument(
            "--day",
            type=date.fromisoformat,
            help="the day of the prices (YYYY-MM-DD; default: today)",
        )
        parser.add_argument("--output", type=Path, default=TARGET, help="another file to write")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        target: Path = options["output"]
        try:
            day = options["day"] or datetime.now(UTC).date()
            catalogue, facts = generate(day), generate_facts(day)
        except CannotGenerate as reason:
            raise CommandError(f"{reason}. Install it with: pip install genai-prices") from None
        before = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
        changes = list(_changes(before, catalogue))
        for change in changes:
            self.stdout.write(change)
        models = sum(len(provider["models"]) for provider in catalogue.values())
        counted = f"{models} models of {len(catalogue)} providers, {len(changes)} changed"
        if options["check"]:
            if changes:
                raise CommandError(f"the catalogue is not up to date: {counted}")
        else:
            # Replace each file atomically: a server may be starting.
            _replace(target, encoded(catalogue))
            _replace(target.with_name(FACTS_FILE.name), encoded_facts(facts))
        self.stdout.write(counted)


def _replace(target: Path, text: str) -> None:
    fresh = target.with_name(f".{target.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(target)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old, new = _by_name(before), _by_name(after)
    for name in sorted({*old, *new}):
        if name not in old:
            yield f"+ {name}"
        elif name not in new:
            yield f"- {name}"
        elif old[name] != new[name]:
            keys = sorted(
                key for key in {*old[name], *new[name]} if old[name].get(key) != new[name].get(key)
            )
            changed = (f"{key} {old[name].get(key, 0)} → {new[name].get(key, 0)}" for key in keys)
            yield f"~ {name}: {', '.join(changed)}"


def _by_name(catalogue: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Models by their provider and id, and providers without their models."""
    entries: dict[str, dict[str, Any]] = {}
    for provider_id, provider in catalogue.items():
        entries[provider_id] = {key: value for key, value in provider.items() if key != "models"}
        for model in provider["models"]:
            entries[f"{provider_id}/{model['id']}"] = model
    return entries
