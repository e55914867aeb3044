"""Adds the permission mode of newer clients; the flag of older clients stays."""

from django.db import migrations, models

MODES = [
    ("normal", "normal (permissions are requested)"),
    ("yolo", "yolo (nothing is requested)"),
    ("sysadmin", "sysadmin (nothing is requested)"),
]


def name_modes(apps, schema_editor):
    workspaces = apps.get_model("workspaces", "Workspace").objects
    workspaces.filter(skip_permissions=True).update(permission_mode="yolo")


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0005_attachment")]

    operations = [
        migrations.AddField(
            "workspace",
            "permission_mode",
            models.CharField(
                choices=MODES, db_default="normal", default="normal", max_length=16
            ),
        ),
        migrations.RunPython(name_modes, migrations.RunPython.noop),
    ]
