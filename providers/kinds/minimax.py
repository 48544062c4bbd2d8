"""MiniMax: what goes wrong for a business reason comes as a 200 whose ``base_resp`` says so (failover-loop 5.3)."""

import msgspec

from providers.kinds.base import Disguised, Kind
from providers.quota import readers

_STATUSES = {1002: 429, 1039: 429, 1008: 429, 1004: 401}
_OTHER = 502


class _BaseResp(msgspec.Struct):
    status_code: int = 0
    status_msg: object = None


class _Answer(msgspec.Struct):
    base_resp: _BaseResp | None = None


_decode = msgspec.json.Decoder(_Answer).decode


class MiniMax(Kind):
    type = "minimax"
    label = "MiniMax"
    default_base_url = "https://api.minimax.io/v1"
    quota = readers.MINIMAX
    disguises_errors = True
    modelsdev = "minimax"
    modelsdev_only = True

    def disguised(self, payload: bytes) -> Disguised | None:
        try:
            said = _decode(payload).base_resp
        except (ValueError, RecursionError):
            return None
        if said is None or said.status_code == 0:
            return None
        message = said.status_msg if isinstance(said.status_msg, str) else ""
        return Disguised(_STATUSES.get(said.status_code, _OTHER), said.status_code, message)
