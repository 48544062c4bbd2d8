"""What every dialect says of an answer. Pure."""

from typing import Literal

import msgspec

from proxy.usage import Usage

Members = dict[str, msgspec.Raw]
Verdict = Literal["served", "no_choices", "no_content", "no_results", "undecodable", "bare_finish", "blocked"]


class Untranslatable(Exception):
    """A candidate can not be asked this, or its 2xx is no answer. The text holds nothing of request or answer.

    *blocked*: the prompt was refused for its content, and the provider is not at fault.
    """

    def __init__(self, text: str, *, blocked: bool = False) -> None:
        super().__init__(text)
        self.blocked = blocked


class Judged(msgspec.Struct, frozen=True):
    """A judged answer that came whole. *body* is what the client gets (empty unless *verdict* lets it through).

    *carries*: something was delivered. *delivered*: bytes of what was delivered, counted only where *usage* leaves a
    side open. *problem*: why it is undecodable, in the parser's words, without any of the body. *searches*: the units
    a reranker billed.
    """

    verdict: Verdict
    body: bytes
    usage: Usage | None
    carries: bool
    delivered: int = 0
    problem: str = ""
    searches: int = 0
