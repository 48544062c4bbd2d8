"""The log lines of a walk (failover-loop 19). Numbers of attempts count from 1."""

import logging
from functools import lru_cache

from failover.ratelimit import RateClass
from failover.resolve import Candidate
from modelhotel.core import durations, logformat
from proxy.exchange import Exchange
from proxy.terminal import Failure
from proxy.trail import Element

log = logging.getLogger("proxy")


def who(candidate: Candidate) -> dict[str, object]:
    return {"provider": candidate.provider.name, "provider_id": candidate.provider.id}


def asked(exchange: Exchange, candidate: Candidate, attempt: int, total: int) -> None:
    """*candidate*, of *total*, is about to be asked."""
    provider, model = candidate.provider, candidate.model.model_id
    if attempt == 1:
        attrs = _routed(exchange.endpoint.family, provider.name, provider.id, model, total)
        logformat.say(log, "proxy: routing to provider", attrs)
    else:
        told = {"endpoint": exchange.endpoint.family, "attempt": attempt, **who(candidate), "model": model}
        log.info("proxy: failover attempt", extra={"attrs": told})


@lru_cache(maxsize=1024)
def _routed(endpoint: str, provider: str, provider_id: str, model: str, total: int) -> logformat.Told:
    return logformat.Told(
        {
            "endpoint": endpoint,
            "provider": provider,
            "provider_id": provider_id,
            "model": model,
            "total_candidates": total,
        }
    )


def delivered(exchange: Exchange, candidate: Candidate, status: int, attempt: int) -> None:
    """A whole answer went out."""
    attrs = _delivered(exchange.model, candidate.provider.name, status, attempt)
    logformat.say(log, "proxy: non-streaming completed", attrs, exchange.draft.elapsed_ms())


@lru_cache(maxsize=1024)
def _delivered(model: str, provider: str, status: int, attempt: int) -> logformat.Told:
    return logformat.Told({"model": model, "provider": provider, "status": status, "attempt": attempt})


def left_to_the_probe(candidate: Candidate) -> None:
    attrs = {"provider": candidate.provider.name, "model": candidate.model.model_id}
    log.info("resolve: skipping candidate: probe in progress", extra={"attrs": attrs})


def full(candidate: Candidate) -> None:
    attrs = {**who(candidate), "model": candidate.model.model_id}
    log.info("proxy: skipping candidate: provider at in-flight limit", extra={"attrs": attrs})


def freed(candidate: Candidate, attempt: int) -> None:
    attrs = {"provider": candidate.provider.name, "model": candidate.model.model_id, "attempt": attempt}
    log.info("proxy: slot freed, retrying a busy candidate", extra={"attrs": attrs})


def triggered(last: Element | None, failure: Failure) -> None:
    """*last* failed, and another candidate is asked."""
    assert last is not None
    attrs = {
        "attempt": last.index + 1,
        **who(last.candidate),
        "status": failure.status,
        "rate_limit_class": str(failure.reading.kind if failure.reading is not None else RateClass.UNKNOWN),
    }
    log.info("proxy: failover triggered", extra={"attrs": attrs})


def too_long(model: str, last: Element | None) -> None:
    """The prompt was too long for *last*, and another candidate may take it."""
    assert last is not None
    attrs = {
        "model": model,
        "provider": last.candidate.provider.name,
        "attempt": last.index + 1,
        "context_length": last.candidate.model.context_length,
    }
    log.info("proxy: prompt too long for candidate, trying a larger context window", extra={"attrs": attrs})


def backoff(wait: float, attempt: int) -> None:
    """*wait* seconds before *attempt*."""
    log.info("proxy: failover backoff", extra={"attrs": {"backoff": durations.short(wait), "attempt": attempt}})


def client_left(model: str, last: Element | None, attempt: int, *, stalled: bool, busy: bool) -> None:
    """The client left between two attempts: after *last* *stalled*, while a *busy* provider was waited for, or else."""
    attrs: dict[str, object] = {"model": model, "provider": last.candidate.provider.name if last is not None else ""}
    if busy:
        log.info("proxy: client disconnected while waiting out saturation", extra={"attrs": attrs})
        return
    attrs["attempt"] = attempt
    if stalled:
        attrs |= {"kind": "provider_timeout", "status": 502}
        log.info("proxy: connection closed during failover backoff after provider stall", extra={"attrs": attrs})
    else:
        log.info("proxy: client disconnected during failover backoff", extra={"attrs": attrs})


def out_of_time(exchange: Exchange, attempts: int, total: int) -> None:
    attrs = {
        "model": exchange.model,
        "attempt": attempts,
        "total_candidates": total,
        "deadline": _deadline(exchange),
    }
    log.warning("proxy: overall request deadline exceeded, stopping failover", extra={"attrs": attrs})


def non_200(model: str, failure: Failure, last: Element | None) -> None:
    """A provider's own error is the answer."""
    attrs: dict[str, object] = {"status": failure.status, "error_kind": failure.kind, "model": model}
    if last is not None:
        attrs |= who(last.candidate)
    log.warning("proxy: upstream non-200", extra={"attrs": attrs})


def exhausted(exchange: Exchange, total: int, provider: str, status: int) -> None:
    """Nobody of *total* candidates served; *provider* was the last, the client gets *status*."""
    draft, resolution = exchange.draft, exchange.resolution
    attrs: dict[str, object] = {
        "model": exchange.model,
        "provider": provider,
        "error": draft.error_message,
        "kind": draft.error_kind,
        "status": status,
    }
    if resolution is not None and resolution.group:
        attrs |= {"candidates": total, "failover_timeout": _deadline(exchange)}
        log.error("proxy: all providers exhausted", extra={"attrs": attrs})
    else:
        attrs["request_timeout"] = durations.short(exchange.attempt_seconds)
        log.error("proxy: provider request failed", extra={"attrs": attrs})


def _deadline(exchange: Exchange) -> str:
    return durations.short(exchange.deadline - exchange.draft.arrival)
