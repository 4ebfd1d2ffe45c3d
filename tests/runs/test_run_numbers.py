"""Numbers of runs, which determine their colours."""

from tests.support.factories import make_run
from vitdemo import runs

EARLY, LATE = "2026-01-01T00:00:00+00:00", "2999-01-01T00:00:00+00:00"


def test_a_new_run_does_not_change_the_numbers_of_other_runs(tmp_path):
    def start(name, time):
        run = make_run(tmp_path / name)
        runs.write_config(run.path, run.config | {"started": time})
        return runs.read_run(run.path)

    found = [start(name, EARLY) for name in ("b", "c", "results")]
    (found[2].path / runs.WEIGHTS_FILE).unlink()
    before = runs.number_runs(found)
    assert before == {"b": 0, "c": 1, "results": 0}
    assert runs.number_runs([start("a", LATE), *found]) == before | {"a": 2}
