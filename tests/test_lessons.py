"""Lessons: parsing of valid and invalid files, and facts compared with the run files."""

import re
from html import unescape

import numpy as np
import pytest
import torch

from tests.making import RESNET, VIT, bench, make_run
from vitdemo.attention.one_head import queries_keys_values
from vitdemo.errors import LessonError
from vitdemo.inputs import load_image, visible_square
from vitdemo.lessons import (
    FOLDER,
    LANGUAGE,
    Lesson,
    Question,
    Step,
    Task,
    parse,
    read_lessons,
    with_facts,
)
from vitdemo.lessons.facts import FACTS, PICTURE, MissingFact, fact, filled, looked_up, unread
from vitdemo.lessons.handout import FIGURES, handout
from vitdemo.metrics import confusion
from vitdemo.models.cost import pair_macs, vit_cost
from vitdemo.page.lessons import checked, cost_table, shelf_of
from vitdemo.page.look.perturb.answers import at_random, canvas, most_attended
from vitdemo.perturb.changes import Changes, Removed, change


def lessons_image():
    return visible_square(load_image(PICTURE))


HEAD = "---\ntitle: T\nminutes: 5\ngoal: G\n---\n"


def lesson(body: str, head: str = "goal: G") -> Lesson:
    return parse(HEAD.replace("goal: G", head) + body, "a.md")


def step(text: str) -> Step:
    return lesson(f"## S\nWords.\n\n{text}").steps[0]


def test_step_fields_are_parsed():
    found = step("open: ?tab=data&x=1\nring: #a .b\ndo: Press\n  it.\ntask: press #a button")
    task = Task("press", "#a button")
    assert found == Step("S", ("Words.",), "?tab=data&x=1", "#a .b", do="Press it.", task=task)
    found = step("cover: #a\ndo: It.\ntask: point\nthen: #b .c\nbecause: It was.")
    assert (found.cover, found.then) == ("#a", "#b .c")
    assert found.task == Task("point", because="It was.")


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("point", Task("point")),
        ("set #layer input >= 3", Task("set", "#layer input", ">=", "3")),
        ("set #x input <= -0.5", Task("set", "#x input", "<=", "-0.5")),
        ("choose #a select", Task("choose", "#a select")),
        ("choose #a = Two words", Task("choose", "#a", value="Two words")),
        ("see inside = lens", Task("see", "inside", value="lens")),
        ("shown #meter figure", Task("shown", "#meter figure")),
    ],
)
def test_tasks(task, expected):
    assert step(f"do: It.\ntask: {task}").task == expected


def test_questions():
    choice = step("ask: Which?\n- [ ] one\n- [x] two\nbecause: It is.").question
    assert choice == Question("Which?", ("one", "two"), 1, because="It is.")
    number = step("ask: How many?\nnumber: 3 ± 0.5").question
    assert number == Question("How many?", number="3", tolerance="0.5")
    assert step("ask: Why?\nfree: So.").question == Question("Why?", free="So.")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("## S\nWords.", 1, "begin with a header"),
        ("---\ntitle: T\nminutes: 5\n---\n## S\nWords.", 1, "'goal' is missing"),
        ("---\ntitle: T\ncolour: red\n---\n## S\nWords.", 3, "unknown field 'colour: red'"),
        (HEAD.replace("5", "five") + "## S\nWords.", 1, "whole number"),
        (HEAD, 1, "has no steps"),
        (HEAD + "Words.", 6, "a step must begin"),
        (HEAD + "## S\n" + "word " * 61, 6, "61 words, more than the limit of 60"),
        (HEAD + "## S\n", 6, "neither a text nor a question"),
        (HEAD + "## S\nWords.\ndo: It.", 8, "'do' requires the field 'task'"),
        (HEAD + "## S\nWords.\ndo: It.\ntask: jump", 9, "'jump' is not a task"),
        (HEAD + "## S\nWords.\nopen: https://elsewhere", 8, "begins with '?'"),
        (HEAD + "## S\nWords.\nring: a {} b", 8, "a brace"),
        (HEAD + "## S\nWords.\nring: </style><b>", 8, "single CSS selector"),
        (HEAD + "## S\nask: A?\n- [x] one", 7, "two or more choices"),
        (HEAD + "## S\nask: A?\n- [x] one\n- [x] two", 7, "one of them correct"),
        (HEAD + "## S\nask: A?", 7, "either a number"),
        (HEAD + "## S\nask: A?\nnumber: many", 8, "'many' is not a number"),
        (HEAD + "## S\nWords.\nbecause: so", 8, "requires the field 'ask'"),
        (HEAD + "## S\nWords.\ncover: a;b", 8, "'cover' must be a single CSS selector"),
        (HEAD + "## S\nask: A?\nask: B?", 8, "'ask' occurs twice"),
        (HEAD + "## S\nWords.\nopen: ?a\nWhat?", 9, "unknown field 'What?'"),
        (HEAD + "## S\nSee {vit.colour}.", 7, "unknown fact 'colour'"),
        (HEAD + "## S\nSee {vit}.", 7, "a brace"),
    ],
)
def test_errors_name_file_and_line(text, line, words):
    with pytest.raises(LessonError, match=rf"^a\.md, line {line}: .*{re.escape(words)}"):
        parse(text, "a.md")


