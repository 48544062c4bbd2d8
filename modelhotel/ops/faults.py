"""What ends a start."""


class StartRefused(Exception):
    """The start can not go on; the text is one line an operator can act on, naming the variable or the file."""
