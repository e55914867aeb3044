"""A column for each of the four things that the JSON of ``errand`` contained."""

import json

from django.db import migrations, models

EMPTY = "{}"
PAGE = 500


def _pages(runs):
    """Yields the runs in pages, because a database may have very many."""
    last = 0
    while page := list(runs.filter(pk__gt=last).order_by("pk")[:PAGE]):
        yield page
        last = page[-1].pk


def _text(value):
    # JSON can contain a NUL, a text of PostgreSQL cannot.
    return str(value or "").replace("\x00", "\ufffd")


def split(apps, schema_editor):
    runs = apps.get_model("agents", "Run").objects
    stored = runs.exclude(errand=EMPTY).only("pk", "errand")
    for page in _pages(stored):
        for run in page:
            errand = json.loads(run.errand)
            run.working_dir = _text(errand.get("working_dir"))
            run.role = _text(errand.get("role"))
            run.answer = _text(errand.get("answer"))
            run.hook_decisions = json.dumps(errand.get("hooks") or {})
        runs.bulk_update(page, ["working_dir", "role", "answer", "hook_decisions"], 100)


def join(apps, schema_editor):
    runs = apps.get_model("agents", "Run").objects
    filled = ~models.Q(working_dir="", role="", answer="", hook_decisions=EMPTY)
    is_child = models.Q(parent__isnull=False)  # its errand always had a folder and a role
    stored = runs.filter(filled | is_child).only(
        "pk", "parent_id", "working_dir", "role", "answer", "hook_decisions"
    )
    for page in _pages(stored):
        for run in page:
            errand = {}
            if run.parent_id is not None or run.working_dir or run.role:
                errand |= {"working_dir": run.working_dir, "role": run.role}
            if run.answer:
                errand["answer"] = run.answer
            if run.hook_decisions != EMPTY:
                errand["hooks"] = json.loads(run.hook_decisions)
            run.errand = json.dumps(errand)
        runs.bulk_update(page, ["errand"], 100)


class Migration(migrations.Migration):
    dependencies = [("agents", "0006_run_client")]

    operations = [
        migrations.AddField("run", "working_dir", models.TextField(blank=True, db_default="")),
        migrations.AddField("run", "role", models.TextField(blank=True, db_default="")),
        migrations.AddField("run", "answer", models.TextField(blank=True, db_default="")),
        migrations.AddField(
            "run",
            "hook_decisions",
            models.TextField(
                db_default=EMPTY,
                help_text="JSON; of its open calls, so that no hook runs twice for a call.",
            ),
        ),
        migrations.RunPython(split, join),
        migrations.RemoveField("run", "errand"),
    ]
