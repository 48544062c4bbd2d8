"""Google's generateContent as an upstream dialect (v1-api 15, 17.4, 17.5)."""

from proxy.dialects.gemini import egress, reader, speech, transcription

__all__ = ["egress", "reader", "speech", "transcription"]