def test_a_second_folder_adds_and_replaces_lessons(tmp_path, shipped):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    good = HEAD + "## S\nIt has {vit.tokens} tokens, {nobody.name}.\n"
    (theirs / "own.md").write_text(good)
    mine = HEAD + "## S\nMine.\n"
    (theirs / "1-tokens.md").write_text(mine, encoding="utf-8-sig")  # as editors on Windows do
    (theirs / "broken.md").write_bytes(b"\xff\xfe")
    (theirs / "Upper.md").write_text(good)
    found, problems = read_lessons(FOLDER / LANGUAGE, theirs)
    assert {lesson.name: lesson for lesson in found}["1-tokens"].steps[0].text == ("Mine.",)
    assert len(problems) == 2 and "broken.md" in " ".join(problems)
    at_once, shelf = (
        shelf_of(shipped, [FOLDER / LANGUAGE, theirs], r) for r in (unread, looked_up)
    )
    for each in (at_once, shelf):
        ((missing, words),) = each.missing
        assert (missing.name, words) == ("own", "the run 'nobody'")
    titles = [[(lesson.title, lesson.goal) for lesson in s.lessons] for s in (at_once, shelf)]
    assert titles[0] == titles[1] and len(titles[0]) == 9
    assert "…" in repr(at_once) and "…" not in repr(shelf)


def test_included_lessons_are_valid(shipped):
    found, problems = read_lessons(FOLDER / LANGUAGE)
    assert not problems and len(found) == 9
    for lesson in found:
        filled = with_facts(lesson, shipped)
        assert 10 <= lesson.minutes <= 20
        assert "{" not in repr(filled.steps).replace("{}", "")
        assert all(each.question for each in filled.steps[-3:]), lesson.name  # exam questions
        asked = [step.task or step.question for step in filled.steps]
        assert all(each.because for each in asked if each), lesson.name
        assert {*lesson.figures, *lesson.answers} <= {*FIGURES}


def test_facts_match_the_run_files(shipped):
    run = shipped.run("vit-scratch")
    right = run.evaluation.probabilities.argmax(1) == run.evaluation.labels
    assert fact(shipped, "vit", "accuracy") == f"{100 * right.mean():.1f}"
    assert fact(shipped, "vit", "wrong") == str((~right).sum())
    model = shipped.model(run)
    tokens = model.pos_embed.shape[1]
    assert fact(shipped, "vit", "tokens") == str(tokens)
    assert fact(shipped, "vit", "pairs") == str(tokens**2)
    base, muon = (shipped.run(f"vit-plain-cpu{end}") for end in ("", "-muon"))
    gained = [(r.evaluation.probabilities.argmax(1) == r.evaluation.labels) for r in (muon, base)]
    points = 100 * (gained[0].mean() - gained[1].mean())
    assert fact(shipped, "vit-plain-cpu-muon", "gain") == f"{points:+.1f}"


