import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    # A migration of its own: PostgreSQL does not change a table whose rows this transaction changed.

    dependencies = [
        ('permissions', '0005_approvals'),
    ]

    operations = [
        migrations.AlterField(
            model_name='grant',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='workspaces.workspace'),
        ),
    ]
