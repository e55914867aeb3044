"""How a prompt meets a busy session, its options, and the steps of its run.

Earlier rows lack these, so no row is rewritten.
"""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0009_usage_entries'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='options',
            field=models.JSONField(blank=True, help_text='model, effort, permission_mode and budget of its prompt.', null=True),
        ),
        migrations.AddField(
            model_name='run',
            name='over_budget',
            field=models.JSONField(blank=True, help_text='Of a run over its budget: limits, reached, exceeded.', null=True),
        ),
        migrations.AddField(
            model_name='run',
            name='replaces',
            field=models.BigIntegerField(blank=True, help_text='The run that it ended.', null=True),
        ),
        migrations.AddField(
            model_name='run',
            name='retry_of',
            field=models.BigIntegerField(blank=True, help_text='The run that it repeats.', null=True),
        ),
        migrations.AddField(
            model_name='run',
            name='steps',
            field=models.BigIntegerField(blank=True, help_text='Its own requests to models, summaries included.', null=True),
        ),
        migrations.AddField(
            model_name='run',
            name='strategy',
            field=models.CharField(blank=True, choices=[('enqueue', 'Enqueue'), ('steer', 'Steer'), ('interrupt', 'Interrupt'), ('rollback', 'Rollback'), ('reject', 'Reject')], help_text='What its prompt did with a busy session. Empty: enqueue.', max_length=16, null=True),
        ),
        migrations.AlterField(
            model_name='run',
            name='is_withdrawn',
            field=models.BooleanField(db_default=False, help_text='This run alone is cancelled: its client left for good, or a person chose it.'),
        ),
        migrations.AlterField(
            model_name='run',
            name='outcome',
            field=models.CharField(blank=True, choices=[('completed', 'Completed'), ('cancelled', 'Cancelled'), ('failed', 'Failed'), ('interrupted', 'interrupted (its process died in the middle of a step)'), ('folded', 'folded into the run before it'), ('over_budget', 'over budget (a limit of its prompt was reached)')], max_length=16),
        ),
    ]
