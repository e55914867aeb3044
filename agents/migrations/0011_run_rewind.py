"""The rewind of a prompt that rolls a turn back. The column may be empty: no row is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0010_run_options'),
        ('workspaces', '0011_search'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='rewind_id',
            field=models.CharField(blank=True, help_text='The rewind by which its rollback undid that run; empty text: nothing to undo.', max_length=36, null=True),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('rewind_id__isnull', True), ('state', 'accepted'), ('strategy', 'rollback')), fields=['session'], name='run_rolling_back'),
        ),
    ]
