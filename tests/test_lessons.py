"""Lessons: parsing of valid and invalid files, and facts compared with the run files."""

import re
from html import unescape

import numpy as np
import pytest
import torch

from tests.factories import RESNET, VIT, make_context, make_run
from vitdemo.data.image_files import crop_visible_square, load_image
from vitdemo.data.perturb.changes import ImageChanges, RemovedPatches, apply_changes
from vitdemo.errors import LessonError
from vitdemo.explain.qkv import compute_qkv
from vitdemo.lessons import (
    DEFAULT_LANGUAGE,
    LESSONS_FOLDER,
    Lesson,
    LessonQuestion,
    LessonStep,
    LessonTask,
    fill_facts,
    parse_lesson,
    read_lessons,
)
from vitdemo.lessons.facts import (
    FACTS,
    LESSON_IMAGE,
    MissingFact,
    fact_placeholder,
    lookup_fact,
    read_fact,
    substitute_facts,
)
from vitdemo.lessons.handout import FIGURE_FUNCTIONS, render_handout
from vitdemo.metrics import confusion_matrix
from vitdemo.models.cost import compute_vit_cost, count_attention_matrix_macs
from vitdemo.page.lessons import cost_table, read_catalog, validate_sizes
from vitdemo.page.look.perturb.answers import make_canvas, rank_patches, sample_patches


def load_lesson_image():
    return crop_visible_square(load_image(LESSON_IMAGE))


LESSON_HEADER = "---\ntitle: T\nminutes: 5\ngoal: G\n---\n"


def make_lesson(body: str, head: str = "goal: G") -> Lesson:
    return parse_lesson(LESSON_HEADER.replace("goal: G", head) + body, "a.md")


def make_step(text: str) -> LessonStep:
    return make_lesson(f"## S\nWords.\n\n{text}").steps[0]


def test_step_fields_are_parsed():
    found = make_step("open: ?tab=data&x=1\nring: #a .b\ndo: Press\n  it.\ntask: press #a button")
    task = LessonTask("press", "#a button")
    assert found == LessonStep(
        "S", ("Words.",), "?tab=data&x=1", "#a .b", do="Press it.", task=task
    )
    found = make_step("cover: #a\ndo: It.\ntask: point\nthen: #b .c\nbecause: It was.")
    assert (found.cover, found.then) == ("#a", "#b .c")
    assert found.task == LessonTask("point", because="It was.")


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("point", LessonTask("point")),
        ("set #layer input >= 3", LessonTask("set", "#layer input", ">=", "3")),
        ("set #x input <= -0.5", LessonTask("set", "#x input", "<=", "-0.5")),
        ("choose #a select", LessonTask("choose", "#a select")),
        ("choose #a = Two words", LessonTask("choose", "#a", value="Two words")),
        ("see inside = lens", LessonTask("see", "inside", value="lens")),
        ("shown #meter figure", LessonTask("shown", "#meter figure")),
    ],
)
def test_tasks_are_parsed(task, expected):
    assert make_step(f"do: It.\ntask: {task}").task == expected


