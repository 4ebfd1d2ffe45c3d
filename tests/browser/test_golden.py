"""What a person gets of the models that ship is what it was; see `tests/golden`."""

from tests.golden import HERE, difference, everything


def test_page_content_matches_the_golden_files(visitor):
    wanted = {path.stem: path.read_text(encoding="utf-8") for path in HERE.glob("*.txt")}
    # Its own page: it leaves while answers are on their way, of which gradio's client complains.
    page = visitor.new_page()
    found = everything(page, wanted)
    page.close()
    assert set(found) == set(wanted)
    told = {name: difference(wanted[name], found[name]) for name in wanted}
    assert not any(told.values()), "\n".join(
        f"\n{name}.txt (python -m tests.golden writes it anew):\n{text}"
        for name, text in told.items()
        if text
    )
