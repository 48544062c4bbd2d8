"""From the refusal of a model by name to its being switched off (providers 7): what the docket decides is done here.

Nothing of it is on the path of a request: a strike is a note in memory, and whatever follows from it runs in a thread
of its own.
"""

import logging
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial

from failover.breaker.board import Board
from failover.resolve import Candidate
from modelhotel.core import events, metrics
from modelhotel.core.clock import SYSTEM, Clock
from providers import control
from providers.cache import ModelRow, ProviderRow
from proxy.gone import docket, probe
from proxy.gone.docket import Case, Docket, Key, Step, Surface, Verdict

log = logging.getLogger("proxy")

Ask = Callable[[ProviderRow, ModelRow, Surface], Verdict]
Start = Callable[[Callable[[], None]], None]


def _lacks(model_id: str) -> bool:
    from providers.discovery import current  # models: nothing of the data plane needs them to be imported

    return current.lacks(model_id)


class Retirement:
    """*ask* sends one probe, *lacks* tells whether a current listing does not name a model row, *start* runs work
    elsewhere. *cases* is empty unless some model was refused lately.
    """

    def __init__(
        self,
        clock: Clock = SYSTEM,
        *,
        ask: Ask = probe.ask,
        lacks: Callable[[str], bool] = _lacks,
        start: Start = control.apart,
    ) -> None:
        self._clock = clock
        self._ask = ask
        self._lacks = lacks
        self._start = start
        self._docket = Docket()
        self.cases = self._docket.cases

    def struck(self, candidate: Candidate, surface: Surface, board: Board) -> None:
        """The candidate's provider refused its model by name. Never raises."""
        provider, model = candidate.provider, candidate.model
        if not docket.counted(surface, model.input_modalities, model.output_modalities):
            return
        key, now = (model.id, surface), self._clock.monotonic()
        case, step = self._docket.strike(key, provider.id, now, circuit_open=board.provider_open(provider.id))
        attrs = {**_attrs(provider, model), "surface": surface, "strikes": case.strikes, "next": step.value}
        log.info("proxy: provider refused the model by name", extra={"attrs": attrs})
        if step is not Step.WAIT:
            follow = _Following(self, provider, model, key, case, now)
            try:
                self._start(partial(follow.run, step))
            except RuntimeError as problem:  # no thread to be had: the next strike finds the place free again
                log.warning("proxy: probe not started", extra={"attrs": {"reason": str(problem)}})

    def served(self, model_id: str, surface: Surface) -> None:
        """The model row *model_id* answered on *surface*."""
        if (model_id, surface) in self.cases and (strikes := self._docket.close((model_id, surface))):
            log.info("proxy: refused model answered again", extra={"attrs": {"model_id": model_id, "strikes": strikes}})


class _Following:
    """One case from the strike at *begun* on, in a thread of its own."""

    def __init__(
        self, owner: Retirement, provider: ProviderRow, model: ModelRow, key: Key, case: Case, begun: float
    ) -> None:
        self._clock, self._docket, self._lacks, self._ask = owner._clock, owner._docket, owner._lacks, owner._ask
        self._provider = provider
        self._model = model
        self._key = key
        self._case = case
        self._begun = begun
        self._attrs = {**_attrs(provider, model), "surface": key[1]}

    def run(self, step: Step) -> None:
        """*step* and what follows from it. Never raises."""
        try:
            if step is Step.PROBE:
                step = self._probe()
            if step is Step.LIST and self._lacks(self._model.id):
                step = Step.RETIRE
            if step is Step.RETIRE:
                self._retire()
        except Exception:
            log.exception("proxy: refused model not followed up", extra={"attrs": self._attrs})

    def _probe(self) -> Step:
        verdict = Verdict.INCONCLUSIVE
        try:
            verdict = self._ask(self._provider, self._model, self._key[1])
        except CancelledError:  # the process ends
            pass
        except Exception:
            log.exception("proxy: retirement probe broke", extra={"attrs": self._attrs})
        now = self._clock.monotonic()
        step = self._docket.judge(self._key, self._case, self._provider.id, self._begun, verdict, now)
        metrics.count(metrics.RETIREMENT_PROBES, self._provider.name, self._model.model_id, verdict)
        self._tell(verdict)
        return step

    def _tell(self, verdict: Verdict) -> None:
        attrs = {**self._attrs, "verdict": verdict.value, "strikes": self._case.strikes}
        if verdict is Verdict.SERVED:
            log.warning(
                "proxy: refused model answers the gateway's own request, strikes cleared", extra={"attrs": attrs}
            )
        elif verdict is Verdict.INCONCLUSIVE and self._case.inconclusive >= docket.TELL_INCONCLUSIVE:
            told = {**attrs, "in_a_row": self._case.inconclusive}
            log.warning("proxy: retirement probes stay inconclusive", extra={"attrs": told})
        else:
            log.info("proxy: retirement probe finished", extra={"attrs": attrs})

    def _retire(self) -> None:
        from providers import retire

        strikes = self._case.strikes
        if not retire.retire(self._model.id, lambda: self._docket.stands(self._key, self._case), self._clock):
            return
        self._docket.close(self._key)
        provider, model_id = self._provider.name, self._model.model_id
        log.warning("proxy: model switched off", extra={"attrs": {**self._attrs, "strikes": strikes}})
        events.publish(
            "model.auto_disabled_gone",
            "warning",
            "proxy",
            f"{provider} no longer serves {model_id}: the model was switched off",
            {
                "model_id": model_id,
                "model_uuid": self._model.id,
                "provider_name": provider,
                "strikes": strikes,
                "reason": "provider_model_gone",
                "probe_verdict": Verdict.REFUSED.value,
                "endpoint_type": self._key[1],
            },
        )


def _attrs(provider: ProviderRow, model: ModelRow) -> dict[str, object]:
    return {"provider": provider.name, "provider_id": provider.id, "model": model.model_id}
