"""Who sent a prompt, and who cancelled it. Earlier rows have neither, so no row is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0007_run_delegation")]

    operations = [
        migrations.AddField(
            "run",
            "author",
            models.JSONField(
                blank=True,
                null=True,
                help_text="Who sent it: kind, name, user_id. A child run's is its parent's.",
            ),
        ),
        migrations.AddField(
            "run",
            "cancelled_by",
            models.JSONField(blank=True, null=True, help_text="Who cancelled it, as its author."),
        ),
    ]
