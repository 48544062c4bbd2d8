"""The request log as the providers see it (``providers.ports.Logs``)."""

import time
import uuid
from collections.abc import Mapping

from modelhotel.core.ids import parse_uuid
from providers.ports import TestRun
from requestlogs import rollup, stats
from requestlogs.draft import Draft
from requestlogs.models import RequestLog
from requestlogs.recorder import RECORDER


def provider_tokens() -> Mapping[str, int]:
    """Provider id -> prompt and completion tokens of every row that is over, from the sums of ``rollup.py``."""
    rollup.help_readers()
    return {str(uuid.UUID(provider)): count for provider, count in stats.tokens_by_provider_id(time.time()).items()}


def orphan_logs(provider_id: str) -> None:
    """The provider is gone: its rows stay, without it. Inside the caller's transaction."""
    RequestLog.objects.filter(provider_id=parse_uuid(provider_id)).update(provider_id=None)


def record_test(run: TestRun) -> None:
    """One finished row for a model test; goes through the recorder like any other."""
    draft = Draft(run.endpoint_type, created_at=run.started, model_id=run.model_id, label="")
    draft.resolved_model_id, draft.provider_id, draft.provider_name = run.model_id, run.provider_id, run.provider
    draft.virtual_key_name = run.virtual_key_name
    draft.state, draft.status_code = run.state, run.status_code
    draft.duration_ms, draft.response_header_ms = run.duration_ms, run.response_header_ms
    draft.tokens_prompt, draft.tokens_completion = run.tokens_prompt, run.tokens_completion
    draft.attempts = run.attempts
    if run.error is not None:
        draft.error_kind, draft.error_message = "provider_error", run.error
    RECORDER.finish(draft)
