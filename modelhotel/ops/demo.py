"""What ``manage.py demo`` adds to a serving process: providers on loopback, the records for them, some traffic.

Everything lives in the process: its own thread, which ends with it.
"""

import asyncio
import contextlib
import logging
import os
import random
import secrets
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import httpx
from django.db import connection

from failover import verbs as groups
from failover.models import FailoverGroup
from modelhotel import config_store, settings_verbs
from modelhotel.core.actor import SYSTEM
from modelhotel.core.environment import Environment
from modelhotel.ops import simulated
from modelhotel.ops.faults import StartRefused
from modelhotel.ops.simulated import BAD_TIME, Chance, Provider
from modelhotel.ops.simulated_vectors import EMBEDDER
from modelhotel.site import look
from providers import model_verbs as models
from providers import verbs as providers
from providers.discovery.scan import SCANNER
from providers.models import Model
from providers.models import Provider as ProviderRow
from proxy import verbs as keys
from proxy.models import VirtualKey

#: Stored once, so that circuits open and recover while somebody looks on.
SETTINGS = {"circuit_breaker_threshold": "3", "circuit_breaker_cooldown": "10s"}
KEY_NAME = "demo"
GROUP = f"hotel/{simulated.MODEL}"
EMBEDDING_GROUP = f"hotel/{EMBEDDER}"
#: Dollars per million tokens, in and out, of what each provider says: made up, and far enough apart to be told.
PRICES = {"Flaky": (0.5, 1.5), "Healthy": (1.0, 3.0), "Slow": (0.25, 0.75)}
LOGIN_FILE = "demo-login"
#: Seconds between two requests of the trickle; how many may run at once; how long one may take.
BEAT, AT_ONCE, PATIENCE = 2.0, 8, 60.0
#: Every so many requests one asks the slow provider by its name, which no group would do, and one asks for vectors.
DIRECT, EMBEDDED = 8, 5
_PROMPTS = ("What is a circuit breaker?", "Say hello.", "Why did the first provider not answer?", "Tell me a story.")
_TURN = 0.1
_JOIN = 5.0
log = logging.getLogger("demo")


