from tests import docs


def test_the_settings_table_is_what_the_catalogue_says():
    assert docs.PAGE.read_text() == docs.page(), "run: python -m tests.docs"
