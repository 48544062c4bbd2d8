"""The tools of a Responses request as chat tools, and the way back from a flat name to its namespace. Pure.

Chat knows no namespaces: tool ``log`` of namespace ``git`` is offered as ``git__log`` (v1-api 13.3).
"""

from collections.abc import Iterator

from proxy.body import BadBody
from proxy.dialects.base import Members
from proxy.dialects.responses import raws
from proxy.dialects.responses.raws import Raw
from proxy.dialects.responses.refusals import TOOL_CHOICE, TOOL_TYPE, missing, mistyped, refused

_WEB_SEARCH = "web_search"  # and its dated forms; clients advertise it by default
_COLLISION = "tool name collides with {}: every tool needs a distinct name, namespaces included"
_NO_TOOL = "names a tool the request does not define"
_SEVERAL = "names a tool that several namespaces define; the request cannot say which"


def flat(namespace: str, name: str) -> str:
    """The chat name of a tool of a namespace; of any other tool its own."""
    return f"{namespace}__{name}" if namespace else name


class Tools:
    """*chat* are the function tools in chat form, *foreign* what only a native candidate can be asked, as refusals.

    Raises BadBody for lists that nobody could be asked with.
    """

    def __init__(self, raw: Raw | None) -> None:
        self.chat: list[Raw] = []
        self.foreign: list[BadBody] = []
        self._places: dict[str, str] = {}  # flat name -> field that defined it
        self._homes: dict[str, list[str]] = {}  # bare name -> flat names of it in namespaces
        if raws.absent(raw):
            return
        listed = raws.items(raw)
        if listed is None:
            raise mistyped("tools", "a list")
        for at, item in enumerate(listed):
            self._take(f"tools[{at}]", item)

    def _take(self, field: str, item: Raw) -> None:
        tool = raws.members(item)
        if tool is None:
            raise mistyped(field, "an object")
        kind = raws.text(tool.get("type"))
        if kind == "function":
            self._function(field, tool, "")
        elif kind == "namespace":
            self._namespace(field, tool)
        elif not kind.startswith(_WEB_SEARCH):
            if kind == "custom":
                self._define(field, raws.text(tool.get("name")), "")
            self.foreign.append(refused(field, TOOL_TYPE))

    def _namespace(self, field: str, tool: Members) -> None:
        namespace = raws.text(tool.get("name"))
        if not namespace:
            raise missing(f"{field}.name")
        inner = raws.items(tool.get("tools", raws.NO_LIST))
        if inner is None:
            raise mistyped(f"{field}.tools", "a list")
        for at, item in enumerate(inner):
            place = f"{field}.tools[{at}]"
            one = raws.members(item)
            if one is None:
                raise mistyped(place, "an object")
            if raws.text(one.get("type")) == "function":
                self._function(field, one, namespace, place)
            else:
                self._define(field, raws.text(one.get("name")), namespace)
                self.foreign.append(refused(field, TOOL_TYPE))

    def _function(self, field: str, tool: Members, namespace: str, place: str = "") -> None:
        name = raws.text(tool.get("name"))
        if not name:
            raise missing(f"{place or field}.name")
        self._define(field, name, namespace)
        function = {"name": flat(namespace, name), **raws.picked(tool, "description", "parameters", "strict")}
        self.chat.append(raws.json({"type": "function", "function": function}))

    def _define(self, field: str, name: str, namespace: str) -> None:
        if not name:
            return
        known = flat(namespace, name)
        if known in self._places:
            raise refused(field, _COLLISION.format(self._places[known]))
        self._places[known] = field
        if namespace:
            self._homes.setdefault(name, []).append(known)

    def choice(self, raw: Raw | None) -> Raw | None:
        """``tool_choice`` in chat form; None where there is none, or only a native candidate could follow it."""
        if raw is None or raws.absent(raw):
            return None
        if raws.starts(raw, b'"'):
            return raw
        choice = raws.members(raw)
        if choice is None:
            raise mistyped("tool_choice", "a string or an object")
        if raws.text(choice.get("type")) != "function":
            self.foreign.append(refused("tool_choice", TOOL_CHOICE))
            return None
        name = self._named(raws.text(choice.get("name")), raws.text(choice.get("namespace")))
        return raws.json({"type": "function", "function": {"name": name}})

    def _named(self, name: str, namespace: str) -> str:
        if not name:
            raise missing("tool_choice.name")
        known = flat(namespace, name)
        if known in self._places:
            return known
        homes = [] if namespace else self._homes.get(name, [])
        if len(homes) == 1:
            return homes[0]
        raise refused("tool_choice", _SEVERAL if homes else _NO_TOOL)


def origins(own: Members) -> dict[str, tuple[str, str]]:
    """flat name -> (namespace, name), for every tool of a namespace in the client's own body."""
    found: dict[str, tuple[str, str]] = {}
    for namespace, tool in _inner(own.get("tools")):
        name = raws.text(tool.get("name"))
        if name:
            found[flat(namespace, name)] = (namespace, name)
    return found


def _inner(raw: Raw | None) -> Iterator[tuple[str, Members]]:
    for item in raws.items(raw) or ():
        tool = raws.members(item) or {}
        if raws.text(tool.get("type")) == "namespace":
            for one in raws.items(tool.get("tools")) or ():
                yield raws.text(tool.get("name")), raws.members(one) or {}
