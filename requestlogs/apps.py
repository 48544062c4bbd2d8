from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RequestLogsConfig(AppConfig):
    name = "requestlogs"
    verbose_name = "Requests"

    def ready(self) -> None:
        from requestlogs import rollup

        post_migrate.connect(rollup.install, sender=self)
