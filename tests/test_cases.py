from tests import cases


def test_the_page_of_cases_is_what_the_tests_say():
    assert cases.PAGE.read_text() == cases.page(), "run: python -m tests.cases"


def test_no_test_names_a_case_that_does_not_exist():
    known = {(area, case) for area in cases.LISTS for case in cases.in_order(area)}
    assert sorted(set(cases.collect()) - known) == []


def test_what_a_docstring_names():
    named = cases.named("Part of v1-api 7, routing 3, part of failover-loop 26a, providers 4 to 6. See settings 2.1.")
    assert named == {
        ("v1-api", "7"): False,
        ("routing", "3"): True,
        ("failover-loop", "26a"): False,
        ("providers", "4"): True,
        ("providers", "5"): True,
        ("providers", "6"): True,
    }


def test_lettered_cases_stand_between_the_numbers():
    assert cases.in_order("failover-loop")[7:12] == ["8", "9", "9a", "10", "11"]