def test_questions_are_parsed():
    choice = make_step("ask: Which?\n- [ ] one\n- [x] two\nbecause: It is.").question
    assert choice == LessonQuestion("Which?", ("one", "two"), 1, because="It is.")
    number = make_step("ask: How many?\nnumber: 3 ± 0.5").question
    assert number == LessonQuestion("How many?", number="3", tolerance="0.5")
    assert make_step("ask: Why?\nfree: So.").question == LessonQuestion("Why?", free="So.")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("## S\nWords.", 1, "begin with a header"),
        ("---\ntitle: T\nminutes: 5\n---\n## S\nWords.", 1, "'goal' is missing"),
        ("---\ntitle: T\ncolour: red\n---\n## S\nWords.", 3, "unknown field 'colour: red'"),
        (LESSON_HEADER.replace("5", "five") + "## S\nWords.", 1, "whole number"),
        (LESSON_HEADER, 1, "has no steps"),
        (LESSON_HEADER + "Words.", 6, "a step must begin"),
        (LESSON_HEADER + "## S\n" + "word " * 61, 6, "61 words, more than the limit of 60"),
        (LESSON_HEADER + "## S\n", 6, "neither a text nor a question"),
        (LESSON_HEADER + "## S\nWords.\ndo: It.", 8, "'do' requires the field 'task'"),
        (LESSON_HEADER + "## S\nWords.\ndo: It.\ntask: jump", 9, "'jump' is not a task"),
        (LESSON_HEADER + "## S\nWords.\nopen: https://elsewhere", 8, "begins with '?'"),
        (LESSON_HEADER + "## S\nWords.\nring: a {} b", 8, "a brace"),
        (LESSON_HEADER + "## S\nWords.\nring: </style><b>", 8, "single CSS selector"),
        (LESSON_HEADER + "## S\nask: A?\n- [x] one", 7, "two or more choices"),
        (LESSON_HEADER + "## S\nask: A?\n- [x] one\n- [x] two", 7, "one of them correct"),
        (LESSON_HEADER + "## S\nask: A?", 7, "either a number"),
        (LESSON_HEADER + "## S\nask: A?\nnumber: many", 8, "'many' is not a number"),
        (LESSON_HEADER + "## S\nWords.\nbecause: so", 8, "requires the field 'ask'"),
        (LESSON_HEADER + "## S\nWords.\ncover: a;b", 8, "'cover' must be a single CSS selector"),
        (LESSON_HEADER + "## S\nask: A?\nask: B?", 8, "'ask' occurs twice"),
        (LESSON_HEADER + "## S\nWords.\nopen: ?a\nWhat?", 9, "unknown field 'What?'"),
        (LESSON_HEADER + "## S\nSee {vit.colour}.", 7, "unknown fact 'colour'"),
        (LESSON_HEADER + "## S\nSee {vit}.", 7, "a brace"),
    ],
)
def test_errors_name_file_and_line(text, line, words):
    with pytest.raises(LessonError, match=rf"^a\.md, line {line}: .*{re.escape(words)}"):
        parse_lesson(text, "a.md")


def test_a_second_folder_adds_and_replaces_lessons(tmp_path, shipped):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    good = LESSON_HEADER + "## S\nIt has {vit.tokens} tokens, {nobody.name}.\n"
    (theirs / "own.md").write_text(good)
    mine = LESSON_HEADER + "## S\nMine.\n"
    (theirs / "1-tokens.md").write_text(mine, encoding="utf-8-sig")  # as editors on Windows do
    (theirs / "broken.md").write_bytes(b"\xff\xfe")
    (theirs / "Upper.md").write_text(good)
    found, problems = read_lessons(LESSONS_FOLDER / DEFAULT_LANGUAGE, theirs)
    assert {lesson.name: lesson for lesson in found}["1-tokens"].steps[0].text == ("Mine.",)
    assert len(problems) == 2 and "broken.md" in " ".join(problems)
    at_once, shelf = (
        read_catalog(shipped, [LESSONS_FOLDER / DEFAULT_LANGUAGE, theirs], r)
        for r in (fact_placeholder, lookup_fact)
    )
    for each in (at_once, shelf):
        ((missing, words),) = each.missing
        assert (missing.name, words) == ("own", "the run 'nobody'")
    titles = [[(lesson.title, lesson.goal) for lesson in s.lessons] for s in (at_once, shelf)]
    assert titles[0] == titles[1] and len(titles[0]) == 9
    assert "…" in repr(at_once) and "…" not in repr(shelf)


def test_included_lessons_are_valid(shipped):
    found, problems = read_lessons(LESSONS_FOLDER / DEFAULT_LANGUAGE)
    assert not problems and len(found) == 9
    for lesson in found:
        filled = fill_facts(lesson, shipped)
        assert 10 <= lesson.minutes <= 20
        assert "{" not in repr(filled.steps).replace("{}", "")
        assert all(each.question for each in filled.steps[-3:]), lesson.name  # exam questions
        asked = [step.task or step.question for step in filled.steps]
        assert all(each.because for each in asked if each), lesson.name
        assert {*lesson.figures, *lesson.answers} <= {*FIGURE_FUNCTIONS}


def test_facts_match_the_run_files(shipped):
    run = shipped.find_run("vit-scratch")
    right = run.evaluation.probabilities.argmax(1) == run.evaluation.labels
    assert read_fact(shipped, "vit", "accuracy") == f"{100 * right.mean():.1f}"
    assert read_fact(shipped, "vit", "wrong") == str((~right).sum())
    model = shipped.load_model(run)
    tokens = model.pos_embed.shape[1]
    assert read_fact(shipped, "vit", "tokens") == str(tokens)
    assert read_fact(shipped, "vit", "pairs") == str(tokens**2)
    base, muon = (shipped.find_run(f"vit-plain-cpu{end}") for end in ("", "-muon"))
    gained = [(r.evaluation.probabilities.argmax(1) == r.evaluation.labels) for r in (muon, base)]
    points = 100 * (gained[0].mean() - gained[1].mean())
    assert read_fact(shipped, "vit-plain-cpu-muon", "gain") == f"{points:+.1f}"


