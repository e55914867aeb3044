"""An entry for what each model request has used.

Earlier requests were only added up in their sessions. Each such session gets one entry with its
totals, at the time of its last change. Its model and its person are not known.
"""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q, Sum

PAGE = 500
KINDS = [
    ("reply", "Reply"),
    ("summary", "Summary"),
    ("title", "Title"),
    ("earlier", "earlier (all requests of a session before entries were stored)"),
]


def store_totals(apps, schema_editor):
    sessions = apps.get_model("workspaces", "Session").objects
    entries = apps.get_model("agents", "UsageEntry").objects
    used = sessions.filter(
        Q(total_prompt_tokens__gt=0) | Q(total_completion_tokens__gt=0) | Q(cost__gt=0)
    ).only(
        "pk", "workspace_id", "total_prompt_tokens", "total_completion_tokens", "cost", "updated_at"
    )
    last = ""
    while page := list(used.filter(pk__gt=last).order_by("pk")[:PAGE]):
        last = page[-1].pk
        of_children = _costs_of_children(apps, [session.pk for session in page])
        entries.bulk_create(
            [
                entries.model(
                    workspace_id=session.workspace_id,
                    session_id=session.pk,
                    kind="earlier",
                    prompt_tokens=session.total_prompt_tokens,
                    completion_tokens=session.total_completion_tokens,
                    cache_read_tokens=0,
                    cache_write_tokens=0,
                    cost=max(0.0, session.cost - of_children.get(session.pk, 0.0)),
                    created_at=session.updated_at,
                )
                for session in page
            ],
            100,
        )


def _costs_of_children(apps, session_ids):
    """A session's cost contains that of its finished child runs, which have their own entries."""
    runs = apps.get_model("agents", "Run").objects
    finished = runs.filter(parent__session_id__in=session_ids, state="finished")
    sums = finished.values_list("parent__session_id").annotate(Sum("session__cost"))
    return dict(sums.order_by())


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0008_run_authors"),
        ("workspaces", "0006_permission_mode"),
    ]

    operations = [
        migrations.CreateModel(
            "UsageEntry",
            [
                (
                    "id",
                    models.BigAutoField(
                        primary_key=True, auto_created=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        "workspaces.workspace",
                        django.db.models.deletion.CASCADE,
                        db_index=False,
                        related_name="usage_entries",
                    ),
                ),
                ("session_id", models.CharField(max_length=200)),
                ("run_key", models.BigIntegerField(blank=True, null=True)),
                ("user_id", models.BigIntegerField(blank=True, null=True)),
                ("user_name", models.CharField(blank=True, max_length=150)),
                ("kind", models.CharField(choices=KINDS, max_length=16)),
                ("provider", models.CharField(blank=True, max_length=200)),
                ("model", models.CharField(blank=True, max_length=200)),
                (
                    "prompt_tokens",
                    models.BigIntegerField(help_text="With those from the provider's cache."),
                ),
                ("completion_tokens", models.BigIntegerField()),
                ("cache_read_tokens", models.BigIntegerField()),
                ("cache_write_tokens", models.BigIntegerField()),
                ("cost", models.FloatField()),
                ("created_at", models.BigIntegerField()),
            ],
            options={
                "verbose_name_plural": "usage entries",
                "indexes": [
                    models.Index(fields=["created_at"], name="usage_by_time"),
                    models.Index(fields=["workspace", "created_at"], name="usage_of_workspace"),
                    models.Index(fields=["run_key"], name="usage_of_run"),
                ],
            },
        ),
        migrations.RunPython(store_totals, migrations.RunPython.noop),
    ]
