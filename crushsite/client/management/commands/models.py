"""``manage.py models``: the models that a folder can use."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from typing_extensions import override

from crushsite.client.client_command import ClientCommand
from crushsite.client.finding import folder_of
from crushsite.client.listing import NONE, Column, as_json, opened, table

if TYPE_CHECKING:
    from crushclient import Client

COLUMNS = (
    Column("model", is_flexible=True),
    Column("provider"),
    Column("used as"),
    Column("window", is_number=True, is_optional=True),
    Column("$/M in", is_number=True, is_optional=True),
    Column("$/M out", is_number=True, is_optional=True),
)


class Command(ClientCommand):
    help = "Lists the models of the configured providers of a folder, and which ones it uses."
    examples = ("models", "models --path ~/project", "models --json | jq '.[].id'")

    @override
    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--path", default=".", help="the folder (default: this one)")

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        async with opened(client, folder_of(options["path"], options)) as workspace:
            address = f"/v1/workspaces/{quote(workspace.id, safe='')}/config"
            config = await client.request("GET", address)
        found = models_of(config)
        if options["json"]:
            self.stdout.write(as_json(found))
            return
        if not found:
            self.stdout.write("No provider is configured: the built-in offline model answers.")
            return
        rows = [
            [
                model["id"],
                model["provider"],
                ", ".join(model["used_as"]),
                f"{model['context_window']:,}" if model["context_window"] else NONE,
                _price(model["cost_per_1m_in"]),
                _price(model["cost_per_1m_out"]),
            ]
            for model in found
        ]
        self.stdout.write(table(COLUMNS, rows))


def models_of(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The models of all providers in a configuration, those that are used first."""
    chosen = config.get("models") or {}
    found = []
    for provider_id, provider in sorted((config.get("providers") or {}).items()):
        if provider.get("disable"):
            continue
        for model in provider.get("models") or ():
            used_as = [
                size
                for size, choice in chosen.items()
                if (choice.get("provider"), choice.get("model")) == (provider_id, model["id"])
            ]
            found.append(
                {
                    "id": model["id"],
                    "name": model.get("name", model["id"]),
                    "provider": provider_id,
                    "used_as": used_as,
                    "context_window": model.get("context_window") or 0,
                    "cost_per_1m_in": model.get("cost_per_1m_in") or 0,
                    "cost_per_1m_out": model.get("cost_per_1m_out") or 0,
                }
            )
    return sorted(found, key=lambda model: not model["used_as"])


def _price(dollars: float) -> str:
    return f"{dollars:.2f}" if dollars else NONE