def test_training_signals_are_named(shipped):
    teacher = " and the predictions of the teacher model conv-baseline"
    told = {
        "vit-scratch": f"labels{teacher}, after 150 epochs of self-supervised pretraining",
        "vit-conv-stem": f"labels{teacher}",
        "vit-plain": "labels only",
    }
    assert {name: fact(shipped, name, "learnt_from") for name in told} == told


MODELS = [("finetune-deit-tiny", 14), ("vit-scratch", 8), ("vit-conv-stem", 8)]  # (run, side)


def relative_distances(look, side: int) -> np.ndarray:
    """Mean attention distance of each head (L, H), divided by that of uniform attention."""
    rows, columns = np.divmod(np.arange(side**2), side)
    apart = np.hypot(rows[:, None] - rows, columns[:, None] - columns)  # (P, P), in patches
    patches = np.asarray(look.attention)[..., 1:, 1:]  # (L, H, P, P)
    patches = patches / patches.sum(-1, keepdims=True)
    return (patches * apart).sum(-1).mean(-1) / apart.mean()


def words_of_layers(chosen: np.ndarray) -> str:
    *first, last = [*(str(i) for i in np.flatnonzero(chosen) + 1)] or [""]
    if not last:
        return "in no layer"
    return f"in layers {', '.join(first)} and {last}" if first else f"in layer {last}"


@pytest.mark.parametrize(("name", "side"), MODELS)
def test_lesson_3_states_the_measured_distances_of_any_model(shipped, name, side):
    share = relative_distances(shipped.look(shipped.run(name), lessons_image()), side)
    near = words_of_layers((share < 0.5).any(1))
    far = words_of_layers((share >= 0.85).all(1))
    assert fact(shipped, name, "near_layers") == near
    assert fact(shipped, name, "far_layers") == far
    lessons = {each.name: each for each in read_lessons(FOLDER / LANGUAGE)[0]}
    question = next(s.question for s in lessons["3-heads"].steps if s.title == "What do you see?")

    def find(of: str):  # any model may have the role
        return shipped.run(name)

    free, because = (
        filled(text, shipped, find, looked_up) for text in (question.free, question.because)
    )
    short = f"{name} has heads below half of the dashed line {near}."
    assert f"{short} All heads are above 85% of it {far}" in free
    assert short in because
    # The numbers of another model may contradict a claim, so it is not given as an example.
    assert because.split(near)[0].count("Other models differ:") == 1


@pytest.mark.parametrize(("name", "side"), MODELS)
def test_largest_weights_match_the_queries_and_keys(shipped, name, side):
    run = shipped.run(name)
    look, model = shipped.look(run, lessons_image()), shipped.model(run)
    largest, unscaled = [], []
    for i, block in enumerate(model.blocks):
        q, k, _ = queries_keys_values(model, look.tokens[i][None].float(), i)
        scores = (q @ k.mT)[0].detach()  # (H, N, N)
        unscaled.append(scores.softmax(-1).amax(-1).mean())
        largest.append((scores / block.attn.head_dim**0.5).softmax(-1).amax(-1).mean())
    for key, values in (("largest_weight", largest), ("unscaled_weight", unscaled)):
        wanted = 100 * float(sum(values)) / len(values)
        assert float(fact(shipped, name, key)) == pytest.approx(wanted, abs=0.2)
    # The correct choice: without the division, one token gets most of the weight, but not all.
    assert sum(largest) / len(largest) < 0.3 < 0.5 < sum(unscaled) / len(unscaled) < 0.9


