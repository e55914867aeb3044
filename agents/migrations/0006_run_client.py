"""The client that sent a prompt, and the cancel of one run alone."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0005_queue_size")]

    operations = [
        migrations.AddField(
            "run",
            "client_id",
            models.CharField(
                blank=True,
                db_default="",
                max_length=36,
                help_text="The client that sent it, where that is known.",
            ),
        ),
        migrations.AddField(
            "run",
            "is_withdrawn",
            models.BooleanField(
                db_default=False, help_text="Its client left for good: this run alone is cancelled."
            ),
        ),
    ]
