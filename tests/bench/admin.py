"""`python -m tests.bench.admin`: the admin's pages with 100,000 rows in each table.

Every list (at most 20 queries and 200 ms), by itself, filtered and searched; the dashboard, and the
pages of a session and a run. In one process, through Django's test client: the middleware, the
database and the templates are in the figures. `--database postgresql` starts one.
"""

import argparse
import json
import os
import random
import re
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from tests.bench.database import prepare_database
from tests.bench.distribution import distribution

TIMES = 5
MOST_QUERIES, MOST_MS = 20, 200
WORDS = [f"word{number}" for number in range(20_000)]
TEXT = ["the", "a", "of", "file", "test", "run"]
DAYS = 40
# Each row of these joins two others, and no two rows the same ones.
PAIRS = {"people.Member", "people.GroupRole", "notifications.Delivery"}
DISTINCT = {"path", "name", "client_id", "subject_id"}  # unique within another row


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.admin", description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--only", default="", help="the model's name")
    options = parser.parse_args()
    with ExitStack() as stack:
        prepare_database(stack, options.database, name="admin")
        _run(options.rows, options.only)


def _run(count: int, only: str) -> None:
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.utils.module_loading import autodiscover_modules

    autodiscover_modules("admin")
    began = time.perf_counter()
    _Filling(count).fill()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    print(f"{count:,} rows a table on {connection.vendor}: {time.perf_counter() - began:.0f} s")
    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    print(
        "| page | slowest address | queries | least (ms) | p50 (ms) | most (ms) | |"
        "\n|---|---|---:|---:|---:|---:|---|"
    )
    worst: dict[str, tuple[float, str]] = {}
    for page, address in _addresses(client, only, count):
        figures = _measure(client, address)
        if figures[0] > MOST_MS:
            print(f"slow: {address}: {figures[0]:.0f} ms", file=sys.stderr, flush=True)
        if page not in worst or figures[0] > worst[page][0]:
            queries, shown = figures[1], figures[2]
            mark = " !" if figures[0] > MOST_MS or queries > MOST_QUERIES else ""
            worst[page] = (
                figures[0],
                f"| {page} | `{address[:70]}` | {queries} | {shown} |{mark} |",
            )
    for _, line in sorted(worst.values(), key=lambda each: -each[0]):
        print(line)
    print(f"\nLoad of the machine: {os.getloadavg()[0]:.1f}.")


def _measure(client: Any, address: str) -> tuple[float, int, str]:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        answer = client.get(address)
    queries = len(captured.captured_queries)  # the next request forgets them
    if answer.status_code != 200:
        sys.exit(f"{address}: {answer.status_code}")
    taken = []
    for _ in range(TIMES):
        began = time.perf_counter()
        client.get(address)
        taken.append((time.perf_counter() - began) * 1000)
    found = distribution(taken)
    assert found is not None
    return found.p50, queries, f"{min(taken):.0f} | {found.p50:.0f} | {max(taken):.0f}"


def _addresses(client: Any, only: str, count: int) -> Iterator[tuple[str, str]]:
    """The dashboard, a session and a run, and of each list the page, its filters and searches."""
    from django.contrib import admin
    from django.urls import reverse

    from agents.models import Run
    from workspaces.models import Session

    if not only:
        yield "dashboard", reverse("admin:index")
        for model in (Session, Run):
            meta, row = model._meta, model._default_manager.earliest("pk")
            address = reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[row.pk])
            yield f"one {meta.verbose_name}", address
    for model in sorted(admin.site._registry, key=lambda each: each._meta.label):
        meta = model._meta
        if only and meta.model_name != only:
            continue
        address = reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist")
        page = str(meta.verbose_name_plural)
        yield page, address
        if meta.model_name != "searchfill":  # it has one row
            yield page, f"{address}?p={max(2, count // 100)}"  # in the middle
        for query in ("the", "nothing"):
            yield page, f"{address}?q={query}"
        content = client.get(address).content.decode()
        links = re.findall(r'<li[^>]*>\s*<a href="\?([^"]+)"', content)
        # A few choices of each filter: the rest are of the same kind.
        seen: dict[str, int] = {}
        for link in links:
            name = link.partition("=")[0]
            seen[name] = seen.get(name, 0) + 1
            if seen[name] in {2, 5}:
                yield page, f"{address}?{link.replace('&amp;', '&')}"


