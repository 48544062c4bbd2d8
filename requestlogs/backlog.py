"""What an operator is told of rows that are not in the table: those that wait, and those that are lost."""

from requestlogs.recorder import Recorder

#: Seconds without a complete write after which it is said that rows wait; a turn takes a fraction of one.
LATE = 5.0


def state(recorder: Recorder) -> dict[str, object]:
    return {
        "node": recorder.node,
        "queued": recorder.queued,
        "spilled": recorder.spilled,
        "lost": recorder.lost,
        "behind_s": round(recorder.behind, 1),
    }


def sentences(recorder: Recorder) -> list[str]:
    """Nothing while all is well."""
    said = []
    if recorder.behind > LATE:
        said.append(
            f"The database has not taken all request rows for {recorder.behind:.0f} s: "
            f"{recorder.queued:,} wait in memory, {recorder.spilled:,} in files. None of these is lost."
        )
    if recorder.lost:
        said.append(
            f"{recorder.lost:,} request rows were lost since this process started: the database did not take them, and "
            "DATA_DIR had no room. The log of the process has the details."
        )
    return said
