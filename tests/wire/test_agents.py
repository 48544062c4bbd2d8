"""Conversations as agents and chat programs have them: their headers, their bodies, and what they rely on."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.upstream.server import answer, cut_after, delta, events, reply, stall_after, status, stream, tools_stream
from tests.upstream.vendors_api import (
    ANTHROPIC_USAGE,
    SIGNATURE,
    called,
    generated,
    message,
    message_events,
    named,
    reasoned,
    refused_by_anthropic,
    response,
    said,
    text,
    thinking,
    tool_use,
)
from tests.wire.clients import frames
from tests.wire.mixed import CHAT, CLAUDE, GATEWAY, GROUP, OPENAI, SLASHED, VERTEX, Mixed
from tests.wire.product import eventually

pytestmark = pytest.mark.slow

Item = dict[str, Any]


# -- Claude Code

CLAUDE_CODE = {
    "user-agent": "claude-cli/2.0.50 (external, cli)",
    "x-app": "cli",
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14",
    "anthropic-dangerous-direct-browser-access": "true",
    "x-stainless-lang": "js",
    "x-stainless-retry-count": "0",
}
CACHED = {"cache_control": {"type": "ephemeral"}}
BASH: Item = {
    "name": "Bash",
    "description": "Executes a given bash command.",
    "input_schema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
        "required": ["command"],
        "additionalProperties": False,
    },
}
SYSTEM = [
    {"type": "text", "text": "You are Claude Code, Anthropic's official CLI for Claude.", **CACHED},
    {"type": "text", "text": "You are an interactive CLI tool. " * 200, **CACHED},
]
ASKED = {
    "role": "user",
    "content": [
        {"type": "text", "text": "<system-reminder>\nToday is Monday.\n</system-reminder>"},
        {"type": "text", "text": "list the files", **CACHED},
    ],
}


class ClaudeCode:
    def __init__(self, hotel: Mixed, *, bearer: bool = True) -> None:
        key = hotel.home.key
        auth = {"authorization": f"Bearer {key}"} if bearer else {"x-api-key": key}
        self.http = httpx.Client(
            base_url=hotel.home.product.url, headers={**CLAUDE_CODE, **auth}, timeout=15.0, trust_env=False
        )

    def __enter__(self) -> "ClaudeCode":
        return self

    def __exit__(self, *exc: object) -> None:
        self.http.close()

    def body(self, model: str, turns: list[Item], **more: Any) -> Item:
        return {
            "model": model,
            "messages": turns,
            "system": SYSTEM,
            "tools": [BASH],
            "metadata": {"user_id": "user_1_account__session_2"},
            "max_tokens": 32000,
            "thinking": {"type": "enabled", "budget_tokens": 31999},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "stream": True,
            **more,
        }

    def ask(self, model: str, turns: list[Item], **more: Any) -> httpx.Response:
        return self.http.post("/v1/messages?beta=true", json=self.body(model, turns, **more))

    @staticmethod
    def heard(answer: httpx.Response) -> tuple[list[Item], str]:
        """The blocks and the stop reason, put together from the events as Claude Code does it."""
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
        blocks: list[Item] = []
        stop, ended = "", False
        for kind, data in frames(answer.text):
            assert kind == data["type"]
            if kind == "content_block_start":
                assert data["index"] == len(blocks)
                blocks.append({**data["content_block"], "_json": ""})
            elif kind == "content_block_delta":
                block, change = blocks[data["index"]], data["delta"]
                for member in ("text", "thinking", "signature"):
                    if member in change:
                        block[member] += change[member]
                block["_json"] += change.get("partial_json", "")
            elif kind == "message_delta":
                stop = data["delta"]["stop_reason"]
            ended = kind == "message_stop"
        assert ended, "it takes anything else for a broken connection"
        for block in blocks:
            arguments = block.pop("_json")
            if block["type"] == "tool_use":
                block["input"] = json.loads(arguments or "{}")
        return blocks, stop


@pytest.mark.parametrize("bearer", [True, False], ids=["ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"])
@pytest.mark.parametrize("model", [CLAUDE, GATEWAY, CHAT, VERTEX, GROUP])
def test_claude_code_has_a_conversation(hotel, model, bearer):
    """part of v1-api 70, part of v1-api 78"""
    arguments = {"command": "ls -la", "timeout": 5000}
    native = (message(thinking("Hm."), text("I look."), tool_use("Bash", arguments)), message(text("Two files.")))
    for vendor in (hotel.claude, hotel.gateway):
        vendor.script(*native)
    if model == GROUP:
        hotel.order("Claude", "Alpha")
        hotel.claude.script(refused_by_anthropic(529, "Overloaded"))
    hotel.a.script(tools_stream("Bash", [json.dumps(arguments)]), stream(["Two ", "files."]))
    part = {"functionCall": {"name": "Bash", "args": arguments}, "thoughtSignature": "CvQB+/sig=="}
    hotel.vertex.script(generated({"text": "I look."}, part), generated({"text": "Two files."}))
    with ClaudeCode(hotel, bearer=bearer) as claude_code:
        turns = [ASKED]
        blocks, stop = claude_code.heard(claude_code.ask(model, turns))
        use = blocks[-1]
        assert (stop, use["name"], use["input"]) == ("tool_use", "Bash", arguments)
        result = {
            "type": "tool_result",
            "tool_use_id": use["id"],
            "content": [{"type": "text", "text": "a.py\nb.py"}],
            "is_error": False,
            **CACHED,
        }
        turns += [
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": [result, {"type": "text", "text": "<system-reminder>go on</system-reminder>"}]},
        ]
        blocks, stop = claude_code.heard(claude_code.ask(model, turns))
        assert (stop, "".join(block.get("text", "") for block in blocks)) == ("end_turn", "Two files.")
    if model in (CLAUDE, GATEWAY):
        vendor = hotel.claude if model == CLAUDE else hotel.gateway
        first, second = vendor.calls
        assert first.json == claude_code.body(model.partition("/")[2], [ASKED])
        assert second.json["messages"] == turns and second.json["messages"][1]["content"][0]["signature"] == SIGNATURE
        assert first.headers["anthropic-beta"] == CLAUDE_CODE["anthropic-beta"]
        assert "x-stainless-lang" not in first.headers and "claude-cli" not in first.headers.get("user-agent", "")
    elif model == VERTEX:
        contents = hotel.vertex.calls[1].json["contents"]
        assert part in contents[1]["parts"]
        assert contents[2]["parts"][0]["functionResponse"]["name"] == "Bash"
    else:
        sent = hotel.a.calls[1].json
        assert "cache_control" not in hotel.a.calls[1].body.decode() and "thinking" not in sent
        assert [turn["role"] for turn in sent["messages"]] == ["system", "user", "assistant", "tool", "user"]
        assert sent["messages"][3]["tool_call_id"] == use["id"] and sent["messages"][3]["content"] == "a.py\nb.py"


def test_claude_code_gets_a_long_stream_byte_for_byte(hotel):
    blocks = [thinking("Let me think about it. " * 200), text("word " * 4000)]
    hotel.claude.script(message(*blocks))
    with ClaudeCode(hotel) as claude_code:
        got = claude_code.ask(CLAUDE, [ASKED])
        assert got.content == b"".join(map(named, message_events("claude-x", blocks, "end_turn", ANTHROPIC_USAGE)))
        heard, _ = claude_code.heard(got)
        assert heard == blocks
    assert eventually(lambda: hotel.home.row()["state"] == "completed")
    row = hotel.home.row()
    assert (row["tokens_prompt"], row["tokens_completion"], row["tokens_prompt_cache_hit"]) == (1112, 30, 1000)


def test_claude_code_counts_and_asks_in_the_background(hotel):
    hotel.claude.route("POST", "/v1/messages/count_tokens", reply(200, {"input_tokens": 4321}))
    hotel.a.script(answer('{"isNewTopic": true, "title": "Files"}'))
    with ClaudeCode(hotel) as claude_code:
        counted = {"model": CLAUDE, "messages": [ASKED], "tools": [BASH]}
        got = claude_code.http.post("/v1/messages/count_tokens?beta=true", json=counted)
        assert got.json() == {"input_tokens": 4321}
        assert hotel.claude.requests[0].json["tools"] == [BASH]
        small = claude_code.http.post(
            "/v1/messages?beta=true",
            json={"model": "glm-4.6", "max_tokens": 512, "temperature": 0, "system": SYSTEM, "messages": [ASKED]},
        )
    assert small.status_code == 200 and json.loads(small.json()["content"][0]["text"])["title"] == "Files"
    assert hotel.a.calls[0].json["temperature"] == 0


@pytest.mark.parametrize("model", [CLAUDE, CHAT])
def test_claude_code_is_interrupted(hotel, model):
    hotel.claude.script(message(text("one two"), then="endless"))
    hotel.a.script(stall_after(2))
    upstream = hotel.claude if model == CLAUDE else hotel.a
    with ClaudeCode(hotel) as claude_code:
        body = claude_code.body(model, [ASKED])
        with claude_code.http.stream("POST", "/v1/messages?beta=true", json=body) as got:
            assert any("content_block_delta" in line for line in got.iter_lines())
        upstream.wait_disconnects(1)
        assert eventually(lambda: hotel.home.row()["error_kind"] == "client_disconnect")


# -- Codex CLI

CODEX = {
    "user-agent": "codex_cli_rs/0.63.0 (Ubuntu 24.4.0; x86_64) xterm-256color",
    "originator": "codex_cli_rs",
    "accept": "text/event-stream",
    "conversation_id": "019a-0001",
    "session_id": "019a-0001",
    "version": "0.63.0",
}
SHELL: Item = {
    "type": "function",
    "name": "shell_command",
    "description": "Runs a shell command and returns its output.",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {"command": {"type": "string"}, "workdir": {"type": "string"}},
        "required": ["command"],
        "additionalProperties": False,
    },
}
LOG: Item = {"type": "function", "name": "log", "strict": False, "parameters": {"type": "object", "properties": {}}}
CODEX_TOOLS = [
    SHELL,
    {"type": "namespace", "name": "git", "description": "Git over MCP.", "tools": [LOG, {**LOG, "name": "diff"}]},
    {"type": "web_search", "external_web_access": False},
]


def turn(role: str, *parts: str) -> Item:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": part} for part in parts]}


OPENED = [
    turn("developer", "<permissions instructions>", "<collaboration_mode>", "Prefer rg."),
    turn("user", "<environment_context>\n<cwd>/repo</cwd>\n</environment_context>"),
    turn("user", "what changed last?"),
]


class StreamClosed(AssertionError):
    """What Codex makes of a stream without ``response.completed``: it tries again."""


def codex(hotel: Mixed, model: str, given: list[Item], **more: Any) -> tuple[list[Item], Item]:
    """One turn. What Codex reads of it: the finished items, and the Response object of ``response.completed``."""
    body = {
        "model": model,
        "instructions": "You are Codex, based on GPT-5.",
        "input": given,
        "tools": CODEX_TOOLS,
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "019a-0001",
        "text": {"verbosity": "low"},
        **more,
    }
    items: list[Item] = []
    got = hotel.home.http.post("/v1/responses", json=body, headers=CODEX)
    assert got.status_code == 200, got.text
    for kind, data in frames(got.text):
        assert kind == data["type"]
        if kind == "response.output_item.done":
            items.append(data["item"])
        elif kind == "response.failed":
            raise StreamClosed(data["response"]["error"]["message"])
        elif kind == "response.completed":
            assert data["response"]["usage"]["total_tokens"] > 0 and data["response"]["id"]
            return items, data["response"]
    raise StreamClosed("stream closed before response.completed")


def replayed(item: Item) -> Item:
    """An item as Codex sends it back: without ids and states."""
    kept = {
        "message": ("type", "role", "content"),
        "reasoning": ("type", "summary", "content", "encrypted_content"),
        "function_call": ("type", "name", "namespace", "arguments", "call_id"),
    }[item["type"]]
    return {name: item.get(name) for name in kept if name in item or name == "content"}


@pytest.mark.parametrize("model", [OPENAI, CHAT, GATEWAY, VERTEX, GROUP])
def test_codex_has_a_conversation(hotel, model):
    """v1-api 80"""
    command = {"command": "git log -1", "workdir": "/repo"}
    hotel.openai.script(
        response(
            reasoned("**Looking**", encrypted="gAAAAABo"),
            {**called("log", "{}", "call_1"), "namespace": "git"},
            called("shell_command", json.dumps(command), "call_2"),
        ),
        response(said("Nothing.")),
    )
    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "git__log", "arguments": "{}"}}
    other = {"index": 1, "id": "call_2", "type": "function", "function": {"name": "shell_command", "arguments": ""}}
    late = {"index": 1, "function": {"arguments": json.dumps(command)}}
    hotel.a.script(
        events(
            delta("glm-4.6", role="assistant", reasoning_content="**Looking**"),
            delta("glm-4.6", tool_calls=[first]),
            delta("glm-4.6", tool_calls=[other]),
            delta("glm-4.6", tool_calls=[late]),
            {
                **delta("glm-4.6", "tool_calls"),
                "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
            },
            b"data: [DONE]\n\n",
        ),
        stream(["Noth", "ing."]),
    )
    hotel.gateway.script(
        message(
            thinking("**Looking**"), tool_use("git__log", {}, "toolu_1"), tool_use("shell_command", command, "toolu_2")
        ),
        message(text("Nothing.")),
    )
    hotel.vertex.script(
        generated(
            {"functionCall": {"name": "git__log", "args": {}}, "thoughtSignature": "CvQB"},
            {"functionCall": {"name": "shell_command", "args": command}},
        ),
        generated({"text": "Nothing."}),
    )
    if model == GROUP:
        hotel.order("OpenAI", "Alpha")
        hotel.openai.script(status(500))
    items, _ = codex(hotel, model, OPENED)
    calls = [item for item in items if item["type"] == "function_call"]
    assert [(call["name"], call.get("namespace")) for call in calls] == [("log", "git"), ("shell_command", None)]
    assert json.loads(calls[0]["arguments"]) == {} and json.loads(calls[1]["arguments"]) == command
    outputs = [
        {"type": "function_call_output", "call_id": calls[0]["call_id"], "output": "abc Fix it"},
        {
            "type": "function_call_output",
            "call_id": calls[1]["call_id"],
            "output": [{"type": "input_text", "text": "Exit code: 0"}, {"type": "input_text", "text": "abc"}],
        },
    ]
    given = [*OPENED, *map(replayed, items), *outputs]
    items, whole = codex(hotel, model, given)
    assert items[-1]["content"][0]["text"] == "Nothing." and whole["status"] == "completed"
    if model == OPENAI:
        sent = hotel.openai.calls[1].json
        assert (sent["input"], sent["include"], sent["tools"]) == (given, ["reasoning.encrypted_content"], CODEX_TOOLS)
    elif model in (CHAT, GROUP):
        sent = hotel.a.calls[1].json
        assert [tool["function"]["name"] for tool in sent["tools"]] == ["shell_command", "git__log", "git__diff"]
        assert [one["role"] for one in sent["messages"]] == [
            *("system", "system", "user", "user", "assistant", "tool", "tool")
        ]
        assert sent["messages"][1]["content"] == "<permissions instructions>\n<collaboration_mode>\nPrefer rg."
        made = [call["function"]["name"] for call in sent["messages"][4]["tool_calls"]]
        assert made == ["git__log", "shell_command"]
        assert sent["messages"][6]["content"] == "Exit code: 0\nabc"
        assert "gAAAA" not in hotel.a.calls[1].body.decode() and sent["reasoning_effort"] == "medium"
    elif model == GATEWAY:
        results = hotel.gateway.calls[1].json["messages"][-1]["content"]
        assert [(one["type"], one["tool_use_id"]) for one in results] == [
            ("tool_result", "toolu_1"),
            ("tool_result", "toolu_2"),
        ]
    else:
        answers = hotel.vertex.calls[1].json["contents"][-1]["parts"]
        assert [one["functionResponse"]["name"] for one in answers] == ["git__log", "shell_command"]


@pytest.mark.parametrize("model", [OPENAI, CHAT])
def test_codex_learns_that_a_stream_broke(hotel, model):
    """part of v1-api 53"""
    hotel.openai.script(response(said("one two"), then="ends"))
    hotel.a.script(cut_after(2, clean=True))
    with pytest.raises(StreamClosed, match="stream truncated"):
        codex(hotel, model, OPENED)


# -- Open WebUI


def test_open_webui_lists_chats_and_stops(hotel):
    """part of v1-api 44"""
    http, named_by = hotel.home.http, {"X-OpenWebUI-User-Name": "ada", "X-OpenWebUI-Chat-Id": "1"}
    listed = http.get("/v1/models", headers=named_by).json()
    wanted = f"Alpha/{SLASHED}"
    assert listed["object"] == "list" and wanted in [one["id"] for one in listed["data"]]
    said_so = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]
    body = {"stream": True, "model": wanted, "messages": said_so, "stream_options": {"include_usage": True}}
    got = frames(http.post("/v1/chat/completions", json=body, headers=named_by).text)
    assert got[-1] == ("", {}) and got[-2][1]["usage"]["total_tokens"] > 0
    assert hotel.a.calls[0].json["model"] == SLASHED and "x-openwebui-user-name" not in hotel.a.calls[0].headers
    title = {"stream": False, "model": wanted, "messages": said_so, "max_completion_tokens": 1000}
    assert http.post("/v1/chat/completions", json=title).json()["choices"][0]["message"]["content"] == "from A"
    hotel.a.script(stall_after(2))
    with http.stream("POST", "/v1/chat/completions", json=body) as stopped:
        assert any("tok0" in line for line in stopped.iter_lines())
    hotel.a.wait_disconnects(1)
    assert eventually(lambda: hotel.home.row()["error_kind"] == "client_disconnect")


# -- Cursor


def large(size: int) -> Iterator[str]:
    for at in range(size // 60):
        yield f"{at:06d} def nothing_of_importance(argument: str) -> None: ...  # é\n"


def test_cursor_asks_by_bare_names_with_a_large_prompt(hotel):
    """part of v1-api 21"""
    content = "".join(large(300_000))
    hotel.a.script(status(500))
    hotel.b.script(stream(["done"]))
    body = {
        "model": "glm-4.6",
        "user": "google-oauth2|1",
        "messages": [{"role": "system", "content": content}, {"role": "user", "content": "fix it"}],
        "tools": [{"type": "function", "function": {"name": "edit_file", "parameters": {"type": "object"}}}],
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    got = frames(hotel.home.http.post("/v1/chat/completions", json=body).text)
    assert "done" in json.dumps(got) and got[-1] == ("", {})
    assert hotel.b.calls[0].json["messages"][0]["content"] == content
    for model in (GATEWAY, VERTEX):
        got = frames(hotel.home.http.post("/v1/chat/completions", json={**body, "model": model}).text)
        assert "".join(d["choices"][0]["delta"].get("content") or "" for _, d in got[:-1] if d["choices"]) == "Hello"
    assert hotel.gateway.calls[0].json["system"] == content
    assert hotel.vertex.calls[0].json["systemInstruction"]["parts"][0]["text"] == content
