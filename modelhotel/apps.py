"""The shell's start hook: fills the ports of the lower floors."""

from django.apps import AppConfig


class ModelHotelConfig(AppConfig):
    name = "modelhotel"
    verbose_name = "Model Hotel"

    def ready(self) -> None:
        from modelhotel import wiring

        wiring.connect()
