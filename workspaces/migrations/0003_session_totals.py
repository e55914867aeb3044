"""Makes a session's tokens those of its last request, and adds fields for the totals."""

from django.db import migrations, models
from django.db.models import F

TOTALS = "Of all its model requests, titles and summaries included."
LAST = "Of its last model request."


def move_sums(apps, schema_editor):
    # The stored context tokens are the best known estimate of the last request.
    apps.get_model("workspaces", "Session").objects.update(
        total_prompt_tokens=F("prompt_tokens"),
        total_completion_tokens=F("completion_tokens"),
        prompt_tokens=F("context_tokens"),
        completion_tokens=0,
    )


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0002_tools")]

    operations = [
        migrations.AddField(
            "session", "total_prompt_tokens", models.BigIntegerField(db_default=0, help_text=TOTALS)
        ),
        migrations.AddField(
            "session",
            "total_completion_tokens",
            models.BigIntegerField(db_default=0, help_text=TOTALS),
        ),
        migrations.AlterField(
            "session", "prompt_tokens", models.BigIntegerField(default=0, help_text=LAST)
        ),
        migrations.AlterField(
            "session", "completion_tokens", models.BigIntegerField(default=0, help_text=LAST)
        ),
        migrations.RunPython(move_sums, migrations.RunPython.noop),
    ]
