"""When an error says that a model is gone, and what strikes against it lead to."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import own_call, ports
from providers.own_call import Reply
from providers.upstream.interface import Request
from proxy import reasons
from proxy.gone import docket, probe, refusal
from proxy.gone.docket import AT_ONCE, GAP, LOST, PAUSE, Docket, Step, Verdict

# -- the refusal


def said(model_id: str, status: int = 404, **error: object) -> bool:
    """Whether the provider's error object says that *model_id* is gone."""
    return reasons.model_gone(status, reasons.read(json.dumps({"error": error}).encode()), model_id)


@pytest.mark.parametrize(
    ("requested", "error", "gone"),
    [
        ("gpt-4", {"message": "The model 'gpt-4' does not exist"}, True),
        ("gpt-4.1", {"message": "The model 'gpt-4' does not exist"}, False),
        ("gpt-4", {"message": "gpt-4.1 does not exist"}, False),
        ("claude-sonnet-4", {"message": "claude-sonnet-4-20250514 does not exist"}, True),
        ("gpt-4", {"message": "gpt-4 is not supported for this endpoint"}, False),
        ("gpt-4", {"code": "model_not_found", "message": "no"}, True),
        ("gpt-4", {"type": "not_found_error", "message": "file-123 was not found"}, False),
    ],
)
def test_only_a_refusal_of_this_very_model_counts(requested: str, error: dict[str, str], gone: bool):
    """part of providers 53. Which of them strikes: :func:`test_a_refusal_strikes_on_its_own_surface_only`."""
    assert said(requested, **error) is gone


@pytest.mark.parametrize(
    ("message", "gone"),
    [
        # vendors' own words
        ("The model `gpt-4` does not exist or you do not have access to it.", True),
        ("model: gpt-4 does not exist", True),
        ("models/gpt-4 is not found for API version v1beta, or is not supported for generateContent.", True),
        ('model "gpt-4" not found, try pulling it first', False),  # no phrase of the table
        ("Model Not Found: openai/gpt-4", True),
        ("Unknown model: gpt-4", True),
        ("unknown model gpt-4, known are gpt-5 and gpt-6", True),
        ("gpt-4 is no longer available", True),
        ("GPT-4 is no longer available. Use gpt-5", True),
        ("gpt-4 was retired and is not supported any more", True),
        # the id as a whole
        ("gpt-4-0613 does not exist", True),
        ("gpt-4-2024-08-06 does not exist", True),
        ("gpt-4-20240806 does not exist", True),
        ("gpt-4-12-3 does not exist", False),
        ("gpt-4-2024-08-06-1 does not exist", False),
        ("gpt-4-2024-preview does not exist", False),
        ("gpt-4-turbo does not exist", False),
        ("gpt-4:free does not exist", False),
        ("my-gpt-4 does not exist", False),
        ("xgpt-4 does not exist", False),
        ("vendor/gpt-4 does not exist", True),
        ("gpt-4/other does not exist", False),
        # between the two
        ("gpt-4 and gpt-5 does not exist", False),
        ("gpt-4 or deepseek-chat does not exist", False),
        ("gpt-4 is fine. It does not exist elsewhere", False),
        ("gpt-4, as we said, does not exist", False),
        ("gpt-4\ndoes not exist", False),
        ("gpt-4 {x} does not exist", False),
        ("gpt-4" + " " * 40 + "does not exist", True),
        ("gpt-4" + " " * 41 + "does not exist", False),
        ("does not exist" + " " * 40 + "gpt-4", True),
        ("does not exist" + " " * 41 + "gpt-4", False),
        ("gpt-4 does not exist. gpt-5 is fine", True),
        ("gpt-5 does not exist; gpt-4 is fine", False),
        # one use of the model
        ("gpt-4 is not supported for the chat completions endpoint", False),
        ("gpt-4 is not supported with this API version", False),
        ("gpt-4 is not supported on your current plan", False),
        ("gpt-4 is not supported in your region", False),
        ("gpt-4 is not supported for this request type", False),
        ("gpt-4 is not supported in batch mode", False),
        ("gpt-4 is not supported with gpt-4.1 in this mode", False),
        ("gpt-4 is not supported for one two three four five endpoint", True),
        ("gpt-4 is not supported on weekdays", True),
        ("gpt-4 does not exist for the account", False),
        # not about the model at all
        ("Unsupported parameter: 'max_tokens' is not supported with gpt-4", False),
        ("insufficient balance: gpt-4 is not supported", False),
        ("no resource package, gpt-4 does not exist", False),
        ("this not supported gpt-4", False),
        ("", False),
    ],
)
def test_a_phrase_beside_the_id_is_a_refusal(message: str, gone: bool):
    """part of providers 53"""
    assert said("openai/gpt-4", message=message) is gone
    # The same in a body without an error object, and as plain text.
    assert reasons.model_gone(404, reasons.read(json.dumps({"detail": message}).encode()), "gpt-4") is gone
    assert reasons.model_gone(404, reasons.read(message.encode()), "gpt-4") is gone


