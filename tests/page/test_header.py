"""The page header."""

from tests.support.factories import make_context, make_run
from vitdemo.page.header import header_content
from vitdemo.runs import EVALUATION_FILE, WEIGHTS_FILE


def test_unfinished_runs_are_no_results(tmp_path):
    make_run(tmp_path / "done")
    (make_run(tmp_path / "results").path / WEIGHTS_FILE).unlink()
    unfinished = make_run(tmp_path / "new").path
    for name in (WEIGHTS_FILE, EVALUATION_FILE):
        (unfinished / name).unlink()
    summary = header_content(make_context(tmp_path))["summary"]
    assert summary.endswith("· 1 trained model, results of 1 more run, 1 unfinished run")