def test_gains_over_seeds_compare_runs_of_the_same_seed(shipped):
    def right(name: str) -> np.ndarray:
        found = shipped.run(name).evaluation
        return found.probabilities.argmax(1) == found.labels

    paired = [
        100 * (right(f"vit-plain-cpu-muon{seed}").mean() - right(f"vit-plain-cpu{seed}").mean())
        for seed in ("", "-seed-1", "-seed-2")
    ]
    reach = 4.3027 * np.std(paired, ddof=1) / 3**0.5
    mean = np.mean(paired)
    wanted = {"": mean, "_low": mean - reach, "_high": mean + reach}
    for end, value in wanted.items():
        assert fact(shipped, "vit-plain-cpu-muon", f"seed_gain{end}") == f"{value:+.1f}"
    seeds = [100 * right(f"vit-muon-cpu{seed}").mean() for seed in ("", "-seed-1", "-seed-2")]
    threshold = 4.3027 * 2**0.5 * np.std(seeds, ddof=1)
    assert fact(shipped, "vit-muon-cpu", "seed_threshold") == f"{threshold:.1f}" == "2.2"
    assert float(fact(shipped, "vit-muon-cpu-mixed", "gain")) < threshold  # as lesson 7 says
    with pytest.raises(MissingFact, match="seed_gain"):
        fact(shipped, "vit-muon-cpu-mixed", "seed_gain")


def test_the_most_frequent_confusion_is_relative_to_all_errors(shipped):
    matrix = confusion(*(getattr(shipped.run("vit-scratch").evaluation, name)
                         for name in ("probabilities", "labels")))  # fmt: skip
    wrong = matrix - np.diag(np.diag(matrix))
    share = 100 * wrong.max() / wrong.sum()
    assert fact(shipped, "vit-scratch", "confused_share") == f"{share:.1f}"
    assert fact(shipped, "vit-scratch", "even_confused_share") == f"{100 / 90:.1f}"
    true, predicted = np.unravel_index(wrong.argmax(), wrong.shape)
    assert fact(shipped, "vit-scratch", "confused_cell") == f"{true}-{predicted}"


def test_facts_of_changed_images_match_the_view_change_the_image(shipped):
    run = shipped.run("vit-scratch")
    image = canvas(shipped, lessons_image())

    def cat(changes: Changes) -> float:
        return 100 * shipped.answer(run, change(image, changes)).probabilities[3]

    look = shipped.look(run, image)
    first = most_attended(look, look.layers, Removed(), 32)
    draws = [cat(Changes(removed=at_random(Removed(), 32, seed))) for seed in range(20)]
    attended = cat(Changes(removed=Removed().plus(first)))
    wanted = {
        "photo_confidence": f"{cat(Changes()):.1f}",
        "attended_confidence": f"{attended:.1f}",
        "random_low": f"{min(draws):.1f}",
        "random_high": f"{max(draws):.1f}",
        "random_below": str(sum(each < attended for each in draws)),
        "shuffled_same": "8",
        "photo_class": "cat",
    }
    assert {name: fact(shipped, "vit-scratch", name) for name in wanted} == wanted
    own = Removed(look.grid)
    three = own.plus(most_attended(look, look.layers, own, 3, "mean"))
    assert fact(shipped, "vit-scratch", "few_confidence") == f"{cat(Changes(removed=three)):.1f}"
    few = [cat(Changes(removed=at_random(own, 3, seed))) for seed in range(20)]
    assert fact(shipped, "vit-scratch", "few_low") == f"{min(few):.1f}"


def test_the_settled_layer_is_the_first_with_the_final_class_from_there_on(shipped):
    run = shipped.run("finetune-deit-tiny")
    model, look = shipped.model(run), shipped.look(run, lessons_image())
    with torch.no_grad():
        tokens = model.norm(look.tokens.float())[:, 0]
        predicted = model.head(tokens).argmax(-1)  # (L+1,)
    layer = int(fact(shipped, "finetune-deit-tiny", "settled_layer"))
    assert (predicted[layer:] == 3).all() and predicted[layer - 1] != 3


def test_few_share_matches_the_attention_of_the_last_layer(shipped):
    look = shipped.look(shipped.run("vit-scratch"), visible_square(load_image(PICTURE)))
    taken = np.asarray(look.attention)[-1, :, 0, 1:].mean(0)
    first = sorted(taken, reverse=True)[:3]
    assert fact(shipped, "vit", "self_share") == f"{100 * look.attention[0, 0, 0, 0]:.1f}"
    assert fact(shipped, "vit", "few_share") == f"{100 * sum(first) / sum(taken):.1f}"
    assert fact(shipped, "vit", "even_share") == f"{100 * 3 / 64:.1f}"


