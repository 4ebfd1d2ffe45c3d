"""The names of JavaScript functions begin with a verb, and each verb has one meaning.

docs/development.md explains the most frequent verbs.
"""

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "vitdemo"
VERBS = """
    act add answer apply arrange ask attach begin brighten cancel change check choose clamp
    clear click close compare complete compute connect copy count create crop decode decompress
    define describe drain draw edit encode escape evaluate exit export fill find focus follow
    format get go handle hide highlight hold interrupt invalidate join keep lay leave light
    limit linearise list listen load locate make mark match mirror mount move note observe open
    parse pass pause persist place play point poll post press probe pump read receive redraw
    refresh release remove render repeat request reset resize restore reveal revise round run
    save schedule scroll seek send separate set settle share shoot show skip sleep smooth sort
    start stop stream submit subtract switch take tell toggle transform transpose trigger turn
    unfold update upload use wait watch wrap write
"""
PREDICATES_AND_CONVERSIONS = ("as", "has", "is", "to", "uses")
FUNCTION = re.compile(
    r"^ *(?:export )?(?:async )?"
    r"(?:function\*? (\w+)\(|const (\w+) =\s+(?:async )?(?:\([^\n]*\)|\w+|\(\n[^=]*?\n *\)) =>)",
    re.MULTILINE,
)


def find_nouns(script: str) -> list[str]:
    """Return the functions of `script` whose first word is unknown."""
    names = [found[1] or found[2] for found in FUNCTION.finditer(script)]
    known = {*VERBS.split(), *PREDICATES_AND_CONVERSIONS}
    return [name for name in names if re.match("[a-z]*", name)[0] not in known]


@pytest.mark.parametrize(
    "script",
    [
        "function headRows(look) {}",
        "export async function matrices(url) {}",
        "  const nameOf = (n) => n;",
        "const middle = async value =>\n  value;",
        "const short = (\n  text,\n) => text;",
    ],
)
def test_nouns_are_found(script):
    assert find_nouns(script)


def test_functions_of_scripts_begin_with_a_verb():
    files = [file for file in PACKAGE.rglob("*.js") if file.parent.name != "vendor"]
    nouns = {str(file): find_nouns(file.read_text("utf-8")) for file in files}
    assert len(nouns) > 50
    assert not {file: names for file, names in nouns.items() if names}
