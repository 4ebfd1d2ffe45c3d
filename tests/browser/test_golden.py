"""The page's content for the included models is unchanged; see `tests/golden`."""

from tests.golden import HERE, SHORT, difference, everything


def test_page_content_matches_the_golden_files(visitor, request):
    expected = {path.stem: path.read_text(encoding="utf-8") for path in HERE.glob("*.txt")}
    # This page leaves while responses are pending, which gradio's client reports as an error.
    page, is_short = visitor.new_page(), not request.config.getoption("full")
    actual = everything(page, expected, is_short=is_short)
    page.close()
    assert set(actual) == ({*SHORT, "api", "maps", "report"} if is_short else set(expected))
    differences = {name: difference(expected[name], actual[name]) for name in actual}
    assert not any(differences.values()), "\n".join(
        f"\n{name}.txt (python -m tests.golden writes it anew):\n{text}"
        for name, text in differences.items()
        if text
    )
