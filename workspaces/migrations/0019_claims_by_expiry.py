from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("workspaces", "0018_roots"),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="clientclaim",
            name="claim_by_expiry",
        ),
    ]
