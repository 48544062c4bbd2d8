"""The request log as an operator reads it, all pages of it."""

from collections import Counter
from typing import Any

from tests.wire.product import Product


def rows(product: Product, token: str | None = None) -> list[dict[str, Any]]:
    """Every row, newest first."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = product.api("GET", f"/api/logs/cursor?limit=200{cursor}", token=token).json()
        found += page["entries"]
        if not page["next_cursor"]:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def times(found: list[dict[str, Any]]) -> Counter[str]:
    """How often each request has a row."""
    return Counter(row["request_hash"] for row in found)
