"""Anthropic's Messages API, both ways: what clients say in it, and what providers are asked in it."""

from proxy.dialects.messages import count, egress, errors, ingress, native, reader, structured, writer
from proxy.dialects.messages.content import has_document
from proxy.dialects.messages.thinking import lesson

__all__ = ["count", "egress", "errors", "has_document", "ingress", "lesson", "native", "reader", "structured", "writer"]
