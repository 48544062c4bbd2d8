"""Forms: what is read of one, and that the same goes out for another model."""

import contextlib
import io
import itertools

import httpx
import pytest
from django.core.files.uploadhandler import MemoryFileUploadHandler
from django.http.multipartparser import MultiPartParser
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy import multipart
from proxy.multipart import BadForm, Form, NoBoundary, Part

TYPE = b"multipart/form-data; boundary=XX"


def form(*parts: bytes, mark: bytes = b"XX") -> bytes:
    """*parts* are header lines and a body, with an empty line between."""
    return b"".join(b"--%s\r\n%s\r\n" % (mark, part) for part in parts) + b"--%s--\r\n" % mark


def field(name: str, value: bytes, more: str = "") -> bytes:
    return f'Content-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + value


def read(body: bytes, content_type: bytes = TYPE) -> list[tuple[str, str | None, str, bytes]]:
    return [(p.name, p.filename, p.content_type, bytes(p.body)) for p in multipart.parse(body, content_type).parts]


def part(name: str, body: bytes = b"", filename: str | None = None, content_type: str = "") -> Part:
    return Part(name, filename, content_type, memoryview(body))


# -- the content type


@pytest.mark.parametrize(
    ("content_type", "found"),
    [
        (b"multipart/form-data; boundary=abc", b"abc"),
        (b'multipart/form-data; charset=utf-8; boundary="a b:c"', b"a b:c"),
        (b"Multipart/Mixed;BOUNDARY=abc ; x=y", b"abc"),
        (b"multipart/form-data; boundary = abc;", b"abc"),
        (b"multipart/form-data; boundary=" + b"a" * 70, b"a" * 70),
    ],
)
def test_the_boundary_is_found(content_type, found):
    assert multipart.boundary_of(content_type) == found


@pytest.mark.parametrize(
    "content_type",
    [
        b"",
        b"application/json",
        b"application/x-www-form-urlencoded; boundary=abc",
        b"multipart/form-data",
        b"multipart/form-data; boundary",
        b"multipart/form-data; boundary=",
        b'multipart/form-data; boundary=""',
        b'multipart/form-data; boundary="abc',
        b"multipart/form-data; boundary=" + b"a" * 71,
        b"multipart/form-data; boundary=a\x01",
        b"multipart boundary=abc",
    ],
)
def test_a_type_without_a_boundary_is_refused(content_type):
    with pytest.raises(NoBoundary):
        multipart.parse(form(field("model", b"m")), content_type)


# -- the parts


def test_parts_keep_their_order_their_names_and_every_byte():
    data = bytes(range(256)) * 3 + b"\r\n--X\r\n--XXY\r\n"
    body = form(
        field("model", b"a/b"),
        field("image[]", data, '; filename="a.png"\r\nContent-Type: image/png'),
        field("image[]", b"", '; filename=""'),
        field("prompt", "é\r\n".encode()),
    )
    assert read(body) == [
        ("model", None, "", b"a/b"),
        ("image[]", "a.png", "image/png", data),
        ("image[]", "", "", b""),
        ("prompt", None, "", "é\r\n".encode()),
    ]


@pytest.mark.parametrize(
    ("disposition", "name", "filename"),
    [
        ('name="a"; filename="b"', "a", "b"),
        ("name=a; filename=b.png", "a", "b.png"),
        ('filename="b";name="a"', "a", "b"),
        ('NAME="a"', "a", None),
        (r'name="a\"b"; filename="c\\d"', 'a"b', r"c\d"),
        (r'name="a"; filename="C:\dir\pic.png"', "a", r"C:\dir\pic.png"),
        ('name="a;b"; filename="c; d=e"', "a;b", "c; d=e"),
        ('name="a"; filename="é.wav"', "a", "é.wav"),
        ('name="a"; filename="x"; filename*=UTF-8\'\'%C3%A9%20.wav', "a", "é .wav"),
        ("name=\"a\"; filename*=utf-8'en'e.wav", "a", "e.wav"),
        ("name=\"a\"; filename*=UTF-8''%E9\udcca.wav", "a", "\udce9\udcca.wav"),
        ('name="a"; filename="a%22b"', "a", "a%22b"),
        ('name=""', "", None),
    ],
)
def test_names_are_read_in_every_spelling(disposition, name, filename):
    body = form(f"Content-Disposition: form-data; {disposition}\r\n\r\nx".encode("utf-8", "surrogateescape"))
    assert read(body) == [(name, filename, "", b"x")]


