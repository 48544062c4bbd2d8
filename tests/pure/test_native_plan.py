"""What a call of /p/{provider}/{endpoint} means (v1-api 21)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.cache import Catalogue, ProviderRow
from providers.kinds import registry
from proxy import native_plan
from proxy.native_plan import Call, Refused, Rules, Seen, choose, forwarded, read, returned, url

RULES = Rules(frozenset({"openai", "anthropic"}), alias=True)


def row(name, kind="openai", *, enabled=True, base="https://api.example/v1"):
    routing = name.replace(" ", "-")
    return ProviderRow(f"id-{name}", name, routing, base, registry.get(kind), enabled, None, 0.0, False)


def catalogue(*rows):
    return Catalogue(
        providers={one.id: one for one in rows},
        by_name={one.name: one for one in rows},
        by_routing_name={one.routing_name: one for one in rows},
    )


def refusal(ask):
    with pytest.raises(Refused) as told:
        ask()
    return told.value.answer.status, str(told.value)


@pytest.mark.parametrize(
    ("path", "reference", "endpoint"),
    [
        (b"/p/openai/files", "openai", "files"),
        (b"/p/openai/v1/files", "openai", "files"),
        (b"/p/openai/v1/v1/x", "openai", "v1/x"),
        (b"/p/openai/v1beta/x", "openai", "v1beta/x"),
        (b"/p/My%20Own/files/", "My Own", "files/"),
        (b"/p/a%2Fb/files", "a/b", "files"),
        (b"/p/openai/files/a%2Fb%20c", "openai", "files/a%2Fb%20c"),
        (b"/p/openai/files/\xc3\xa9#?", "openai", "files/%C3%A9%23%3F"),
        (b"/p/openai//evil.example/x", "openai", "/evil.example/x"),
        (b"/p/openai/...", "openai", "..."),
    ],
)
def test_a_path_names_a_provider_and_its_endpoint(path, reference, endpoint):
    assert read(path, RULES) == Call(reference, endpoint)


REQUIRED = (400, "provider passthrough endpoint is required")
DOTS = (400, "provider passthrough endpoint must not contain . or .. segments")


@pytest.mark.parametrize("path", [b"/p", b"/p/", b"/p/openai", b"/p/openai/", b"/p/openai/v1", b"/p/openai/v1/"])
def test_an_endpoint_must_be_named(path):
    assert refusal(lambda: read(path, RULES)) == REQUIRED


@pytest.mark.parametrize("way", [b"..", b".", b"%2e%2e", b"a/%2E./b", b"v1/../x", b"a%2f..%2Fb", b"a\\..", b"a%5c.."])
def test_no_endpoint_leaves_the_base_of_its_provider(way):
    assert refusal(lambda: read(b"/p/openai/" + way, RULES)) == DOTS


def test_the_alias_and_the_types_are_for_the_operator_to_say():
    off = "provider passthrough v1 alias is disabled; use /p/{provider}/... without the v1 prefix"
    assert refusal(lambda: read(b"/p/openai/v1/files", Rules(RULES.types, alias=False))) == (400, off)
    assert read(b"/p/openai/files", Rules(RULES.types, alias=False)).endpoint == "files"
    none = "provider passthrough is not enabled for any providers"
    assert refusal(lambda: read(b"/p/openai/files", Rules(frozenset(), alias=True))) == (400, none)


def test_a_provider_is_named_by_its_name_or_by_a_type_that_only_it_has():
    first, second, claude = row("My Own"), row("openai 2"), row("Claude", "anthropic")
    disabled, foreign = row("Off", enabled=False), row("Own box", "custom")
    several = catalogue(first, second, claude, disabled, foreign)

    def asked(reference, allowed=None, rules=RULES, rows=several):
        return choose(Call(reference, "x"), rows, rules, allowed)

    assert asked("My Own") is asked("My-Own") is first
    assert asked("anthropic") is claude
    assert asked("openai", rows=catalogue(first, disabled)) is first
    assert asked("Claude", frozenset({claude.id})) is claude
    other = (403, "virtual key does not have access to this provider")
    assert refusal(lambda: asked("anthropic", frozenset({first.id}))) == other
    many = 'several providers are of type "openai"; use the name of one of them'
    assert refusal(lambda: asked("openai")) == (400, many)
    closed = 'provider passthrough for "custom" is not enabled; currently enabled providers: anthropic, openai'
    assert refusal(lambda: asked("Own box")) == refusal(lambda: asked("custom")) == (400, closed)
    for missing in ("nobody", "MY OWN", "Off"):
        assert refusal(lambda missing=missing: asked(missing)) == (404, f"provider not found: {missing}")
    assert refusal(lambda: asked("anthropic", rows=catalogue(first))) == (404, "provider not found: anthropic")


@pytest.mark.parametrize(
    ("kind", "base", "query", "expected"),
    [
        ("openai", "https://api.example/v1", b"", "https://api.example/v1/files"),
        ("openai", "https://api.example/v1/", b"a=1&b=%20", "https://api.example/v1/files?a=1&b=%20"),
        ("anthropic", "https://api.example", b"a=\xe9?/#", "https://api.example/v1/files?a=%E9?/%23"),
        ("openrouter", "https://api.example/api/v1", b"", "https://api.example/api/v1/files"),
    ],
)
def test_the_call_goes_below_the_base_of_the_provider(kind, base, query, expected):
    assert url(row("P", kind, base=base), Call("P", "files"), query) == expected


def test_what_the_provider_gets_of_the_headers():
    sent = [
        *[(b"authorization", b"Bearer sk-virtual"), (b"x-api-key", b"sk-virtual"), (b"host", b"hotel")],
        *[(b"content-length", b"5"), (b"cookie", b"a=b"), (b"forwarded", b"for=1"), (b"x-forwarded-for", b"1.2.3.4")],
        *[(b"connection", b"close, X-Hop"), (b"x-hop", b"1"), (b"keep-alive", b"1"), (b"proxy-authorization", b"x")],
        *[(b"te", b"trailers"), (b"trailer", b"x"), (b"transfer-encoding", b"chunked"), (b"upgrade", b"h2c")],
        *[(b"expect", b"100-continue"), (b"accept-encoding", b"gzip"), (b"openai-beta", b"assistants=v2")],
        *[(b"content-type", b"application/json"), (b"user-agent", b"sdk"), (b"openai-beta", b"two")],
    ]
    found = forwarded(sent, [(b"authorization", b"Bearer sk-real")], "sk-real", b"id1")
    assert found == [
        *[(b"openai-beta", b"assistants=v2"), (b"content-type", b"application/json"), (b"user-agent", b"sdk")],
        *[(b"openai-beta", b"two"), (b"authorization", b"Bearer sk-real"), (b"x-request-id", b"id1")],
    ]


def test_a_version_is_the_clients_to_choose_and_a_credential_never():
    credential = [(b"x-api-key", b"sk-real"), (b"api-key", b"sk-real"), (b"anthropic-version", b"2023-06-01")]
    sent = [(b"anthropic-version", b"2099"), (b"anthropic-beta", b"b"), (b"api-key", b"mine"), (b"x-request-id", b"c")]
    found = forwarded(sent, credential, "sk-real", b"id1")
    assert found == [
        *[(b"anthropic-version", b"2099"), (b"anthropic-beta", b"b"), (b"x-request-id", b"c")],
        *[(b"x-api-key", b"sk-real"), (b"api-key", b"sk-real")],
    ]
    assert forwarded([], credential, "sk-real", b"id1")[2] == (b"anthropic-version", b"2023-06-01")


def test_what_the_client_gets_of_the_headers():
    ours = [
        (b"x-request-id", b"ours"),
        (b"x-frame-options", b"DENY"),
        (b"vary", b"Origin"),
        (b"x-ratelimit-limit", b"5"),
    ]
    came = [
        *[(b"content-type", b"text/plain"), (b"content-length", b"3"), (b"x-request-id", b"theirs")],
        *[(b"set-cookie", b"a"), (b"connection", b"x-gone"), (b"x-gone", b"1"), (b"keep-alive", b"1")],
        *[(b"transfer-encoding", b"chunked"), (b"x-frame-options", b"ALLOWALL"), (b"vary", b"Accept")],
        *[(b"access-control-allow-origin", b"*"), (b"strict-transport-security", b"max-age=1"), (b"date", b"now")],
        *[(b"retry-after", b"7"), (b"x-ratelimit-limit-requests", b"9"), (b"x-ratelimit-limit", b"9")],
        *[(b"location", b"https://x/?key=sk-real"), (b"proxy-authenticate", b"x")],
    ]
    assert returned(came, ours, "sk-real") == [
        *[(b"content-type", b"text/plain"), (b"content-length", b"3"), (b"x-request-id", b"theirs")],
        *[(b"vary", b"Accept"), (b"retry-after", b"7"), (b"x-ratelimit-limit-requests", b"9")],
        *[(b"location", b"https://x/?key=[redacted]"), (b"x-frame-options", b"DENY"), (b"vary", b"Origin")],
        (b"x-ratelimit-limit", b"5"),
    ]
    assert returned([], ours, "")[0] == (b"x-request-id", b"ours")


NAMES = st.sampled_from(
    [b"authorization", b"cookie", b"x-api-key", b"x-a", b"connection", b"api-key", b"proxy-x", b"te"]
)


@settings(max_examples=60)
@given(st.lists(st.tuples(NAMES, st.sampled_from([b"sk-virtual", b"x-a", b"1"])), max_size=8))
def test_no_header_of_the_client_carries_its_key_on(sent):
    found = forwarded(sent, [(b"authorization", b"Bearer sk-real"), (b"api-key", b"sk-real")], "sk-real", b"i")
    names = [name for name, _ in found]
    assert names.count(b"authorization") == names.count(b"api-key") == 1
    assert not {b"cookie", b"x-api-key", b"connection", b"proxy-x", b"te"} & set(names)


@pytest.mark.parametrize(
    ("body", "prompt", "completion"),
    [
        (b'{"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}', 3, 4),
        (b'{"usage" : {"input_tokens":10,"output_tokens":2,"input_tokens_details":{"cached_tokens":8}}}', 10, 2),
        (
            b'{"usage":{"input_tokens":1,"cache_read_input_tokens":5,"cache_creation_input_tokens":4,"output_tokens":2}}',
            10,
            2,
        ),
        (b'{"data":[1],"usage":{"prompt_tokens":6,"total_tokens":6}}', 6, 0),
        (b'{"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":2,"thoughtsTokenCount":1}}', 4, 3),
        (b'data: {"usage":{"input_tokens":9,"output_tokens":1}}\n\ndata: {"usage":{"output_tokens":7}}\n\n', 9, 7),
        (b'{"usage":null,"x":{"usage":{"prompt_tokens":1,"completion_tokens":1}}}', 1, 1),
    ],
)
def test_usage_of_known_shapes_is_found_however_it_comes(body, prompt, completion):
    for size in (1, 7, len(body)):
        seen = Seen()
        for at in range(0, len(body), size):
            seen.add(body[at : at + size])
        usage = seen.usage()
        assert usage is not None and (usage.prompt, usage.completion) == (prompt, completion)


def test_usage_is_kept_from_both_ends_of_a_long_answer_and_nothing_is_made_up():
    seen = Seen()
    seen.add(b'data: {"message":{"usage":{"input_tokens":9}}}\n\n')
    for _ in range(300):
        seen.add(b"data: " + b"x" * 4096)
    seen.add(b'data: {"usage":{"output_tokens":5}}\n\n')
    usage = seen.usage()
    assert usage is not None and (usage.prompt, usage.completion) == (9, 5)
    assert len(seen._tail) <= 2 * native_plan.USAGE_TAIL + 4096
    for nothing in (
        b"",
        b'{"usage":{',
        b'{"usage":{"a":1}}',
        b'{"text":"\\"usage\\":{\\"input_tokens\\":9}"}',
        b"\xff\x00",
    ):
        seen = Seen()
        seen.add(nothing)
        assert seen.usage() is None