def test_training_signals_are_described(shipped):
    teacher = " and the predictions of the teacher model conv-baseline"
    told = {
        "vit-scratch": f"labels{teacher}, after 150 epochs of self-supervised pretraining",
        "vit-conv-stem": f"labels{teacher}",
        "vit-plain": "labels only",
    }
    assert {name: read_fact(shipped, name, "learnt_from") for name in told} == told


MODELS = [("finetune-deit-tiny", 14), ("vit-scratch", 8), ("vit-conv-stem", 8)]  # (run, side)


def relative_distances(look, side: int) -> np.ndarray:
    """Mean attention distance of each head (L, H), divided by that of uniform attention."""
    rows, columns = np.divmod(np.arange(side**2), side)
    apart = np.hypot(rows[:, None] - rows, columns[:, None] - columns)  # (P, P), in patches
    patches = np.asarray(look.attention)[..., 1:, 1:]  # (L, H, P, P)
    patches = patches / patches.sum(-1, keepdims=True)
    return (patches * apart).sum(-1).mean(-1) / apart.mean()


def format_layers(chosen: np.ndarray) -> str:
    *first, last = [*(str(i) for i in np.flatnonzero(chosen) + 1)] or [""]
    if not last:
        return "in no layer"
    return f"in layers {', '.join(first)} and {last}" if first else f"in layer {last}"


@pytest.mark.parametrize(("name", "side"), MODELS)
def test_lesson_3_states_the_measured_distances_of_any_model(shipped, name, side):
    share = relative_distances(
        shipped.trace_image(shipped.find_run(name), load_lesson_image()), side
    )
    near = format_layers((share < 0.5).any(1))
    far = format_layers((share >= 0.85).all(1))
    assert read_fact(shipped, name, "near_layers") == near
    assert read_fact(shipped, name, "far_layers") == far
    lessons = {each.name: each for each in read_lessons(LESSONS_FOLDER / DEFAULT_LANGUAGE)[0]}
    question = next(s.question for s in lessons["3-heads"].steps if s.title == "What do you see?")

    def find(of: str):  # any model may have the role
        return shipped.find_run(name)

    free, because = (
        substitute_facts(text, shipped, find, lookup_fact)
        for text in (question.free, question.because)
    )
    short = f"{name} has heads below half of the dashed line {near}."
    assert f"{short} All heads are above 85% of it {far}" in free
    assert short in because
    # The numbers of another model may contradict a claim, so it is not given as an example.
    assert because.split(near)[0].count("Other models differ:") == 1


@pytest.mark.parametrize(("name", "side"), MODELS)
def test_largest_weights_match_the_queries_and_keys(shipped, name, side):
    run = shipped.find_run(name)
    look, model = shipped.trace_image(run, load_lesson_image()), shipped.load_model(run)
    largest, unscaled = [], []
    for i, block in enumerate(model.blocks):
        q, k, _ = compute_qkv(model, look.tokens[i][None].float(), i)
        scores = (q @ k.mT)[0].detach()  # (H, N, N)
        unscaled.append(scores.softmax(-1).amax(-1).mean())
        largest.append((scores / block.attn.head_dim**0.5).softmax(-1).amax(-1).mean())
    for key, values in (("largest_weight", largest), ("unscaled_weight", unscaled)):
        wanted = 100 * float(sum(values)) / len(values)
        assert float(read_fact(shipped, name, key)) == pytest.approx(wanted, abs=0.2)
    # The correct choice: without the division, one token gets most of the weight, but not all.
    assert sum(largest) / len(largest) < 0.3 < 0.5 < sum(unscaled) / len(unscaled) < 0.9


