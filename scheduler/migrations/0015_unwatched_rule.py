# The rule that tells system admins of running work that nobody can watch

from django.db import migrations
from django.utils import timezone


def make_rule(apps, schema_editor):
    apps.get_model("scheduler", "AlertRule").objects.create(
        name="Can't be watched",
        metric="unwatched_workloads",
        threshold=0,
        for_s=300,
        created_at=timezone.now(),
    )


def drop_rules(apps, schema_editor):
    apps.get_model("scheduler", "AlertRule").objects.filter(metric="unwatched_workloads").delete()


class Migration(migrations.Migration):

    dependencies = [
        ("scheduler", "0014_unwatched_alerts"),
    ]

    operations = [
        migrations.RunPython(make_rule, drop_rules),
    ]
