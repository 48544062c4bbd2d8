from django.apps import AppConfig


class FailoverConfig(AppConfig):
    name = "failover"
    verbose_name = "Failover"