def with_login(env: Environment) -> Environment:
    """*env* with an admin token and a password of the demo's own, the same at every start so that they can be shown.

    Raises StartRefused.
    """
    file = env.data_dir / LOGIN_FILE
    try:
        if not file.exists():
            with open(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as made:
                made.write(f"{secrets.token_hex(16)}\n{secrets.token_urlsafe(9)}\n")
        token, password = file.read_text().split()
    except (OSError, ValueError) as problem:
        raise StartRefused(f"{file} can not be used, delete {env.data_dir} to start over: {problem}") from problem
    return replace(env, admin_token=token, admin_password=password)


def furnish(addresses: Mapping[str, str]) -> str:
    """Make what is missing of the demo's records; the text of its new virtual key. *addresses*: name -> base URL.

    What somebody changed in the dashboard stays. Raises Refusal.
    """
    try:
        stored = config_store.stored_settings()
        if missing := {key: text for key, text in SETTINGS.items() if key not in stored}:
            settings_verbs.update(missing, SYSTEM)
        rows = [_provider(name, base_url) for name, base_url in addresses.items()]
        scanned = [_scan(row) for row in rows]
        for model in (simulated.MODEL, EMBEDDER):
            _group(model, rows, fresh=any(scanned))
        return _key()
    finally:
        connection.close()


def _provider(name: str, base_url: str) -> ProviderRow:
    row = ProviderRow.objects.filter(name=name).first()
    if row is None:
        return providers.create(providers.ProviderData(name, base_url, "custom"), SYSTEM)
    if row.base_url != base_url:
        row = providers.update(str(row.pk), {"base_url": base_url}, SYSTEM)
    return row


def _scan(row: ProviderRow) -> bool:
    """Whether it had to be asked for its models."""
    known = Model.objects.filter(provider=row, model_id__in=(simulated.MODEL, EMBEDDER)).count()
    if known == 2 or not (row.enabled and row.autodiscovery_enabled):
        return False
    SCANNER.one(str(row.pk))
    _price(row)
    return True


def _price(row: ProviderRow) -> None:
    """What no listing tells, so that the demo's requests cost something. Prices that somebody set stay."""
    paid, earned = PRICES[row.name]
    for model in Model.objects.filter(provider=row, model_id=simulated.MODEL, price_customized=False):
        told = {"input_price_per_million": paid, "output_price_per_million": earned}
        models.update_model(str(model.pk), told, SYSTEM)


def _group(model: str, rows: list[ProviderRow], fresh: bool) -> None:
    found = {m.provider_id: str(m.pk) for m in Model.objects.filter(provider__in=rows, model_id=model)}
    order = [found[row.pk] for row in rows if row.pk in found]
    group = FailoverGroup.objects.filter(display_model=model).first()
    if group is None:
        groups.create(groups.GroupData(model, entry_ids=order), SYSTEM)
    elif fresh:
        groups.update(str(group.pk), {"priority_order": order}, SYSTEM)


def _key() -> str:
    """A key can be read only when it is made, so each start makes one and takes the last one back."""
    for pk in list(VirtualKey.objects.filter(name=KEY_NAME).values_list("pk", flat=True)):
        keys.delete(str(pk), SYSTEM)
    return keys.create({"name": KEY_NAME}, SYSTEM)[1]


def _address(title: str) -> str:
    """The path of the page that the navigation calls *title*: a guide that led somewhere else would be none."""
    items = [item for block in look.UNFOLD["SIDEBAR"]["navigation"] for item in block["items"]]
    return next(str(item["link"]) for item in items if item["title"] == title)


def guide(url: str, env: Environment, key: str) -> str:
    """What to look at."""
    body = f'{{"model": "{GROUP}", "messages": [{{"role": "user", "content": "Hello"}}]}}'
    vectors = f'{{"model": "{EMBEDDING_GROUP}", "input": "Hello"}}'
    bearer = f"-H 'Authorization: Bearer {env.admin_token}'"
    return f"""
The demo runs: a request every {BEAT:.0f} s asks {GROUP}, which is Flaky, then Healthy, then Slow. Flaky fails for
{BAD_TIME:.0f} s of every minute: watch its circuit open, Healthy take over, and Flaky come back.

  Sign in:      {url}/  user admin, password {env.admin_password}
  Failover:     {url}{_address("Failover")}  circuits open and close on the group {simulated.MODEL}
  Requests:     {url}{_address("Requests")}  who was asked, who failed, who answered
  Overview:     {url}{_address("Overview")}  the whole house at a glance

  Ask:          curl -s {url}/v1/chat/completions -H 'Authorization: Bearer {key}' -d '{body}'
  Vectors:      curl -s {url}/v1/embeddings -H 'Authorization: Bearer {key}' -d '{vectors}'
  Request log:  curl -s {url}/api/logs {bearer}
  Events:       curl -sN {url}/api/events {bearer}
  Admin token:  {env.admin_token}
  Kept in:      {env.data_dir} (delete it to start over)
"""


@dataclass(frozen=True, slots=True)
class Call:
    model: str
    stream: bool
    prompt: str
    path: str = "/v1/chat/completions"

    @property
    def body(self) -> dict[str, Any]:
        if self.model == EMBEDDING_GROUP:
            return {"model": self.model, "input": self.prompt}
        return {
            "model": self.model,
            "stream": self.stream,
            "messages": [{"role": "user", "content": self.prompt}],
        }


def call(number: int, chance: Chance) -> Call:
    """The request *number* of the trickle, counted from 1."""
    stream, prompt = chance() < 0.5, _PROMPTS[int(chance() * len(_PROMPTS))]
    if number % EMBEDDED == 0:
        return Call(EMBEDDING_GROUP, False, prompt, "/v1/embeddings")
    return Call(f"Slow/{simulated.MODEL}" if number % DIRECT == 0 else GROUP, stream, prompt)


async def trickle(url: str, key: str, ended: Callable[[], bool], chance: Chance) -> None:
    """Ask /v1 at *url* at a steady pace until *ended*; what is running then is given up."""
    headers = {"Authorization": f"Bearer {key}"}
    running: set[asyncio.Task[None]] = set()
    number = 0
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE, trust_env=False) as client:
        try:
            await _until_ready(client, ended)
            loop = asyncio.get_running_loop()
            due = loop.time()
            while not ended():
                if loop.time() >= due and len(running) < AT_ONCE:
                    due, number = loop.time() + BEAT, number + 1
                    task = asyncio.create_task(_ask(client, call(number, chance)))
                    running.add(task)
                    task.add_done_callback(running.discard)
                await asyncio.sleep(_TURN)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


async def _until_ready(client: httpx.AsyncClient, ended: Callable[[], bool]) -> None:
    while not ended():
        with contextlib.suppress(httpx.HTTPError):
            if (await client.get("/health")).status_code == 200:
                return
        await asyncio.sleep(_TURN)


async def _ask(client: httpx.AsyncClient, what: Call) -> None:
    try:
        async with client.stream("POST", what.path, json=what.body) as answer:
            async for _ in answer.aiter_raw():
                pass
        log.debug("demo: asked", extra={"attrs": {"model": what.model, "status": answer.status_code}})
    except httpx.HTTPError as problem:
        log.debug("demo: request failed", extra={"attrs": {"model": what.model, "reason": type(problem).__name__}})


class Stage:
    """The simulated providers, in an event loop of their own as long as the block lasts. Raises OSError."""

    def __init__(self, chance: Chance = random.random) -> None:
        self._chance = chance
        self._opened: Future[dict[str, str]] = Future()
        self._thread = threading.Thread(target=self._main, name="demo", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.addresses: dict[str, str] = {}

    def __enter__(self) -> "Stage":
        self._thread.start()
        self.addresses = self._opened.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._over is not None:
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(_JOIN)

    def _main(self) -> None:
        try:
            asyncio.run(self._play())
        except BaseException as problem:
            if not self._opened.done():
                self._opened.set_exception(problem)
            else:
                log.exception("demo: the simulated providers are gone")

    async def _play(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            cast = [Provider(name, character, self._chance) for name, character in simulated.CAST.items()]
            for provider in cast:
                await stack.enter_async_context(provider.running())
            self._opened.set_result({provider.name: provider.base_url for provider in cast})
            await self._over.wait()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def add(self, work: Coroutine[Any, Any, None]) -> None:
        """Run *work* here until it or the block ends."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(lambda: self._tasks.add(asyncio.ensure_future(work)))
