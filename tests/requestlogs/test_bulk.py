import pytest
from django.db import connection, transaction

from requestlogs import bulk, columns
from requestlogs.draft import Draft
from requestlogs.models import RequestLog


def test_any_number_of_rows_takes_statements_of_a_few_sizes():
    for count in (0, 1, 7, 99, 100, 500):
        rows = [(number,) for number in range(count)]
        chunks = list(bulk._chunks(rows))
        assert [row for chunk in chunks for row in chunk] == rows
        assert {len(chunk) for chunk in chunks} <= set(bulk.SIZES)
        assert len(chunks) <= 11


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("count", [1, bulk.COPY_FROM - 1, bulk.COPY_FROM, 130])
def test_rows_that_are_there_already_are_updated_and_new_ones_added(count: int):
    def written(state: str, drafts: list[Draft]) -> None:
        for draft in drafts:
            draft.state = state
        adapt = columns.adapter(connection.vendor)
        with transaction.atomic():
            rows = [adapt(columns.values(draft, "n", draft.created_at)) for draft in drafts]
            bulk.insert("request_logs", columns.COLUMNS, columns.UPDATE, rows)

    drafts = [Draft("chat", attempts=[{"detail": 'a"b\\c\tü'}], error_message="line\nline") for _ in range(count)]
    written("pending", drafts[: count // 2 + 1])
    written("completed", drafts)
    found = list(RequestLog.objects.all())
    assert {str(row.pk) for row in found} == {draft.id for draft in drafts}
    assert {row.state for row in found} == {"completed"}
    assert all(row.attempts == [{"detail": 'a"b\\c\tü'}] and row.error_message == "line\nline" for row in found)
