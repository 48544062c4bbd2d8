"""What a Prometheus server sees of the running product."""

from collections.abc import Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.wire.product import Product

Key = tuple[str, frozenset[tuple[str, str]]]


class Numbers(dict[Key, float]):
    """Every sample of one scrape by its name and labels."""

    def of(self, name: str, **labels: str) -> float:
        """One sample; ``class_`` stands for the label ``class``. A series that is not there is 0."""
        return self.get((name, frozenset(_named(labels).items())), 0.0)

    def series(self, name: str, **labels: str) -> list[dict[str, str]]:
        """The labels of every sample of *name* that has these."""
        wanted = _named(labels).items()
        return [dict(found) for (one, found) in self if one == name and wanted <= dict(found).items()]

    def since(self, before: Mapping[Key, float]) -> "Numbers":
        """What has changed since *before*."""
        return Numbers({key: value - before.get(key, 0.0) for key, value in self.items() if value != before.get(key)})

    def only(self, name: str) -> dict[tuple[str, ...], float]:
        """Label values in the order of their names -> value, of all samples of *name*."""
        return {
            tuple(value for _, value in sorted(labels)): number for (one, labels), number in self.items() if one == name
        }


def _named(labels: Mapping[str, str]) -> dict[str, str]:
    return {name.rstrip("_"): value for name, value in labels.items()}


def numbers(text: str) -> Numbers:
    found = Numbers()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, f"{key} twice in one scrape"
            found[key] = sample.value
    return found


def scrape(product: Product, **kwargs: Any) -> Numbers:
    answer = product.api("GET", "/metrics", **kwargs)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return numbers(answer.text)
