"""Words that the texts of the project no longer use, and the standard terms that replace them."""

import re

import pytest

from tests.prose import units

TRAINING_NOUNS = (
    r"(run|set|step|image|recipe|epoch|curve|batch|loss|accuracy|signal|process|job|device)"
)
# Pattern: standard term. Each word belongs to the private language of earlier versions.
BANNED = {
    r"\btold apart\b": "significantly different, distinguishable",
    r"\bbeside\b": "next to, compared with",
    r"\bin place of\b": "instead of",
    r"\bbut for\b": "except",
    r"\bpictures?\b": "image, photo",
    rf"\ba training(?! {TRAINING_NOUNS})": "a training run",
    r"\btrainings\b": "training runs",
    r"\brightly\b": "correctly",
    r"\b(that|which|it|curves|answers|results) ships?\b|\bshipped\b": "included",
    r"\bsurer\b|\btoo sure\b|\bhow sure\b": "overconfident, confidence",
    r"\bwhat chance\b": "expected by chance",
    r"\bvisitors?\b": "user, session",
    r"\banew\b|\bonce more\b": "again",
    r"\bdata set\b": "dataset",
    r"\blearnt\b": "learned",
    r"\bfrom nothing\b": "from scratch",
    r"\bof its like\b": "comparable",
    r"\breported elsewhere\b": "published results",
    r"[0-9] %(?=[\s.,;:)]|$)": "a percent sign without a space",
    r"\btruth meter\b|\btruest\b": "faithfulness test, most faithful",
    r"\bworked out\b": "computed",
    r"\bhands? on\b": "passes on",
    r"\bof then\b": "at that time",
}
# Names in a text: code in backticks, quoted values, calls, attributes, selectors and options.
CODE_PATTERN = (
    r"\$?\{[^}]*\}|`[^`]*`|\"[^\"]*\"|\w+\([^)]*\)|\w*_\w*|[.#]\w[\w-]*|--[\w-]+|\w+=\w*"
    r"|\w+: \w+ \|"
)


def remove_code(text: str) -> str:
    """Return a text without the names in it, whose words are part of an interface."""
    return re.sub(CODE_PATTERN, "", text)


@pytest.mark.parametrize("kind", ["strings", "docstrings", "comments", "lessons", "docs"])
def test_texts_contain_no_banned_words(kind):
    found = [
        f"{unit}  ->  {term}"
        for unit in units()[kind]
        for pattern, term in BANNED.items()
        if re.search(pattern, remove_code(unit.text), re.IGNORECASE)
    ]
    assert not found, "\n".join(found)