def test_gains_over_seeds_compare_runs_of_the_same_seed(shipped):
    def right(name: str) -> np.ndarray:
        found = shipped.find_run(name).evaluation
        return found.probabilities.argmax(1) == found.labels

    paired = [
        100 * (right(f"vit-plain-cpu-muon{seed}").mean() - right(f"vit-plain-cpu{seed}").mean())
        for seed in ("", "-seed-1", "-seed-2")
    ]
    reach = 4.3027 * np.std(paired, ddof=1) / 3**0.5
    mean = np.mean(paired)
    wanted = {"": mean, "_low": mean - reach, "_high": mean + reach}
    for end, value in wanted.items():
        assert read_fact(shipped, "vit-plain-cpu-muon", f"seed_gain{end}") == f"{value:+.1f}"
    seeds = [100 * right(f"vit-muon-cpu{seed}").mean() for seed in ("", "-seed-1", "-seed-2")]
    threshold = 4.3027 * 2**0.5 * np.std(seeds, ddof=1)
    assert read_fact(shipped, "vit-muon-cpu", "seed_threshold") == f"{threshold:.1f}" == "2.2"
    assert float(read_fact(shipped, "vit-muon-cpu-mixed", "gain")) < threshold  # as lesson 7 says
    with pytest.raises(MissingFact, match="seed_gain"):
        read_fact(shipped, "vit-muon-cpu-mixed", "seed_gain")


def test_the_most_frequent_confusion_is_relative_to_all_errors(shipped):
    matrix = confusion_matrix(*(getattr(shipped.find_run("vit-scratch").evaluation, name)
                         for name in ("probabilities", "labels")))  # fmt: skip
    wrong = matrix - np.diag(np.diag(matrix))
    share = 100 * wrong.max() / wrong.sum()
    assert read_fact(shipped, "vit-scratch", "confused_share") == f"{share:.1f}"
    assert read_fact(shipped, "vit-scratch", "even_confused_share") == f"{100 / 90:.1f}"
    true, predicted = np.unravel_index(wrong.argmax(), wrong.shape)
    assert read_fact(shipped, "vit-scratch", "confused_cell") == f"{true}-{predicted}"


def test_facts_of_changed_images_match_the_view_change_the_image(shipped):
    run = shipped.find_run("vit-scratch")
    image = make_canvas(shipped, load_lesson_image())

    def cat(changes: ImageChanges) -> float:
        return 100 * shipped.predict(run, apply_changes(image, changes)).probabilities[3]

    look = shipped.trace_image(run, image)
    first = rank_patches(look, look.num_layers, RemovedPatches(), 32)
    draws = [
        cat(ImageChanges(removed=sample_patches(RemovedPatches(), 32, seed))) for seed in range(20)
    ]
    attended = cat(ImageChanges(removed=RemovedPatches().add(first)))
    wanted = {
        "photo_confidence": f"{cat(ImageChanges()):.1f}",
        "attended_confidence": f"{attended:.1f}",
        "random_low": f"{min(draws):.1f}",
        "random_high": f"{max(draws):.1f}",
        "random_below": str(sum(each < attended for each in draws)),
        "shuffled_same": "8",
        "photo_class": "cat",
    }
    assert {name: read_fact(shipped, "vit-scratch", name) for name in wanted} == wanted
    own = RemovedPatches(look.grid)
    three = own.add(rank_patches(look, look.num_layers, own, 3, "mean"))
    assert (
        read_fact(shipped, "vit-scratch", "few_confidence")
        == f"{cat(ImageChanges(removed=three)):.1f}"
    )
    few = [cat(ImageChanges(removed=sample_patches(own, 3, seed))) for seed in range(20)]
    assert read_fact(shipped, "vit-scratch", "few_low") == f"{min(few):.1f}"


def test_settled_layer_is_the_first_from_which_the_class_stays(shipped):
    run = shipped.find_run("finetune-deit-tiny")
    model, look = shipped.load_model(run), shipped.trace_image(run, load_lesson_image())
    with torch.no_grad():
        tokens = model.norm(look.tokens.float())[:, 0]
        predicted = model.head(tokens).argmax(-1)  # (L+1,)
    layer = int(read_fact(shipped, "finetune-deit-tiny", "settled_layer"))
    assert (predicted[layer:] == 3).all() and predicted[layer - 1] != 3