@pytest.mark.parametrize(
    ("status", "error", "gone"),
    [
        (404, {"code": "model_not_supported"}, True),
        (400, {"code": "model_not_found", "type": "invalid_request_error", "message": "The model gpt-4 ..."}, True),
        (402, {"code": "model_not_found"}, False),
        (402, {"message": "gpt-4 does not exist"}, False),
        (403, {"code": "model_not_found", "message": "You exceeded your current quota"}, False),
        (404, {"type": "not_found_error", "message": "model: gpt-4"}, True),
        (404, {"type": "not_found_error", "message": "model: gpt-4-0613"}, True),
        (404, {"type": "not_found_error", "message": "model: gpt-5"}, False),
        (404, {"type": "not_found_error"}, False),
        (404, {"type": "invalid_request_error", "message": "model: gpt-4"}, False),
        (404, {"code": 404, "message": "nothing"}, False),
        (500, {"message": "gpt-4 does not exist"}, True),
    ],
)
def test_code_and_type_count_with_the_message_of_their_own_object(status: int, error: dict[str, object], gone: bool):
    assert said("gpt-4", status, **error) is gone


def test_code_and_message_of_two_objects_are_no_claim():
    body = json.dumps({"error": {"type": "not_found_error", "message": "file"}, "detail": "model: gpt-4"}).encode()
    assert not reasons.model_gone(404, reasons.read(body), "gpt-4")
    inner = json.dumps({"error": {"message": "no"}, "code": "model_not_found"}).encode()
    assert not reasons.model_gone(404, reasons.read(inner), "gpt-4")


def test_an_id_beside_the_message_is_not_in_its_clause():
    body = json.dumps({"error": {"message": "the file does not exist", "model": "gpt-4"}}).encode()
    assert not reasons.model_gone(404, reasons.read(body), "gpt-4")


@pytest.mark.parametrize("model_id", ["", "/", ":", "a/"])
def test_an_unknown_id_is_no_claim(model_id: str):
    assert not said(model_id, message="unknown model b")


_PIECES = st.lists(
    st.sampled_from(
        [
            "gpt-4",
            "gpt-4-0613",
            "does not exist",
            "unknown model",
            "is not supported",
            " for this endpoint",
            " ",
            ".",
            "x",
        ]
    )
    | st.text(max_size=8),
    max_size=30,
).map("".join)


@given(st.text(max_size=40), st.integers(0, 999), st.text(max_size=30), st.text(max_size=30), _PIECES, _PIECES)
def test_no_text_breaks_it(model_id: str, status: int, code: str, type: str, message: str, body: str):
    refusal.is_gone(model_id, status=status, code=code, type=type, message=message, body=body)


@given(_PIECES, _PIECES)
def test_a_claim_needs_phrase_and_id(before: str, after: str):
    text = before.replace("gpt-4", "") + after.replace("gpt-4", "")
    assert not refusal.is_gone("gpt-4", status=404, code="", type="", message="", body=text.replace("gpt-4", ""))


