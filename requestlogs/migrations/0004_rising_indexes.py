"""Indexes that rise as rows come: cheaper to extend, and read backwards as well."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('requestlogs', '0003_statistics'),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name='applog',
            name='applog_time',
        ),
        migrations.RemoveIndex(
            model_name='applog',
            name='applog_level_time',
        ),
        migrations.RemoveIndex(
            model_name='applog',
            name='applog_source_time',
        ),
        migrations.RemoveIndex(
            model_name='requestlog',
            name='logs_time',
        ),
        migrations.RemoveIndex(
            model_name='requestlog',
            name='logs_provider_time',
        ),
        migrations.RemoveIndex(
            model_name='requestlog',
            name='logs_key_time',
        ),
        migrations.AddIndex(
            model_name='applog',
            index=models.Index(fields=['timestamp', 'id'], name='applog_time'),
        ),
        migrations.AddIndex(
            model_name='applog',
            index=models.Index(fields=['level', 'timestamp'], name='applog_level_time'),
        ),
        migrations.AddIndex(
            model_name='applog',
            index=models.Index(fields=['source', 'timestamp'], name='applog_source_time'),
        ),
        migrations.AddIndex(
            model_name='requestlog',
            index=models.Index(fields=['created_at', 'id'], name='logs_time'),
        ),
        migrations.AddIndex(
            model_name='requestlog',
            index=models.Index(fields=['provider_id', 'created_at'], name='logs_provider_time'),
        ),
        migrations.AddIndex(
            model_name='requestlog',
            index=models.Index(fields=['virtual_key_id', 'created_at'], name='logs_key_time'),
        ),
    ]
