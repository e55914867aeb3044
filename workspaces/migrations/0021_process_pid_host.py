from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workspaces", "0020_workspace_home"),
    ]

    operations = [
        migrations.AddField(
            model_name="registeredprocess",
            name="pid_host",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Where its pids are comparable: the host and its pid namespace.",
                max_length=255,
            ),
        ),
    ]
