"""The bounds of limits, for the database, the API and the pages (v1-api 5.2). Pure."""

MAX_RPS = 10_000
MAX_BURST = 10_000
MAX_TPM = 100_000_000
MAX_BUDGET = 10_000_000
PERIODS = ("day", "week", "month")
