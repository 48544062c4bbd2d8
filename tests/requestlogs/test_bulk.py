from requestlogs import bulk


def test_any_number_of_rows_takes_statements_of_a_few_sizes():
    for count in (0, 1, 7, 99, 100, 500):
        rows = [(number,) for number in range(count)]
        chunks = list(bulk._chunks(rows))
        assert [row for chunk in chunks for row in chunk] == rows
        assert {len(chunk) for chunk in chunks} <= set(bulk.SIZES)
        assert len(chunks) <= 11