class _Filling:
    """Rows of every registered model, made from the fields of each."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._chance = random.Random(1)
        self._now = int(time.time() * 1000)
        self._keys: dict[Any, list[Any]] = {}
        self._special = self._special_values()
        choices = self._chance.choices
        self._texts = [" ".join(choices(TEXT, k=30) + choices(WORDS, k=30)) for _ in range(5_000)]

    def fill(self) -> None:
        from django.apps import apps
        from django.contrib import admin

        first = ("auth.User", "auth.Group", "workspaces.Workspace", "workspaces.Session")
        order = [*first, "agents.Run", "workspaces.Rewind", "notifications.Notice"]
        order += ["notifications.NotificationChannel"]
        models = [apps.get_model(label) for label in order]
        models += [model for model in admin.site._registry if model not in models]
        for model in models:
            if model._meta.label == "workspaces.SearchFill":
                continue
            self._fill(model)
        self._index()

    def _fill(self, model: Any) -> None:
        from django.db import connection, transaction

        fields = [
            field
            for field in model._meta.concrete_fields
            if field.get_internal_type() not in {"BigAutoField", "AutoField"}
        ]
        columns = ", ".join(f'"{field.column}"' for field in fields)
        marks = ", ".join(["%s"] * len(fields))
        # Without models: 2.8 million instances would take many minutes.
        insert = f'INSERT INTO "{model._meta.db_table}" ({columns}) VALUES ({marks})'
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(insert, (self._row(model, fields, n) for n in range(self._count)))
        manager = model._default_manager
        self._keys[model] = list(manager.order_by("pk").values_list("pk", flat=True))

    def _row(self, model: Any, fields: list[Any], number: int) -> list[Any]:
        values = [self._value(model, field, number) for field in fields]
        return [json.dumps(value) if isinstance(value, dict | list) else value for value in values]

    def _value(self, model: Any, field: Any, number: int) -> Any:
        label = model._meta.label
        if special := self._special.get((label, field.attname)):
            return special(number)
        if field.is_relation:
            return self._related(field, number, is_pair=label in PAIRS)
        return self._plain(field, number)

    def _special_values(self) -> dict[tuple[str, str], Callable[[int], Any]]:
        return {
            ("agents.Run", "run_id"): lambda n: f"run-{n}",
            ("agents.Run", "state"): lambda n: "parked" if n % 500 == 1 else "finished",
            ("agents.Run", "outcome"): lambda n: "failed" if n % 50 == 1 else "completed",
            ("agents.Run", "parent_id"): lambda n: None,
            ("agents.Run", "folded_into_id"): lambda n: None,
            ("agents.SubAgent", "run_id"): lambda n: self._keys_of("agents.Run")[n],
            ("agents.SubAgent", "state"): lambda n: "ended" if n % 500 else "running",
            ("permissions.ApprovalPolicy", "workspace_id"): lambda n: self._keys_of(
                "workspaces.Workspace"
            )[n],
            # A share is of a user or of a workspace.
            ("people.Share", "user_id"): lambda n: None if n % 2 else self._keys_of("auth.User")[n],
            ("people.Share", "workspace_id"): lambda n: (
                self._keys_of("workspaces.Workspace")[n] if n % 2 else None
            ),
            ("people.Share", "weight"): lambda n: 1 + n % 10,
            ("workspaces.Message", "parts"): lambda n: self._parts(),
            ("workspaces.RemovedMessage", "parts"): lambda n: self._parts(),
            ("workspaces.Session", "parent_session_id"): lambda n: "",
            ("permissions.PermissionRequest", "state"): lambda n: (
                "pending" if n % 500 == 1 else "allowed"
            ),
            ("permissions.QuestionBatch", "state"): lambda n: (
                "pending" if n % 500 == 1 else "answered"
            ),
            ("permissions.QuestionBatch", "questions"): lambda n: [
                {"id": "q", "type": "free_text", "question": self._text(20)}
            ],
            ("permissions.QuestionBatch", "responses"): lambda _: [{"request_id": "q"}],
        }

    def _keys_of(self, label: str) -> list[Any]:
        return next(keys for model, keys in self._keys.items() if model._meta.label == label)

    def _related(self, field: Any, number: int, *, is_pair: bool) -> Any:
        keys = self._keys[field.related_model]
        # Half of the rows belong to few, as in a real database.
        return keys[number] if number % 2 or is_pair or field.unique else keys[number % 50]

    def _plain(self, field: Any, number: int) -> Any:
        kind, name = field.get_internal_type(), field.name
        if field.unique and kind == "CharField":
            made = uuid.UUID(int=self._chance.getrandbits(128))
            return f"{name}-{number}" if field.max_length > 36 else str(made)[: field.max_length]
        if name in {"author", "undone_by", "cancelled_by"}:
            return {"kind": "user", "name": f"user{number % 40}", "user_id": str(number % 40)}
        if name == "last_login":
            return None
        if name.endswith("_at") or name == "at":
            return self._now - (self._count - number) * DAYS * 86_400_000 // self._count
        if field.choices:
            return field.choices[number % len(field.choices)][0]
        match kind:
            case "BooleanField":
                return number % 7 == 0
            case "JSONField":
                return {"command": self._text(20)}
            case "TextField":
                return self._text(60)
            case "FloatField":
                return self._chance.random()
            case "DateTimeField":
                from django.utils import timezone

                return timezone.now()
            case "SmallIntegerField" | "IntegerField" | "PositiveIntegerField":
                return number % 30_000
            case "BigIntegerField":
                return number + 1
            case _:
                return self._short(name, number)[: field.max_length]

    def _short(self, name: str, number: int) -> str:
        return f"{name}-{number}" if name in DISTINCT else f"{name}-{number % 1000}"

    def _text(self, words: int) -> str:
        return self._chance.choice(self._texts)[: words * 6]

    def _parts(self) -> str:
        return '[{"type":"text","data":{"text":"' + self._text(60) + '"}}]'

    def _index(self) -> None:
        """The rows of the search by its own action: PostgreSQL needs more than the text."""
        from workspaces.actions.search_texts import index_message
        from workspaces.log.commits import run_alone
        from workspaces.models import Message, SearchText

        SearchText.objects.all().delete()
        rows = Message.objects.values_list("workspace_id", "session_id", "pk", "parts")

        def job(tx: Any) -> None:
            for *names, parts in rows.order_by("created_at").iterator():
                index_message(tx, *names, json.loads(parts))

        run_alone("", job)


if __name__ == "__main__":
    main()