def test_few_share_matches_the_attention_of_the_last_layer(shipped):
    look = shipped.trace_image(
        shipped.find_run("vit-scratch"), crop_visible_square(load_image(LESSON_IMAGE))
    )
    taken = np.asarray(look.attention)[-1, :, 0, 1:].mean(0)
    first = sorted(taken, reverse=True)[:3]
    assert read_fact(shipped, "vit", "self_share") == f"{100 * look.attention[0, 0, 0, 0]:.1f}"
    assert read_fact(shipped, "vit", "few_share") == f"{100 * sum(first) / sum(taken):.1f}"
    assert read_fact(shipped, "vit", "even_share") == f"{100 * 3 / 64:.1f}"


def test_few_norm_matches_the_norms_of_weighted_values(shipped):
    run = shipped.find_run("vit-scratch")
    look = shipped.trace_image(run, crop_visible_square(load_image(LESSON_IMAGE)))
    block = shipped.load_model(run).blocks[-1]
    heads = look.attention[-1, :, 0, 1:]  # (H, P)
    D = look.tokens.shape[-1]
    with torch.no_grad():
        values = block.attn.qkv(block.norm1(look.tokens[-2]))[1:, 2 * D :]  # (P, D)
        width = heads.T.repeat_interleave(D // len(heads), 1)  # each head's weight, (P, D)
        norms = (width * values @ block.attn.proj.weight.T).norm(dim=-1)
    few = heads.mean(0).topk(3).indices
    assert read_fact(shipped, "vit", "few_norm") == f"{100 * norms[few].sum() / norms.sum():.1f}"


def test_missing_facts_are_reported(tmp_path):
    make_run(tmp_path / "conv", RESNET)
    context = make_context(tmp_path)
    with pytest.raises(MissingFact, match="trained from scratch"):
        read_fact(context, "vit", "name")
    for name in FACTS:  # without attention, ablation and test predictions: a fact or an error
        try:
            assert read_fact(context, "conv", name)
        except MissingFact as error:
            assert "conv" in str(error)
    run = make_run(tmp_path / "mine", VIT)
    assert read_fact(context, "vit", "name") == "mine"
    assert read_fact(context, "vit", "image") == str(run.spec.image_size)


def test_handouts_contain_answers_only_if_requested(shipped, tmp_path):
    asking = "## S\nask: A **strong** one?\nnumber: 12345\nbecause: So & so.\n"
    written = make_lesson(asking, "goal: <b>G</b>\nfigures: patches\nanswers: gains")
    for answers in (False, True):
        page = render_handout(written, shipped, answers=answers)
        assert "A <b>strong</b> one?" in page and "&lt;b&gt;G&lt;/b&gt;" in page
        assert ("12345" in page) == ("So &amp; so." in page) == answers
        assert page.count("<svg") == 1 + answers
    with pytest.raises(LessonError, match="Unknown figure 'none'"):
        render_handout(make_lesson("## S\nW.", "goal: G\nfigures: none"), shipped)
    page = render_handout(
        make_lesson("## S\nW.", "goal: G\nfigures: heads"), make_context(tmp_path)
    )
    assert "The figure 'heads' is not available. Required: a plain Vision" in unescape(page)


def test_cost_follows_the_formulas():
    # Weights and biases of a layer: qkv and proj 4 D^2 + 4 D, MLP 8 D^2 + 5 D, two norms 4 D.
    found, D, L, N = compute_vit_cost(32, 4, 64, 3, 4), 64, 3, 65
    embed = 48 * D + D + D + N * D
    assert found.parameters == L * (12 * D * D + 13 * D) + embed + 2 * D + 10 * D + 10
    assert found.attention_matrix_macs == count_attention_matrix_macs(N, D, L) == 2 * N * N * D * L
    linear = L * N * 12 * D * D + 64 * 48 * D + 10 * D
    assert found.macs == linear + found.attention_matrix_macs
    assert np.isclose(found.attention_matrix_fraction, found.attention_matrix_macs / found.macs)


def test_the_cost_calculator_rejects_invalid_sizes():
    with pytest.raises(LessonError, match="not a multiple of the patch side"):
        validate_sizes([32, 5, 64, 1, 1])
    with pytest.raises(LessonError, match="more than the limit of 2,500"):
        validate_sizes([384, 2, 64, 1, 1])
    table = cost_table(compute_vit_cost(32, 4, 64, 2, 4), compute_vit_cost(64, 4, 64, 2, 4))[0]
    factors = {row[0]: row[-1] for row in table.rows}
    assert factors["Tokens"] == "× 3.95"  # 257 to 65
    assert factors["Attention matrix products, M"] == "× 15.63"
