"""What a change of state looks like from outside: log lines, and the events behind dashboards and alerts.

Everything is read in the same step as the change (:class:`Report`) and told afterwards, outside of any lock. Only
fixed phrases of ours and upstream model ids are told, never text of a provider or a request.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from failover.breaker import circuit as facts
from failover.breaker.circuit import Circuit, Moment, State, Wait
from failover.breaker.pins import Source
from failover.breaker.rules import BreakerSettings
from failover.breaker.state import OPENS_WINDOW, Event, Move
from failover.verdict import Judgement, Verdict
from modelhotel.core import durations, events, metrics
from modelhotel.core.clock import rfc3339

log = logging.getLogger("circuit-breaker")
proxy_log = logging.getLogger("proxy")

#: The open of one window that is told as instability; later ones of that window are not.
UNSTABLE_OPENS = 3


@dataclass(frozen=True, slots=True)
class Report:
    """A circuit as it was right after *move* at the wall time *at*. *provider_open*: the provider-wide verdict then;
    *wait* is the one enforced (open), just elapsed (half-open) or none (closed); *opens* counts the 24 h window.
    """

    provider_id: str
    model: str
    move: Move
    cause: str
    status: int
    consecutive_fails: int
    failed_probes: int
    wait: Wait
    retry_at: datetime | None
    provider_open: bool
    opens: int
    at: datetime

    @classmethod
    def of(
        cls, provider_id: str, circuit: Circuit, move: Move, now: Moment, rules: BreakerSettings, *, provider_open: bool
    ) -> "Report":
        return cls(
            provider_id=provider_id,
            model=circuit.model,
            move=move,
            cause=circuit.last_cause,
            status=circuit.last_status,
            consecutive_fails=circuit.consecutive_fails,
            failed_probes=circuit.failed_probes,
            wait=facts.NO_WAIT if move.after is State.CLOSED else facts.wait_of(circuit, rules),
            retry_at=facts.retry_wall(circuit, rules),
            provider_open=provider_open,
            opens=circuit.opens,
            at=now.wall,
        )

    @property
    def unstable(self) -> bool:
        return self.move.after is State.OPEN and self.opens == UNSTABLE_OPENS


#: What moved a pin of a circuit that stays as it is.
RETARGETED = "circuit-breaker: quota pin retargeted (fresh exhaustion reading)"
LONGER_CLAIM = "circuit-breaker: quota pin replaced (longer claim)"
_SPENT = (Event.EXHAUSTED, Event.STILL_SPENT)


@dataclass(frozen=True, slots=True)
class PinNote:
    """A pin that was changed or released without a change of state. *ms* is the wait from then on; *state*, the
    reported one, is told of a release."""

    text: str
    provider_id: str
    model: str
    ms: int
    state: State | None

    @classmethod
    def of(
        cls, provider_id: str, circuit: Circuit, text: str, rules: BreakerSettings, state: State | None = None
    ) -> "PinNote":
        return cls(text, provider_id, circuit.model, facts.wait_of(circuit, rules).ms, state)


def _line(report: Report) -> tuple[int, str] | None:
    """Level and text of the log line of this transition; None where there is another one for it."""
    if report.move.event is Event.SEED:
        if report.move.after is State.CLOSED:
            return None
        why = "reserve reached" if report.wait.pin_source == Source.RESERVE else "exhausted"
        return logging.WARNING, f"circuit-breaker: {report.cause} - {why}"
    match report.move.before, report.move.after:
        case State.CLOSED, State.OPEN:
            suffix = " (exhausted)" if report.move.event in _SPENT else ""
            return logging.WARNING, f"circuit-breaker: model state=closed→open{suffix}"
        case State.HALF_OPEN, State.OPEN:
            drew = "probe drew exhaustion" if report.move.event in _SPENT else "probe failed"
            return logging.WARNING, f"circuit-breaker: model state=half-open→open ({drew})"
        case State.OPEN, State.HALF_OPEN:
            return logging.INFO, "circuit-breaker: model state=open→half-open (cooldown elapsed)"
    return logging.INFO, "circuit-breaker: model state=half-open→closed (probe succeeded)"


def open_message(report: Report, provider: str) -> str:
    """The sentence of a ``circuit_breaker.open`` event."""
    text = f"Provider {provider} circuit breaker: open for model {report.model}"
    if report.provider_open:
        text += " (provider skipped)"
    text += f": {report.cause}"
    if report.wait.backing_off:
        noun = "retry" if report.failed_probes == 1 else "retries"
        wait = durations.short(report.wait.seconds)
        text += f" (backing off after {report.failed_probes} failed {noun}, next retry in {wait})"
    return text


def metadata(report: Report, provider: str) -> dict[str, object]:
    """The members of a ``circuit_breaker.open`` or ``.closed`` event.

    ``model_id`` is what alerts are debounced on: left out while the whole provider is skipped, so that an outage of
    fifty models is one fact.
    """
    opened = report.move.after is State.OPEN
    data: dict[str, object] = {"provider_id": report.provider_id, "provider": provider, "model": report.model}
    if not (opened and report.provider_open):
        data["model_id"] = report.model
    data |= {
        "state": report.move.after.value,
        "cause": report.cause,
        "status": report.status,
        "pin_source": report.wait.pin_source,
        "provider_open": report.provider_open,
        "consecutive_fails": report.consecutive_fails,
        "quota_pinned": report.wait.quota_pinned,
        "backed_off": report.wait.backed_off,
        "failed_probes": report.failed_probes,
    }
    if opened:
        data["cooldown_ms"] = report.wait.ms
        if report.wait.quota_pinned or report.wait.backed_off:
            data["next_retry_at"] = rfc3339(report.retry_at, milliseconds=True)
    return data


def _log_move(report: Report, provider: str) -> None:
    line = _line(report)
    if line is None:
        return
    level, text = line
    attrs = {
        "provider": provider,
        "provider_id": report.provider_id,
        "cause": report.cause,
        "status": report.status,
        "consecutive_failures": report.consecutive_fails,
        "cooldown_ms": report.wait.ms,
        "quota_pinned": report.wait.quota_pinned,
        "backed_off": report.wait.backed_off,
        "failed_probes": report.failed_probes,
        "model": report.model,
    }
    log.log(level, text, extra={"attrs": attrs})


def _publish_move(report: Report, provider: str) -> None:
    at = report.at.timestamp()
    if report.move.after is State.OPEN:
        text = open_message(report, provider)
        events.publish("circuit_breaker.open", "warning", "failover", text, metadata(report, provider), at=at)
    elif report.move.after is State.CLOSED:
        text = f"Provider {provider} circuit breaker: closed for model {report.model}"
        events.publish("circuit_breaker.closed", "success", "failover", text, metadata(report, provider), at=at)


def _log_unstable(report: Report, provider: str) -> None:
    attrs = {
        "provider": provider,
        "provider_id": report.provider_id,
        "opens": report.opens,
        "window": _WINDOW,
        "model": report.model,
    }
    log.warning("circuit-breaker: model keeps reopening its circuit", extra={"attrs": attrs})


def _publish_unstable(report: Report, provider: str) -> None:
    events.publish(
        "circuit_breaker.unstable",
        "warning",
        "failover",
        f"{report.model} on {provider} opened its circuit {report.opens} times in {_WINDOW}",
        {
            "provider_id": report.provider_id,
            "provider": provider,
            "model": report.model,
            "model_id": report.model,
            "opens": report.opens,
            "window": _WINDOW,
        },
        at=report.at.timestamp(),
    )


_WINDOW = durations.short(OPENS_WINDOW)


def tell(report: Report, provider: str) -> None:
    """Log and publish one transition. Never raises: what is told must not change what was decided."""
    _guarded(_log_move, report, provider)
    _guarded(_publish_move, report, provider)
    if report.move.after is State.OPEN:
        metrics.count(metrics.CIRCUIT_OPENS, provider, report.model, report.cause)
    if report.unstable:
        _guarded(_log_unstable, report, provider)
        _guarded(_publish_unstable, report, provider)


def tell_recording(provider_id: str, provider: str, model: str, judgement: Judgement) -> None:
    """The proxy's line about a verdict against a provider; nothing for the others. Never raises."""
    attrs: dict[str, object] = {"reason": judgement.cause, "status": judgement.status}
    if judgement.verdict is Verdict.CHARGE:
        text = "proxy: recording circuit breaker failure"
    elif judgement.verdict is Verdict.EXHAUSTED:
        text = "proxy: recording circuit breaker exhaustion"
        attrs["pin_hint_ms"] = round(judgement.pin_hint * 1000)
    else:
        return
    attrs |= {"provider": provider, "provider_id": provider_id, "model": model}
    _guarded(lambda: proxy_log.warning(text, extra={"attrs": attrs}))


def tell_pin(note: PinNote) -> None:
    """The line about a pin that moved; the circuit stays as it is, so there is no event. Never raises."""
    attrs: dict[str, object] = {"provider_id": note.provider_id}
    if note.state is not None:
        attrs["state"] = note.state.value
    attrs |= {"cooldown_ms": note.ms, "model": note.model}
    _guarded(lambda: log.info(note.text, extra={"attrs": attrs}))


def tell_reset(provider_id: str, model: str, previous: State) -> None:
    """The line about one circuit cleared by hand; a reset publishes no event. Never raises."""
    attrs = {"provider_id": provider_id, "cause": "manual reset", "previous_state": previous.value, "model": model}
    _guarded(lambda: log.info("circuit-breaker: manual reset", extra={"attrs": attrs}))


def _guarded(act: Callable[..., None], *arguments: object) -> None:
    try:
        act(*arguments)
    except Exception:
        try:
            log.exception("circuit-breaker: report failed")
        except Exception:  # the logging itself is broken: there is nobody left to tell
            return
