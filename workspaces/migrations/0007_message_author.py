"""Who sent a prompt, with its message. Earlier rows have none, so no row is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0006_permission_mode")]

    operations = [
        migrations.AddField(
            "message",
            "author",
            models.JSONField(
                blank=True, null=True, help_text="Who sent it: kind, name, user_id. Prompts only."
            ),
        ),
    ]
