"""Static files straight from the installed packages: no collectstatic, no directory to prepare."""

from collections.abc import Callable, Iterable

from django.conf import settings
from django.contrib.staticfiles import finders
from servestatic import ServeStaticASGI

from modelhotel.ops.asgi_types import App


def serve(app: App, headers: Callable[[], Iterable[tuple[bytes, bytes]]]) -> App:
    """*app* behind everything under STATIC_URL. *headers* come on top of each file's own."""
    extra = [(name.decode(), value.decode()) for name, value in headers()]

    def add_headers(target: object, path: str, url: str) -> None:
        for name, value in extra:
            target[name] = value  # type: ignore[index]

    static = ServeStaticASGI(app, max_age=60, allow_all_origins=False, add_headers_function=add_headers)
    for finder in finders.get_finders():
        for path, storage in finder.list(None):
            url = settings.STATIC_URL + path.replace("\\", "/")
            if url not in static.files:  # the first finder wins, as in Django
                static.add_file_to_dictionary(url, storage.path(path), root=storage.location)
    answer: App = static
    return answer
