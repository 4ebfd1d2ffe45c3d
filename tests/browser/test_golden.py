"""The page's content for the included models is unchanged; see `tests/golden`."""

from tests.golden import HERE, difference, everything


def test_page_content_matches_the_golden_files(visitor):
    expected = {path.stem: path.read_text(encoding="utf-8") for path in HERE.glob("*.txt")}
    # This page leaves while responses are pending, which gradio's client reports as an error.
    page = visitor.new_page()
    actual = everything(page, expected)
    page.close()
    assert set(actual) == set(expected)
    differences = {name: difference(expected[name], actual[name]) for name in expected}
    assert not any(differences.values()), "\n".join(
        f"\n{name}.txt (python -m tests.golden writes it anew):\n{text}"
        for name, text in differences.items()
        if text
    )