@pytest.mark.parametrize(
    "body",
    [
        b"preamble\r\n" + form(field("a", b"x")),
        b"\r\n" + form(field("a", b"x")),
        b"--XX  \t\r\n" + field("a", b"x") + b"\r\n--XX-- \r\nepilogue\r\n--XX\r\n",
        b"--XX\r\n" + field("a", b"x") + b"\r\n--XX--",
        b"--XXY\r\n" + form(field("a", b"x")),
        form(b'content-disposition:form-data;\r\n\tname="a"\r\n\r\nx'),
        form(b'Content-Transfer-Encoding: BINARY\r\nContent-Disposition: form-data; name="a"\r\n\r\nx'),
    ],
)
def test_what_the_grammar_allows(body):
    assert read(body) == [("a", None, "", b"x")]


def test_a_form_may_be_empty():
    assert read(b"--XX--") == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"--XX\r\n",
        b"--XX\r\n" + field("a", b"x"),
        b"--XX\r\n" + field("a", b"x") + b"\r\n--XX\r\n",
        b"--YY\r\n" + field("a", b"x") + b"\r\n--YY--",
        b"--XX\n" + field("a", b"x") + b"\n--XX--",
        form(b"no header at all"),
        form(b""),
        form(b"\r\n\r\nx"),
        form(b"Content-Disposition: form-data\r\n\r\nx"),
        form(b'Content-Disposition: attachment; name="a"\r\n\r\nx'),
        form(b'Content-Disposition: form-data; name="a\r\n\r\nx'),
        form(b'Content-Disposition: form-data; name="a" oops\r\n\r\nx'),
        form(b'Content-Disposition: form-data; name="a"\r\nbroken\r\n\r\nx'),
        form(b'Content-Disposition: form-data; name="a"\r\n: x\r\n\r\nx'),
        form(b'Content-Disposition : form-data; name="a"\r\n\r\nx'),
        form(b'Content-Disposition: form-data; name="a"\r\nContent-Type: a\nb\r\n\r\nx'),
        form(b'Content-Disposition: form-data; name="a\x00b"\r\n\r\nx'),
        form(b'Content-Transfer-Encoding: base64\r\nContent-Disposition: form-data; name="a"\r\n\r\neA=='),
        form(b"X: " + b"y" * multipart.HEAD_LIMIT + b'\r\nContent-Disposition: form-data; name="a"\r\n\r\nx'),
        form(*(field("a", b"") for _ in range(multipart.PART_LIMIT + 1))),
    ],
)
def test_what_is_no_form(body):
    with pytest.raises(BadForm):
        multipart.parse(body, TYPE)


def test_as_many_parts_as_there_may_be():
    body = form(*(field("a", b"") for _ in range(multipart.PART_LIMIT)))
    assert len(multipart.parse(body, TYPE).parts) == multipart.PART_LIMIT


# -- fields


def test_a_file_called_model_is_not_the_model():
    """part of v1-api 86"""
    assert multipart.parse(form(field("model", b"x", '; filename="f"')), TYPE).field("model") is None


def test_the_last_of_several_counts():
    made = Form([part("model", b"a"), part("model", b"b"), part("model", b"c", "file"), part("x", b"y")])
    assert (made.field("model"), made.field("x"), made.field("y")) == ("b", "y", None)


def test_a_text_that_is_none():
    with pytest.raises(BadForm):
        Form([part("model", b"\xff")]).field("model")


def test_a_file_is_found_by_its_name():
    made = Form([part("file", b"text"), part("file", b"1", "a"), part("file", b"2", "b")])
    found = made.file("file")
    assert found is not None and (found.filename, bytes(found.body)) == ("a", b"1")
    assert made.file("image") is None


# -- the same form for another model


def rebuilt(made: Form, model: str, changes: dict[str, str | None] | None = None):
    content_type, body = made.made_for(model, lambda: "YY", changes)
    assert content_type == "multipart/form-data; boundary=YY"
    return read(body, content_type.encode())


def test_only_the_model_differs():
    """part of v1-api 87"""
    data = bytes(range(256))
    parts = [
        part("image[]", data, 'a"\\b.png', "image/png"),
        part("model", b" hotel/g ", None, "text/plain"),
        part("image[]", data[::-1], "b.png"),
        part("model", b"a file", "model.bin"),
        part("prompt", b""),
    ]
    assert rebuilt(Form(parts), "up/é") == [
        ("image[]", 'a"\\b.png', "image/png", data),
        ("model", None, "text/plain", "up/é".encode()),
        ("image[]", "b.png", "", data[::-1]),
        ("model", "model.bin", "", b"a file"),
        ("prompt", None, "", b""),
    ]


def test_fields_are_changed_left_out_and_added():
    parts = [part("size", b"1x1"), part("n", b"1"), part("model", b"m"), part("size", b"file", "size.txt")]
    assert rebuilt(Form(parts), "m", {"size": None, "n": "2", "aspect_ratio": "1:1", "x": None}) == [
        ("n", None, "", b"2"),
        ("model", None, "", b"m"),
        ("size", "size.txt", "", b"file"),
        ("aspect_ratio", None, "", b"1:1"),
    ]


