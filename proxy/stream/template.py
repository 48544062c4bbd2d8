"""Chunks of a stream that repeat one another but for their text, known without decoding them. Pure.

A provider writes the same JSON around every piece of content. Once one such chunk was decoded and passed untouched,
the next one is its equal when it begins and ends with the same bytes and what stands between them is a plain piece of
a JSON string: no quote, no escape, no control character, valid UTF-8 (RFC 8259, section 7). No other JSON can come of
that, so a whole block of such chunks is judged with a few searches instead of a decode per chunk.
"""

_SPECIAL = bytes(range(0x20)) + b'"\\<'
"""What ends the plain text of a chunk; ``<`` may begin a thinking tag."""
_SPELLINGS = (b'"content":"%b"', b'"content": "%b"')
_BEFORE_TEXT = (11, 12)


class Template:
    """The bytes around the text of a chunk; each chunk with its closing blank line."""

    __slots__ = ("_after", "_before")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after

    @staticmethod
    def of(raw: bytes, content: str) -> "Template | None":
        """The template of *raw*, one event whose delta has this *content*; None where the text stands elsewhere."""
        text = content.encode()
        if not text or text.translate(None, _SPECIAL) != text or not raw.startswith(b"data: "):
            return None
        for spelling, length in zip(_SPELLINGS, _BEFORE_TEXT, strict=True):
            needle = spelling % text
            if raw.count(needle) == 1:
                at = raw.index(needle) + length
                return Template(raw[:at], raw[at + len(text) :])
        return None

    def match(self, data: bytes) -> tuple[int, int, str]:
        """How far *data* consists of such chunks: (bytes, chunks, their joined text); zeros where not at all."""
        if not data.startswith(self._before):
            return 0, 0, ""
        texts, size = self._run(data)
        plain = b"".join(texts)
        if b"" in texts or plain.translate(None, _SPECIAL) != plain:
            # An empty text, or something else between two chunks.
            texts, size = self._texts(data)
            plain = b"".join(texts)
            if plain.translate(None, _SPECIAL) != plain:
                return 0, 0, ""
        try:
            words = plain.decode() if plain.isascii() else "".join([text.decode() for text in texts])
        except UnicodeDecodeError:
            return 0, 0, ""
        return size, len(texts), words

    def _run(self, data: bytes) -> tuple[list[bytes], int]:
        """The same as :meth:`_texts` where nothing but such chunks stands before the last of them: for many at once."""
        texts = data.split(self._after + self._before)
        texts[0] = texts[0][len(self._before) :]
        last = texts[-1]
        end = last.find(self._after)
        if end >= 0:
            texts[-1] = last[:end]
            return texts, len(data) - len(last) + end + len(self._after)
        # The last one is not whole.
        del texts[-1]
        return texts, len(data) - len(last) - len(self._before) if texts else 0

    def _texts(self, data: bytes) -> tuple[list[bytes], int]:
        """The texts of the leading chunks of this form, none of them empty, and how many bytes these chunks are."""
        before, after = self._before, self._after
        cut = len(after)
        texts: list[bytes] = []
        size = 0
        for piece in data.split(before)[1:]:
            if piece.endswith(after) and len(piece) > cut and piece.find(after) == len(piece) - cut:
                texts.append(piece[:-cut])
                size += len(before) + len(piece)
                continue
            end = piece.find(after)  # other events follow
            if end > 0:
                texts.append(piece[:end])
                size += len(before) + end + cut
            break
        return texts, size
