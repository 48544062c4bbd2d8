"""The columns of limits and their bounds: the same for virtual keys and for accounts (v1-api 5.2)."""

from django.db import models
from django.db.models import Q

from modelhotel.core.limitbounds import MAX_BUDGET, MAX_BURST, MAX_RPS, MAX_TPM, PERIODS


class LimitFields(models.Model):
    """Null is nothing of its own; ``rate_limit_rps`` 0 is unlimited. A budget has an amount and a period."""

    rate_limit_rps = models.FloatField(null=True, blank=True)
    rate_limit_burst = models.IntegerField(null=True, blank=True)
    rate_limit_tpm = models.IntegerField(null=True, blank=True)
    budget_usd = models.FloatField(null=True, blank=True)
    budget_period = models.CharField(max_length=5, null=True, blank=True)

    class Meta:
        abstract = True
        constraints = [
            models.CheckConstraint(
                name="%(class)s_rps", condition=Q(rate_limit_rps__gte=0, rate_limit_rps__lte=MAX_RPS)
            ),
            models.CheckConstraint(
                name="%(class)s_burst", condition=Q(rate_limit_burst__gte=1, rate_limit_burst__lte=MAX_BURST)
            ),
            models.CheckConstraint(
                name="%(class)s_tpm", condition=Q(rate_limit_tpm__gte=1, rate_limit_tpm__lte=MAX_TPM)
            ),
            models.CheckConstraint(
                name="%(class)s_budget",
                condition=Q(budget_usd__isnull=True, budget_period__isnull=True)
                # A comparison with null is no "no" to the database.
                | Q(
                    budget_usd__isnull=False,
                    budget_period__isnull=False,
                    budget_usd__gt=0,
                    budget_usd__lte=MAX_BUDGET,
                    budget_period__in=PERIODS,
                ),
            ),
        ]