def test_it_is_made_once_for_a_model():
    """part of v1-api 87"""
    made = Form([part("model", b"m"), part("file", b"x" * 100, "f")])
    numbers = itertools.count()

    def boundary() -> str:
        return f"mark-{next(numbers)}"

    first = made.made_for("a", boundary)
    assert made.made_for("a", boundary)[1] is first[1]
    assert made.made_for("a", boundary, {"n": "1"}) != first
    assert made.made_for("b", boundary)[0].endswith("mark-2")
    assert made.made_for("a", boundary)[0].endswith("mark-3")


def test_line_breaks_in_a_name_stay_inside_it():
    made = multipart.encode([part('a"\r\nX: y', b"", "b\n\0")], "XX")
    assert read(made) == [('a"%0D%0AX: y', "b%0A%00", "", b"")]


texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)
parts_of_forms = st.lists(
    st.builds(
        part,
        texts,
        st.binary(max_size=40) | st.sampled_from([b"\r\n--YY", b"--XX--\r\n", b"\r\n", b"\r\n--XXY"]),
        st.none() | texts,
        st.sampled_from(["", "image/png", "text/plain; charset=utf-8"]),
    ),
    max_size=5,
)


@settings(deadline=None, max_examples=50)
@given(parts_of_forms)
def test_every_form_comes_back_as_it_was(parts):
    found = read(multipart.encode(parts, "YZ"), b"multipart/form-data; boundary=YZ")
    assert found == [(p.name, p.filename, p.content_type, bytes(p.body)) for p in parts]


names = st.text("abcdefg[]-_", min_size=1, max_size=8)
uploads = st.lists(st.tuples(names, names, st.binary(max_size=60)), min_size=1, max_size=4)


@settings(deadline=None, max_examples=30)
@given(uploads)
def test_what_another_client_writes_is_read(files):
    sent = httpx.Request("POST", "http://h/", files=[(name, (file, data)) for name, file, data in files])
    found = read(sent.read(), sent.headers["content-type"].encode())
    assert [(name, file, data) for name, file, _, data in found] == files


@settings(deadline=None, max_examples=30)
@given(uploads)
def test_what_is_written_is_read_by_another_server(files):
    body = multipart.encode([part(name, data, file) for name, file, data in files], "YY")
    meta = {"CONTENT_TYPE": "multipart/form-data; boundary=YY", "CONTENT_LENGTH": str(len(body))}
    handler = MemoryFileUploadHandler()
    _, found = MultiPartParser(meta, io.BytesIO(body), [handler]).parse()
    for name in {name for name, _, _ in files}:
        expected = [(file, data) for called, file, data in files if called == name]
        assert [(file.name, file.read()) for file in found.getlist(name)] == expected


@settings(deadline=None)
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_no_bytes_break_the_parser(head, tail):
    for body in (
        head,
        b"--XX\r\n" + head + b"\r\n--XX" + tail,
        b"--XX\r\nContent-Disposition: form-data" + head + tail,
    ):
        with contextlib.suppress(BadForm):
            multipart.parse(body, TYPE)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_no_content_type_breaks_the_parser(content_type):
    for one in (content_type, b"multipart/form-data;" + content_type, TYPE + content_type):
        with contextlib.suppress(NoBoundary):
            multipart.boundary_of(one)


@pytest.mark.timeout(5)
def test_hostile_headers_take_no_time():
    for block in (b";a=b" * 4000, b';a="' * 4000, b'\\"' * 8000, b"; " * 8000):
        body = form(b'Content-Disposition: form-data; name="a"' + block[:16000] + b"\r\n\r\nx")
        with contextlib.suppress(BadForm):
            multipart.parse(body, TYPE)


@pytest.mark.timeout(5)
@pytest.mark.parametrize("line", [b"\r\n--XXY", b"\r\n--X", b"\r\n", b"\r\n--XX  ."])
def test_a_file_of_near_boundaries_takes_no_time(line):
    data = line * 500_000 + b"."
    assert read(form(field("file", data, '; filename="f"'))) == [("file", "f", "", data)]


def test_a_control_character_in_a_name_is_written_encoded():
    body = form(b"Content-Disposition: form-data; name=\"a\"; filename*=UTF-8''%02%0d%0A%00%09.wav\r\n\r\nx")
    content_type, made = multipart.parse(body, b"multipart/form-data; boundary=XX").made_for("m", lambda: "YY")
    assert b'filename="%02%0D%0A%00\t.wav"' in made
    assert multipart.parse(made, content_type.encode()).parts[0].filename == "%02%0D%0A%00\t.wav"
