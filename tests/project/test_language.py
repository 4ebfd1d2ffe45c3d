"""Words that the texts of the project no longer use, and the form of its docstrings."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.prose import ROOT, units

TRAINING_NOUNS = (
    r"(run|set|step|image|recipe|epoch|curve|batch|loss|accuracy|signal|process|job|device)"
)
# Each pattern of the private language of earlier versions has a standard term.
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
    r"\bmost faithful (map|one)\b": "map with the highest mean score",
    r"\bartefact tokens?\b": "high-norm artefact",
    r"\bselected nothing\b|\bnone of the 10 classes\b": "a claim that is not tested",
    r"\bworked out\b": "computed",
    r"\bhands? on\b": "passes on",
    r"\bof then\b": "at that time",
}
# Names in a text are code in backticks, quoted values, calls, attributes, selectors, options and a
# function's first parameter.
CODE_PATTERN = (
    r"\$?\{[^}]*\}|`[^`]*`|\"[^\"]*\"|\w+\([^)]*\)|\w*_\w*|[.#]\w[\w-]*|--[\w-]+|\w+=\w*"
    r"|\w+: \w+ \||Args: \w+:"
)
# First words of docstrings that describe a function instead of saying what it does.
NON_VERBS = (
    r"(A|After|All|An|And|As|At|Before|Both|But|By|Each|Every|For|From|Has|Here|How|If|In|Is|It|Its"
    r"|Like|Neither|No|None|Not|Of|On|One|Only|Or|So|Some|Such|That|The|Their|Then|There|These|They"
    r"|This|Those|Three|To|Two|Until|What|When|Where|Whether|Which|Who|Whose|Why|With|Without"
    r"|Attention|Classes|Dotted|Effects?|Epochs|Features|Frames|Gains|Heads|Images|Mean|Names"
    r"|Probabilities|Random|Right|Runs|Sentences|Sorted|String|Tokens|Values|Weights|Width)\b"
)
DOCSTRING_FILES = ["app.py", "train.py", "vitdemo/**/*.py", "benchmarks/**/*.py", "tests/**/*.py"]


def remove_code(text: str) -> str:
    """Remove the names of code from a text, whose words are part of an interface."""
    return re.sub(CODE_PATTERN, "", text)


@pytest.mark.parametrize("kind", ["strings", "docstrings", "comments", "lessons", "docs"])
def test_texts_contain_no_banned_words(kind):
    problems = [
        f"{unit}  ->  {term}"
        for unit in units()[kind]
        for text in [remove_code(unit.text)]
        for pattern, term in BANNED.items()
        if re.search(pattern, text, re.IGNORECASE)
    ]
    assert not problems, "\n".join(problems)


def iterate_functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield functions and methods, without nested functions, properties and fixtures."""
    for node in getattr(tree, "body", []):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = " ".join(map(ast.unparse, node.decorator_list))
            if not re.search(r"property|fixture", decorators):
                yield node
        else:
            yield from iterate_functions(node)


def is_claim(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether the docstring of a function is a claim that `benchmarks/claims.py` prints."""
    return function.returns is not None and ast.unparse(function.returns) == "ClaimRows"


@pytest.mark.parametrize("pattern", DOCSTRING_FILES)
def test_docstrings_of_functions_begin_with_a_verb(pattern):
    problems = [
        f"{file.relative_to(ROOT)}:{function.lineno}: {docstring.splitlines()[0]}"
        for file in sorted(ROOT.glob(pattern))
        for function in iterate_functions(ast.parse(file.read_text(encoding="utf-8")))
        if (docstring := ast.get_docstring(function)) and not is_claim(function)
        if not function.name.startswith("test_")  # a test may state a fact
        if not re.match(rf"(?!{NON_VERBS})[A-Z][a-z]+\b(?!')", docstring)
    ]
    assert not problems, "\n".join(problems)
