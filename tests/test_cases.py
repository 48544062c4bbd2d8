from tests import cases


def test_the_page_of_cases_is_what_the_tests_say():
    assert cases.PAGE.read_text() == cases.page(), "run: python -m tests.cases"


def test_no_test_names_a_case_that_does_not_exist():
    assert [case for case in cases.collect() if not 1 <= case[1] <= cases.LISTS[case[0]]] == []