@pytest.mark.parametrize(
    "piece",
    ["gpt-4 does not exist for ", "gpt-4 ", "unknown model ", "a.b-", "is not supported for a a a a ", "\\n", "-1"],
)
def test_a_long_body_takes_no_long(piece: str):
    text = (piece * (64 * 1024 // len(piece) + 1))[: 64 * 1024]
    began = time.process_time()
    refusal.is_gone("gpt-4", status=404, code="", type="not_found_error", message=text, body=text)
    assert time.process_time() - began < 1.0


# -- strikes

KEY: docket.Key = ("m1", "chat")


def strike(book: Docket, now: float, key: docket.Key = KEY, provider: str = "p", circuit_open: bool = False) -> Step:
    return book.strike(key, provider, now, circuit_open=circuit_open)[1]


def judge(book: Docket, begun: float, verdict: Verdict, now: float, key: docket.Key = KEY) -> Step:
    return book.judge(key, book.cases[key], "p", begun, verdict, now)


def strikes(book: Docket, key: docket.Key = KEY) -> int:
    return book.cases[key].strikes if key in book.cases else 0


def test_the_first_refusal_is_probed_and_a_refused_probe_asks_for_the_listing():
    """part of providers 54"""
    book = Docket()
    assert strike(book, 0.0) is Step.PROBE
    assert judge(book, 0.0, Verdict.REFUSED, 1.0) is Step.LIST


def test_where_the_listing_names_it_the_third_strike_switches_it_off_on_the_young_verdict():
    """part of providers 54"""
    book = Docket()
    strike(book, 0.0)
    judge(book, 0.0, Verdict.REFUSED, 1.0)
    assert [strike(book, 2.0), strike(book, 3.0)] == [Step.WAIT, Step.RETIRE]


def test_a_thousand_refusals_while_the_row_is_written_start_one_write():
    """A write that fails is made up for: by the next probe."""
    book = Docket()
    strike(book, 0.0)
    judge(book, 0.0, Verdict.REFUSED, 1.0)
    steps = [strike(book, 2.0) for _ in range(1000)]
    assert steps.count(Step.RETIRE) == 1 and steps.count(Step.WAIT) == 999
    assert strike(book, PAUSE) is Step.PROBE
    assert judge(book, PAUSE, Verdict.REFUSED, PAUSE + 1) is Step.RETIRE


def test_at_the_third_strike_an_old_verdict_is_asked_for_again():
    book = Docket()
    strike(book, 0.0)
    judge(book, 0.0, Verdict.REFUSED, 1.0)
    strike(book, 2.0)
    assert strike(book, 1.1 + PAUSE) is Step.PROBE
    assert judge(book, 1.1 + PAUSE, Verdict.REFUSED, 310.0) is Step.RETIRE


def test_a_probe_that_is_answered_clears_the_strikes():
    """part of providers 54"""
    book = Docket()
    strike(book, 0.0)
    assert judge(book, 0.0, Verdict.SERVED, 1.0) is Step.WAIT
    assert strikes(book) == 0 and not book.cases


def test_an_inconclusive_probe_changes_nothing_and_the_next_one_waits_five_minutes():
    """part of providers 54"""
    book = Docket()
    strike(book, 0.0)
    assert judge(book, 0.0, Verdict.INCONCLUSIVE, 1.0) is Step.WAIT
    assert [strike(book, at) for at in (2.0, 3.0, PAUSE - 0.1)] == [Step.WAIT] * 3
    assert strikes(book) == 4
    assert strike(book, PAUSE) is Step.PROBE
    judge(book, PAUSE, Verdict.INCONCLUSIVE, PAUSE + 1)
    assert book.cases[KEY].inconclusive == 2


def test_half_an_hour_without_a_refusal_starts_the_count_again():
    """part of providers 54"""
    book = Docket()
    strike(book, 0.0)
    strike(book, 1.0)
    strike(book, 1.0 + GAP)
    assert strikes(book) == 3
    strike(book, 1.1 + 2 * GAP)
    assert strikes(book) == 1


def test_an_answer_between_strikes_clears_them():
    """part of providers 54"""
    book = Docket()
    strike(book, 0.0)
    strike(book, 1.0)
    assert book.close(KEY) == 2 and strikes(book) == 0
    assert book.close(KEY) == 0


def test_an_answer_while_the_probe_runs_voids_its_verdict():
    book = Docket()
    case, _ = book.strike(KEY, "p", 0.0, circuit_open=False)
    book.close(KEY)
    assert book.judge(KEY, case, "p", 0.0, Verdict.REFUSED, 1.0) is Step.WAIT
    strike(book, 2.0)
    assert book.cases[KEY].refused_at is None and not book.stands(KEY, case)


def test_fifty_refusals_at_once_are_one_probe():
    """part of providers 55"""
    book = Docket()
    steps = [strike(book, 0.0) for _ in range(50)]
    assert steps.count(Step.PROBE) == 1 and steps.count(Step.WAIT) == 49
    assert judge(book, 0.0, Verdict.REFUSED, 1.0) is Step.RETIRE


def test_no_probe_while_the_circuit_is_open_and_the_third_strike_asks_again():
    book = Docket()
    assert [strike(book, 0.0, circuit_open=True) for _ in range(3)] == [Step.WAIT] * 3
    assert strike(book, 0.0) is Step.PROBE


def test_four_probes_to_a_provider_run_at_a_time_and_a_lost_one_gives_its_place_back():
    book = Docket()
    steps = [strike(book, float(n), (f"m{n}", "chat")) for n in range(AT_ONCE + 1)]
    assert steps == [Step.PROBE] * AT_ONCE + [Step.WAIT]
    assert strike(book, 5.0, ("other", "chat"), provider="q") is Step.PROBE
    judge(book, 0.0, Verdict.INCONCLUSIVE, 6.0, ("m0", "chat"))
    assert strike(book, 7.0, ("m9", "chat")) is Step.PROBE
    assert strike(book, 8.0, ("m10", "chat")) is Step.WAIT
    assert strike(book, 1.0 + LOST, ("m11", "chat")) is Step.PROBE


def test_what_is_over_is_forgotten():
    book = Docket()
    for n in range(1000):
        strike(book, n * 60.0, (f"m{n}", "chat"), circuit_open=n % 2 == 0)
    assert len(book.cases) + len(book._probed) < 300


def test_ten_thousand_models_refused_within_minutes_cost_each_strike_the_same(monkeypatch: pytest.MonkeyPatch):
    book, looked = Docket(), 0
    tidy = Docket._tidy

    def counted(self: Docket, now: float) -> None:
        nonlocal looked
        before = self._tidy_above
        tidy(self, now)
        looked += (len(self.cases) + len(self._probed)) if self._tidy_above != before else 0

    monkeypatch.setattr(Docket, "_tidy", counted)
    for n in range(10_000):
        strike(book, n * 0.1, (f"m{n}", "chat"))
    assert len(book.cases) == 10_000 and looked <= 4 * 10_000
    strike(book, 2 * GAP, ("last", "chat"))
    for n in range(20_000):
        strike(book, 2 * GAP, (f"n{n}", "chat"), circuit_open=True)
    assert not any(model.startswith("m") for model, _ in book.cases), "what is over is forgotten"


@pytest.mark.parametrize(
    ("surface", "inputs", "outputs", "expected"),
    [
        ("chat", (), (), True),
        ("chat", ("text",), ("text",), True),
        ("chat", ("image",), ("code",), False),
        ("chat", ("text", "image"), ("code",), True),
        ("chat", ("text",), ("image",), False),
        ("chat", ("audio",), ("text",), False),
        ("chat", ("text",), ("embedding",), False),
        ("chat", ("text",), ("embedding", "text"), False),
        ("embeddings", ("text",), ("embedding",), True),
        ("embeddings", ("text",), ("embedding", "text"), False),
        ("embeddings", ("text",), ("text",), False),
        ("embeddings", (), (), False),
        ("", ("text",), ("text",), False),
    ],
)
def test_a_refusal_strikes_on_its_own_surface_only(
    surface: docket.Surface, inputs: tuple[str, ...], outputs: tuple[str, ...], expected: bool
):
    """part of providers 55"""
    assert docket.counted(surface, inputs, outputs) is expected


@given(
    st.lists(st.tuples(st.sampled_from(["strike", "open", "refused", "served", "busy", "answer"]), st.floats(0, 900)))
)
def test_a_model_is_only_switched_off_by_a_refused_probe(story: list[tuple[str, float]]):
    book, now, running, refused = Docket(), 0.0, [], False
    for what, wait in story:
        now += wait
        if what in ("strike", "open"):
            case, step = book.strike(KEY, "p", now, circuit_open=what == "open")
            assert len(running) < 2 or step is not Step.PROBE or now - running[0][1] >= PAUSE
            if step is Step.PROBE:
                running.append((case, now))
            assert step is not Step.RETIRE or (refused and case.strikes >= 3)
        elif what == "answer":
            book.close(KEY)
            refused = False
        elif running:
            case, begun = running.pop(0)
            stands = book.stands(KEY, case)
            verdict = {"refused": Verdict.REFUSED, "served": Verdict.SERVED, "busy": Verdict.INCONCLUSIVE}[what]
            step = book.judge(KEY, case, "p", begun, verdict, now)
            assert step in (Step.WAIT, Step.LIST, Step.RETIRE)
            assert step is Step.WAIT or (what == "refused" and stands)
            refused = refused or (what == "refused" and stands)


# -- what a probe's answer says

_CALL = ports.ChatCall(Request("POST", "https://x.test", (), b""), bytes)


def reply(status: int, body: object) -> Reply:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Reply(status, 1.0, 1.0, content)


def answer(**message: object) -> dict[str, object]:
    return {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": "length"}]}


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (reply(200, answer(content="Hi")), Verdict.SERVED),
        (reply(200, answer(content="", reasoning_content="well")), Verdict.SERVED),
        (reply(200, answer(tool_calls=[{"id": "1"}])), Verdict.SERVED),
        (reply(200, answer(content="")), Verdict.INCONCLUSIVE),
        (reply(200, answer(content=None)), Verdict.INCONCLUSIVE),
        (reply(200, {"choices": []}), Verdict.INCONCLUSIVE),
        (reply(200, {"error": {"code": "model_not_found"}}), Verdict.INCONCLUSIVE),
        (reply(200, b"not json"), Verdict.INCONCLUSIVE),
        (reply(200, b"[" * 100_000), Verdict.INCONCLUSIVE),
        (reply(204, b""), Verdict.INCONCLUSIVE),
        (reply(404, {"error": {"code": "model_not_found"}}), Verdict.REFUSED),
        (reply(404, {"error": {"message": "The model m1 does not exist"}}), Verdict.REFUSED),
        (reply(404, {"error": {"message": "The model m2 does not exist"}}), Verdict.INCONCLUSIVE),
        (reply(404, b"nothing here"), Verdict.INCONCLUSIVE),
        (reply(429, {"error": {"message": "slow down"}}), Verdict.INCONCLUSIVE),
        (reply(503, b""), Verdict.INCONCLUSIVE),
        (Reply(0, 1.0, error="timed out"), Verdict.INCONCLUSIVE),
    ],
)
def test_only_a_plain_answer_or_a_plain_refusal_of_a_probe_counts(got: own_call.Reply, expected: Verdict):
    assert probe.verdict(got, _CALL, "m1", "chat") is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [({"data": [{"embedding": [0.1]}]}, Verdict.SERVED), ({"data": []}, Verdict.INCONCLUSIVE), (b"{", "inconclusive")],
)
def test_a_vector_is_an_answer_to_an_embeddings_probe(body: object, expected: str):
    assert probe.verdict(reply(200, body), _CALL, "m1", "embeddings") == expected