def test_few_norm_matches_the_norms_of_weighted_values(shipped):
    run = shipped.run("vit-scratch")
    look = shipped.look(run, visible_square(load_image(PICTURE)))
    block = shipped.model(run).blocks[-1]
    heads = look.attention[-1, :, 0, 1:]  # (H, P)
    D = look.tokens.shape[-1]
    with torch.no_grad():
        values = block.attn.qkv(block.norm1(look.tokens[-2]))[1:, 2 * D :]  # (P, D)
        width = heads.T.repeat_interleave(D // len(heads), 1)  # each head's weight, (P, D)
        norms = (width * values @ block.attn.proj.weight.T).norm(dim=-1)
    few = heads.mean(0).topk(3).indices
    assert fact(shipped, "vit", "few_norm") == f"{100 * norms[few].sum() / norms.sum():.1f}"


def test_missing_facts_are_reported(tmp_path):
    make_run(tmp_path / "conv", RESNET)
    workbench = bench(tmp_path)
    with pytest.raises(MissingFact, match="trained from scratch"):
        fact(workbench, "vit", "name")
    for name in FACTS:  # without attention, ablation and test predictions: a fact or an error
        try:
            assert fact(workbench, "conv", name)
        except MissingFact as error:
            assert "conv" in str(error)
    run = make_run(tmp_path / "mine", VIT)
    assert fact(workbench, "vit", "name") == "mine"
    assert fact(workbench, "vit", "image") == str(run.spec.image_size)


def test_handouts_contain_answers_only_if_requested(shipped, tmp_path):
    asking = "## S\nask: A **strong** one?\nnumber: 12345\nbecause: So & so.\n"
    written = lesson(asking, "goal: <b>G</b>\nfigures: patches\nanswers: gains")
    for answers in (False, True):
        page = handout(written, shipped, answers=answers)
        assert "A <b>strong</b> one?" in page and "&lt;b&gt;G&lt;/b&gt;" in page
        assert ("12345" in page) == ("So &amp; so." in page) == answers
        assert page.count("<svg") == 1 + answers
    with pytest.raises(LessonError, match="Unknown figure 'none'"):
        handout(lesson("## S\nW.", "goal: G\nfigures: none"), shipped)
    page = handout(lesson("## S\nW.", "goal: G\nfigures: heads"), bench(tmp_path))
    assert "The figure 'heads' is not available. Required: a plain Vision" in unescape(page)


def test_cost_follows_the_formulas():
    # Weights and biases of a layer: qkv and proj 4 D^2 + 4 D, MLP 8 D^2 + 5 D, two norms 4 D.
    found, D, L, N = vit_cost(32, 4, 64, 3, 4), 64, 3, 65
    embed = 48 * D + D + D + N * D
    assert found.parameters == L * (12 * D * D + 13 * D) + embed + 2 * D + 10 * D + 10
    assert found.pair_macs == pair_macs(N, D, L) == 2 * N * N * D * L
    linear = L * N * 12 * D * D + 64 * 48 * D + 10 * D
    assert found.macs == linear + found.pair_macs
    assert np.isclose(found.pair_share, found.pair_macs / found.macs)


def test_the_cost_calculator_rejects_invalid_sizes():
    with pytest.raises(LessonError, match="not a multiple of the patch side"):
        checked([32, 5, 64, 1, 1])
    with pytest.raises(LessonError, match="more than the limit of 2,500"):
        checked([384, 2, 64, 1, 1])
    table = cost_table(vit_cost(32, 4, 64, 2, 4), vit_cost(64, 4, 64, 2, 4))[0]
    factors = {row[0]: row[-1] for row in table.rows}
    assert factors["Tokens"] == "× 3.95"  # 257 to 65
    assert factors["Attention matrix products, M"] == "× 15.63"
