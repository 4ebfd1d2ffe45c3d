"""Lessons: parsing of valid and invalid files, and facts compared with the run files."""

import io
import re
from html import unescape
from itertools import product

import numpy as np
import pytest
import torch
from PIL import Image

from tests.support.factories import RESNET, VIT, make_context, make_run, make_unfinished_run
from vitdemo.analyses.activation_patching import compute_patching, load_image_pair
from vitdemo.analyses.perturbation import compute_ranking_maps, make_canvas, rank_patches
from vitdemo.data.perturb.changes import ImageChanges, RemovedPatches, apply_changes
from vitdemo.data.photos import load_example_squares
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
    MissingFact,
    find_run,
    load_photo,
    lookup_fact,
    substitute_facts,
)
from vitdemo.lessons.handout import FIGURE_FUNCTIONS, render_handout
from vitdemo.lessons.thumbnails import DRAWINGS, MAX_THUMBNAIL_BYTES, SIDE, find_thumbnail
from vitdemo.metrics import confusion_matrix
from vitdemo.models.cost import compute_vit_cost, count_attention_matrix_macs
from vitdemo.page.lessons import catalog, cost, handouts, make_feature, panel
from vitdemo.page.view_state import ViewState
from vitdemo.runs import HISTORY_FILE, Evaluation


def read_fact(context, role: str, name: str) -> str:
    return lookup_fact(context, find_run(context, role), name)


INCLUDED = LESSONS_FOLDER / DEFAULT_LANGUAGE
LESSON_HEADER = "---\ntitle: T\nminutes: 5\ngoal: G\n---\n"


def make_lesson(body: str, head: str = "goal: G") -> Lesson:
    return parse_lesson(LESSON_HEADER.replace("goal: G", head) + body, "a.md")


def make_step(text: str) -> LessonStep:
    return make_lesson(f"## S\nWords.\n\n{text}").steps[0]


def test_step_fields_are_parsed():
    step = make_step("open: ?tab=data&x=1\nring: #a .b\ndo: Press\n  it.\ntask: press #a button")
    task = LessonTask("press", "#a button")
    assert step == LessonStep("S", ("Words.",), "?tab=data&x=1", "#a .b", do="Press it.", task=task)
    step = make_step("cover: #a\ndo: It.\ntask: point\nthen: #b .c\nshow: #b, #d\nbecause: It was.")
    assert (step.cover, step.then, step.show) == ("#a", "#b .c", "#b, #d")
    assert step.task == LessonTask("point", because="It was.")


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
    ("text", "line", "message"),
    [
        ("## S\nWords.", 1, "begin with a header"),
        ("---\ntitle: T\nminutes: 5\n---\n## S\nWords.", 1, "'goal' is missing"),
        ("---\ntitle: T\ncolour: red\n---\n## S\nWords.", 3, "unknown field 'colour: red'"),
        (LESSON_HEADER.replace("5", "five") + "## S\nWords.", 1, "whole number"),
        (LESSON_HEADER, 1, "has no steps"),
        (LESSON_HEADER + "Words.", 6, "a step must begin"),
        (LESSON_HEADER + "## S\n" + "word " * 61, 6, "61 words, more than 60"),
        (LESSON_HEADER + "## S\n", 6, "neither text nor question"),
        (LESSON_HEADER + "## S\nWords.\ndo: It.", 8, "'do' requires the field 'task'"),
        (LESSON_HEADER + "## S\nWords.\ndo: It.\ntask: jump", 9, "'jump' is not a task"),
        (LESSON_HEADER + "## S\nWords.\nopen: https://elsewhere", 8, "must be a query string"),
        (LESSON_HEADER + "## S\nWords.\nring: a {} b", 8, "a brace"),
        (LESSON_HEADER + "## S\nWords.\nring: </style><b>", 8, "must be one CSS selector"),
        (LESSON_HEADER + "## S\nask: A?\n- [x] one", 7, "two or more choices"),
        (LESSON_HEADER + "## S\nask: A?\n- [x] one\n- [x] two", 7, "one of them correct"),
        (LESSON_HEADER + "## S\nask: A?", 7, "either a number"),
        (LESSON_HEADER + "## S\nask: A?\nnumber: many", 8, "'many' is not a number"),
        (LESSON_HEADER + "## S\nWords.\nbecause: so", 8, "requires the field 'ask'"),
        (LESSON_HEADER + "## S\nWords.\n- [x] one\n- [ ] two", 6, "requires the field 'ask'"),
        (LESSON_HEADER + "## S\nWords.\ncover: a;b", 8, "'cover' must be one CSS selector"),
        (LESSON_HEADER + "## S\nask: A?\nask: B?", 8, "'ask' occurs twice"),
        (LESSON_HEADER + "## S\nWords.\nopen: ?a\nWhat?", 9, "unknown field 'What?'"),
        (LESSON_HEADER + "## S\nSee {vit.colour}.", 7, "unknown fact 'colour'"),
        (LESSON_HEADER + "## S\nSee {vit}.", 7, "a brace"),
    ],
)
def test_errors_name_file_and_line(text, line, message):
    with pytest.raises(LessonError, match=rf"^a\.md, line {line}: .*{re.escape(message)}"):
        parse_lesson(text, "a.md")


def test_a_second_folder_adds_and_replaces_lessons(tmp_path, shipped):
    folder = tmp_path / "theirs"
    folder.mkdir()
    good = LESSON_HEADER + "## S\nIt has {vit.tokens} tokens, {nobody.name}.\n"
    (folder / "own.md").write_text(good)
    replacement = LESSON_HEADER + "## S\nMine.\n"
    (folder / "1-tokens.md").write_text(replacement, encoding="utf-8-sig")  # as Windows editors do
    (folder / "broken.md").write_bytes(b"\xff\xfe")
    (folder / "Upper.md").write_text(good)
    lessons, problems = read_lessons(INCLUDED, folder)
    assert {lesson.name: lesson for lesson in lessons}["1-tokens"].steps[0].text == ("Mine.",)
    assert len(problems) == 2 and "broken.md" in " ".join(problems)
    cards = catalog.payload([INCLUDED, folder], shipped, make_state())
    names = [card["name"] for card in cards["lessons"]]
    assert names[:2] == ["1-tokens", "2-attention"] and names[8:] == ["9-sinks", "10-ground-truth"]
    first = cards["lessons"][0]
    thumbnail = first.pop("thumbnail").make_content()
    assert thumbnail == (INCLUDED / "1-tokens.webp").read_bytes()  # of the replaced lesson
    assert first == {"name": "1-tokens", "title": "T", "minutes": 5, "goal": "G", "steps": 1}
    missing = "'T' is not available. Required: the run 'nobody'."
    assert cards["messages"] == [missing, *problems]


def make_state(**options) -> ViewState:
    return ViewState(None, "", options)


@pytest.fixture
def folder(tmp_path):
    """Folder with three lessons. The second one needs a run, the third one a test result."""
    for name, fact in (("a", "{vit.name}"), ("b", "{nobody.name}"), ("c", "{vit.accuracy}")):
        text = f"{LESSON_HEADER}## S\n{fact}\n\ndo: See it.\ntask: point\n"
        (tmp_path / f"{name}.md").write_text(text.replace("title: T", f"title: {name.upper()}"))
    return tmp_path


def test_panel_receives_the_lesson_with_facts_and_the_next_available_lesson(folder, shipped):
    found = panel.payload([folder], shipped, make_state(lesson="a"))
    (step,) = found["lesson"]["steps"]
    assert step["text"] == (read_fact(shipped, "vit", "name"),)
    assert step["task"] == {"kind": "point", "where": "", "op": "", "value": "", "because": ""}
    assert found["next"] == {"name": "c", "title": "C"}
    assert panel.payload([folder], shipped, make_state(lesson="c"))["next"] is None
    for name, following in (("10-x", "a"), ("9-x", "10-x")):  # sorted by number
        (folder / f"{name}.md").write_text(f"{LESSON_HEADER}## S\nWords.\n")
        found = panel.payload([folder], shipped, make_state(lesson=name))
        assert found["next"]["name"] == following


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("b", "^'B' is not available. Required: the run 'nobody'.$"),
        ("c", "^'C' is not available. Required: the fact 'accuracy' of mine.$"),
        ("d", "^There is no lesson 'd'. Choose a lesson"),
        (None, "^There is no lesson ''"),
    ],
)
def test_panel_reports_why_a_lesson_cannot_be_opened(folder, tmp_path, name, message):
    make_unfinished_run(tmp_path / "runs" / "mine")
    context = make_context(tmp_path / "runs")
    with pytest.raises(LessonError, match=message):
        panel.payload([folder], context, make_state(lesson=name))


def test_thumbnail_of_the_last_folder_is_served(tmp_path):
    folders = [INCLUDED, tmp_path]
    assert find_thumbnail(folders, "none") is None
    included = find_thumbnail(folders, "1-tokens")
    (tmp_path / "1-tokens.webp").write_bytes(bytes(MAX_THUMBNAIL_BYTES + 1))  # too large
    assert find_thumbnail(folders, "1-tokens") == included
    (tmp_path / "1-tokens.webp").write_bytes(b"own")
    assert find_thumbnail(folders, "1-tokens") == b"own"


def flatten_image(image: Image.Image) -> np.ndarray:
    """Return the pixels (S, S, 3) of an image on a white background."""
    opaque = Image.new("RGBA", image.size, "white")
    opaque.alpha_composite(image.convert("RGBA"))
    return np.asarray(opaque.convert("RGB"), dtype=float)


def test_every_included_lesson_has_a_small_square_thumbnail(shipped):
    lessons, _ = read_lessons(INCLUDED)
    assert [lesson.name for lesson in lessons] == [*DRAWINGS]
    for lesson in lessons:
        content = find_thumbnail([INCLUDED], lesson.name)
        with Image.open(io.BytesIO(content)) as image:
            assert (image.format, image.size) == ("WEBP", (SIDE, SIDE))
            pixels = flatten_image(image)
        assert len(content) < 10_000, lesson.name
        drawn = flatten_image(DRAWINGS[lesson.name](shipped))
        assert np.abs(drawn - pixels).mean() < 8, lesson.name  # of the current models


def test_included_lessons_are_valid(shipped):
    lessons, problems = read_lessons(INCLUDED)
    assert not problems and len(lessons) == 10
    for lesson in lessons:
        filled = fill_facts(lesson, shipped)
        assert 10 <= lesson.minutes <= 22
        assert not re.search(r"(?<!\*)\*[^*\s][^*]*\*(?!\*)", repr(filled))  # only ** is bold
        assert "{" not in repr(filled.steps).replace("{}", "")
        assert all(step.question for step in filled.steps[-3:]), lesson.name  # exam questions
        exercises = [step.task or step.question for step in filled.steps]
        assert all(exercise.because for exercise in exercises if exercise), lesson.name
        assert {*lesson.figures, *lesson.answers} <= {*FIGURE_FUNCTIONS}


def test_facts_match_the_run_files(shipped):
    run = shipped.find_run("vit-scratch")
    correct = run.evaluation.probabilities.argmax(1) == run.evaluation.labels
    assert read_fact(shipped, "vit", "accuracy") == f"{100 * correct.mean():.1f}"
    assert read_fact(shipped, "vit", "wrong") == str((~correct).sum())
    model = shipped.load_model(run)
    tokens = model.pos_embed.shape[1]
    assert read_fact(shipped, "vit", "tokens") == str(tokens)
    assert read_fact(shipped, "vit", "pairs") == str(tokens**2)
    base, muon = (shipped.find_run(f"vit-plain-cpu{end}") for end in ("", "-muon"))
    outcomes = [(r.evaluation.probabilities.argmax(1) == r.evaluation.labels) for r in (muon, base)]
    points = 100 * (outcomes[0].mean() - outcomes[1].mean())
    assert read_fact(shipped, "vit-plain-cpu-muon", "gain") == f"{points:+.1f}"


def test_training_signals_are_described(shipped):
    teacher = " and the predictions of the teacher model conv-baseline"
    expected = {
        "vit-scratch": f"labels{teacher}, after 150 epochs of self-supervised pretraining",
        "vit-conv-stem": f"labels{teacher}",
        "vit-plain": "labels only",
    }
    assert {name: read_fact(shipped, name, "learnt_from") for name in expected} == expected


MODELS = [("finetune-deit-tiny", 14), ("vit-scratch", 8), ("vit-conv-stem", 8)]  # (run, side)


def relative_distances(trace, side: int) -> np.ndarray:
    """Compute each head's mean attention distance (L, H), divided by that of uniform attention."""
    rows, columns = np.divmod(np.arange(side**2), side)
    distances = np.hypot(rows[:, None] - rows, columns[:, None] - columns)  # (P, P), in patches
    patches = np.asarray(trace.attention)[..., 1:, 1:]  # (L, H, P, P)
    patches = patches / patches.sum(-1, keepdims=True)
    return (patches * distances).sum(-1).mean(-1) / distances.mean()


def format_layers(mask: np.ndarray) -> str:
    *first, last = [*(str(i) for i in np.flatnonzero(mask) + 1)] or [""]
    if not last:
        return "in no layer"
    return f"in layers {', '.join(first)} and {last}" if first else f"in layer {last}"


@pytest.mark.parametrize(("name", "side"), MODELS)
def test_lesson_3_states_the_measured_distances_of_any_model(shipped, name, side):
    distances = relative_distances(shipped.trace_image(shipped.find_run(name), load_photo()), side)
    near = format_layers((distances < 0.5).any(1))
    far = format_layers((distances >= 0.85).all(1))
    assert read_fact(shipped, name, "near_layers") == near
    assert read_fact(shipped, name, "far_layers") == far
    lesson = next(each for each in read_lessons(INCLUDED)[0] if each.name == "3-heads")
    (step,) = (each for each in lesson.steps if each.title == "What do you see?")

    answer, because = (  # the text must be true for any model in the role
        substitute_facts(text, shipped, lambda role: shipped.find_run(name), lookup_fact)
        for text in (step.question.free, step.question.because)
    )
    sentence = f"{name} has heads below half of the uniform distance {near}."
    assert f"{sentence} All heads are above 85% of the uniform distance {far}" in answer
    assert sentence in because
    # The numbers of another model may contradict a claim, so it is not given as an example.
    assert because.split(near)[0].count("Other models differ:") == 1


def test_softmax_and_weighted_sum_by_hand_are_correct(shipped):
    run = shipped.find_run("vit-scratch")
    trace, model = shipped.trace_image(run, load_photo()), shipped.load_model(run)
    q, k, _ = compute_qkv(model, trace.tokens[2][None].float(), 2)
    powers = (q[0, 0, 0] @ k[0, 0].T * model.blocks[2].attn.scale).detach().exp()  # (N,)
    weights = trace.attention[2, 0, 0].float()
    expected = {
        "softmax_power": f"{powers[0]:.4g}",
        "softmax_total": f"{powers.sum():.4g}",
        "softmax_weight": f"{100 * weights[0]:.1f}",
    }
    facts = {name: read_fact(shipped, "vit-scratch", name) for name in expected}
    assert facts == expected
    ratio = float(facts["softmax_power"]) / float(facts["softmax_total"])  # of the shown digits
    assert f"{100 * ratio:.1f}" == facts["softmax_weight"]

    lesson = next(each for each in read_lessons(INCLUDED)[0] if each.name == "2-attention")
    (step,) = (each for each in lesson.steps if each.title == "Weighted sum by hand")
    text = " ".join(step.text)
    values = [[int(n) for n in pair] for pair in re.findall(r"\((\d+), (\d+)\)", text)]
    shares = np.array([int(n) / 100 for n in re.findall(r"(\d+)%", text)])
    output = shares @ values
    assert np.isclose(shares.sum(), 1) and float(step.question.number) == output[1]
    assert f"the output is ({output[0]:g}, {output[1]:g})" in step.question.because


@pytest.mark.parametrize(("name", "side"), MODELS)
def test_largest_weights_match_the_queries_and_keys(shipped, name, side):
    run = shipped.find_run(name)
    trace, model = shipped.trace_image(run, load_photo()), shipped.load_model(run)
    largest, unscaled = [], []
    for i, block in enumerate(model.blocks):
        q, k, _ = compute_qkv(model, trace.tokens[i][None].float(), i)
        scores = (q @ k.mT)[0].detach()  # (H, N, N)
        unscaled.append(scores.softmax(-1).amax(-1).mean())
        largest.append((scores / block.attn.head_dim**0.5).softmax(-1).amax(-1).mean())
    for key, values in (("largest_weight", largest), ("unscaled_weight", unscaled)):
        expected = 100 * float(sum(values)) / len(values)
        assert float(read_fact(shipped, name, key)) == pytest.approx(expected, abs=0.2)
    # The correct choice: without the division, one token gets most of the weight, but not all.
    assert sum(largest) / len(largest) < 0.3 < 0.5 < sum(unscaled) / len(unscaled) < 0.9


def test_gains_over_seeds_compare_runs_of_the_same_seed(shipped):
    def accuracies(name: str) -> np.ndarray:
        runs = (shipped.find_run(f"{name}{seed}") for seed in ("", "-seed-1", "-seed-2"))
        found = (run.evaluation for run in runs)
        return np.array([100 * np.mean(e.probabilities.argmax(1) == e.labels) for e in found])

    gains = accuracies("vit-plain-cpu-muon") - accuracies("vit-plain-cpu")
    margin, mean = 4.3027 * np.std(gains, ddof=1) / 3**0.5, np.mean(gains)
    expected = {"": mean, "_low": mean - margin, "_high": mean + margin}
    for end, value in expected.items():
        assert read_fact(shipped, "vit-plain-cpu-muon", f"seed_gain{end}") == f"{value:+.1f}"
    threshold = 4.3027 * 2**0.5 * np.std(accuracies("vit-muon-cpu"), ddof=1)
    assert read_fact(shipped, "vit-muon-cpu", "seed_threshold") == f"{threshold:.1f}" == "2.2"
    assert float(read_fact(shipped, "vit-muon-cpu-mixed", "gain")) < threshold  # as lesson 7 says
    with pytest.raises(MissingFact, match="seed_gain"):
        read_fact(shipped, "vit-muon-cpu-mixed", "seed_gain")


def test_the_most_frequent_confusion_is_relative_to_all_errors(shipped):
    evaluation = shipped.find_run("vit-scratch").evaluation
    matrix = confusion_matrix(evaluation.probabilities, evaluation.labels)
    errors = matrix - np.diag(np.diag(matrix))
    percentage = 100 * errors.max() / errors.sum()
    assert read_fact(shipped, "vit-scratch", "confused_share") == f"{percentage:.1f}"
    assert read_fact(shipped, "vit-scratch", "even_confused_share") == f"{100 / 90:.1f}"
    true, predicted = np.unravel_index(errors.argmax(), errors.shape)
    assert read_fact(shipped, "vit-scratch", "confused_cell") == f"{true}-{predicted}"


def test_facts_of_changed_images_match_the_view_fool_the_model(shipped):
    run = shipped.find_run("vit-scratch")
    image = make_canvas(shipped, load_photo())

    def cat_confidence(removed: RemovedPatches) -> float:
        changed = apply_changes(image, ImageChanges(removed=removed))
        return 100 * shipped.predict(run, changed).probabilities[3]

    def random_confidences(grid, count: int) -> list[float]:
        orders = (np.random.default_rng(s).permutation(grid[0] * grid[1]) for s in range(20))
        return [cat_confidence(RemovedPatches(grid, tuple(o[:count].tolist()))) for o in orders]

    def attended_confidence(ranking: str, grid, count: int) -> float:
        order = rank_patches(maps[ranking], grid)[-1]  # in the last layer
        return cat_confidence(RemovedPatches(grid, tuple(order[:count].tolist())))

    trace, none = shipped.trace_image(run, load_photo()), RemovedPatches()
    maps = compute_ranking_maps(trace)
    confidences = random_confidences((8, 8), 32)
    attended = attended_confidence("rollout", (8, 8), 32)
    expected = {
        "photo_confidence": f"{cat_confidence(none):.1f}",
        "attended_confidence": f"{attended:.1f}",
        "random_low": f"{min(confidences):.1f}",
        "random_high": f"{max(confidences):.1f}",
        "random_below": str(sum(value < attended for value in confidences)),
        "shuffled_same": "8",
        "photo_class": "cat",
    }
    assert {name: read_fact(shipped, "vit-scratch", name) for name in expected} == expected
    three = attended_confidence("mean", trace.grid, 3)
    assert read_fact(shipped, "vit-scratch", "few_confidence") == f"{three:.1f}"
    confidences = random_confidences(trace.grid, 3)
    assert read_fact(shipped, "vit-scratch", "few_low") == f"{min(confidences):.1f}"


def test_settled_layer_is_the_first_from_which_the_class_stays(shipped):
    run = shipped.find_run("finetune-deit-tiny")
    model, trace = shipped.load_model(run), shipped.trace_image(run, load_photo())
    with torch.no_grad():
        tokens = model.norm(trace.tokens.float())[:, 0]
        predicted = model.head(tokens).argmax(-1)  # (L+1,)
    layer = int(read_fact(shipped, "finetune-deit-tiny", "settled_layer"))
    assert (predicted[layer:] == 3).all() and predicted[layer - 1] != 3


def test_patched_layer_is_the_first_from_which_the_class_token_changes_the_class(shipped):
    run = shipped.find_run("vit-scratch")
    model, cat, bus = shipped.load_model(run), load_photo(), load_example_squares()[1]
    tokens = [shipped.trace_image(run, image).tokens for image in (cat, bus)]
    predicted = []
    with torch.no_grad():
        for layer, (own, other) in enumerate(zip(*tokens, strict=True)):
            x = torch.cat([other[:1], own[1:]])[None]
            for block in model.blocks[layer:]:
                x = block(x)
            predicted.append(int(model.forward_head(model.norm(x)).argmax()))
    layer = int(read_fact(shipped, "vit-scratch", "patched_layer"))
    assert layer == 8 and predicted[layer - 1] == 3 and 3 not in predicted[layer:]
    # Further claims of lesson 4
    result = compute_patching(shipped, load_image_pair(shipped, run, cat, bus))
    assert result.curves["patches"][:7].min().round(2) == 0.88
    assert result.curves["class token"][:7].max().round(2) == 0.02
    assert np.abs(result.maps).max().round(2) == 0.01


def test_few_share_matches_the_attention_of_the_last_layer(shipped):
    trace = shipped.trace_image(shipped.find_run("vit-scratch"), load_photo())
    weights = np.asarray(trace.attention)[-1, :, 0, 1:].mean(0)
    largest = sorted(weights, reverse=True)[:3]
    assert read_fact(shipped, "vit", "self_share") == f"{100 * trace.attention[0, 0, 0, 0]:.1f}"
    assert read_fact(shipped, "vit", "few_share") == f"{100 * sum(largest) / sum(weights):.1f}"
    assert read_fact(shipped, "vit", "even_share") == f"{100 * 3 / 64:.1f}"


def test_few_norm_matches_the_norms_of_weighted_values(shipped):
    run = shipped.find_run("vit-scratch")
    trace = shipped.trace_image(run, load_photo())
    block = shipped.load_model(run).blocks[-1]
    weights = trace.attention[-1, :, 0, 1:]  # (H, P)
    D = trace.tokens.shape[-1]
    with torch.no_grad():
        values = block.attn.qkv(block.norm1(trace.tokens[-2]))[1:, 2 * D :]  # (P, D)
        head_weights = weights.T.repeat_interleave(D // len(weights), 1)  # (P, D)
        norms = (head_weights * values @ block.attn.proj.weight.T).norm(dim=-1)
    top = weights.mean(0).topk(3).indices
    assert read_fact(shipped, "vit", "few_norm") == f"{100 * norms[top].sum() / norms.sum():.1f}"


def test_missing_facts_are_reported(tmp_path):
    (make_run(tmp_path / "untracked", RESNET).path / HISTORY_FILE).unlink()
    context = make_context(tmp_path)
    with pytest.raises(MissingFact, match="trained from scratch"):
        read_fact(context, "vit", "name")
    one_class = Evaluation(np.ones((4, 1), np.float32), np.zeros(4, np.int64), "0" * 16, 0.001)
    make_run(tmp_path / "single", RESNET, classes=("cat",), tested=one_class)
    # Without attention, ablation, history or a second class: a fact or an error
    for run, name in product(("untracked", "single"), FACTS):
        try:
            assert read_fact(context, run, name)
        except MissingFact as error:
            assert run in str(error)
    run = make_run(tmp_path / "mine", VIT)
    assert read_fact(context, "vit", "name") == "mine"
    assert read_fact(context, "vit", "image") == str(run.spec.image_size)


def read_texts(page: str) -> tuple[str, str]:
    """Return the words of a handout, and the words in its figures."""
    figures = " ".join(re.findall(r"<svg.*?</svg>", page, re.S))
    words = re.sub(r"<style>.*?</style>|<svg.*?</svg>", " ", page, flags=re.S)
    plain = (unescape(re.sub(r"<[^>]*>", " ", text)) for text in (words, figures))
    return tuple(" ".join(text.split()) for text in plain)


def plain_text(text: str) -> str:
    return " ".join(text.replace("`", " ").replace("**", " ").split())


def list_facts(text: str, filled: str) -> set[str]:
    """Return the values in `filled` of the facts of `text`."""
    pattern = re.sub(r"\\{[^{}\s]+?\\}", "(.+?)", re.escape(text))
    return {*re.fullmatch(pattern, filled).groups()}


@pytest.mark.parametrize("name", [path.stem for path in sorted(LESSONS_FOLDER.glob("en/*.md"))])
def test_no_student_handout_contains_an_answer(shipped, name):
    raw = next(lesson for lesson in read_lessons(INCLUDED)[0] if lesson.name == name)
    lesson = fill_facts(raw, shipped)
    page = render_handout(lesson, shipped)
    words, figures = read_texts(page)
    assert "answer" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S)  # no marked choice
    tasks = [plain_text(step.do) for step in lesson.steps if step.task]
    for before, step in zip(raw.steps, lesson.steps, strict=True):
        for text in (step.task and step.task.because, step.question and step.question.because):
            assert not text or plain_text(text) not in words
        if not step.question:
            continue
        asked = plain_text(" ".join([*step.text, step.question.text]))
        assert asked in words
        assert not step.question.free or plain_text(step.question.free) not in words
        number, rest = step.question.number, words.replace(asked, " ")
        if len(re.sub(r"\D", "", number)) > 1:
            pattern = rf"(?<![\d.]){re.escape(number)}(?![\d.]*\d)"
            assert not re.search(pattern, rest), (step.title, number)
            is_fact = before.question.number.startswith("{")  # else an axis may have this tick
            assert not is_fact or not re.search(pattern, figures), (step.title, number)
        told = list_facts(before.question.free, step.question.free)
        told = {fact for fact in told if fact not in asked and len(fact) > 1}
        for task in tasks:
            assert sum(fact in task for fact in told) < 2, (step.title, task)


def test_handouts_have_one_section_with_room_per_question(shipped):
    body = "## A\nask: Why?\nfree: So.\n## B\nask: One?\n- [x] yes\n- [ ] no\n## C\nWords.\n"
    body += "do: Press it. Does it change?\ntask: point\n## D\nWords.\ndo: See.\ntask: point\n"
    page = render_handout(make_lesson(body), shipped)
    sections = re.findall(r'<section class="(exercise[^"]*)">(.*?)</section>', page, re.S)
    titles = [re.search("<h3>(.*?)</h3>", text)[1] for _, text in sections]
    assert titles == ["Task 1.", "Task 2.", "Question 1.", "Question 2."]
    assert ['class="room"' in text for _, text in sections] == [True, False, True, False]
    assert [kind for kind, _ in sections][2] == "exercise long"
    assert page.count('class="sheet"') == 2  # tasks, and questions
    teachers = render_handout(make_lesson(body), shipped, answers=True)
    assert 'class="room"' not in teachers and "Name:" not in teachers


def test_handouts_contain_answers_only_if_requested(shipped, tmp_path):
    body = "## S\nask: A **strong** one?\nnumber: 12345\nbecause: So & so.\n"
    lesson = make_lesson(body, "goal: <b>G</b>\nfigures: patches\nanswers: gains")
    for answers in (False, True):
        page = render_handout(lesson, shipped, answers=answers)
        assert "A <b>strong</b> one?" in page and "&lt;b&gt;G&lt;/b&gt;" in page
        assert ("12345" in page) == ("So &amp; so." in page) == answers
        assert page.count("<svg") == 1 + answers
    with pytest.raises(LessonError, match="Unknown figure 'none'"):
        render_handout(make_lesson("## S\nW.", "goal: G\nfigures: none"), shipped)
    lesson = make_lesson("## S\nW.", "goal: G\nfigures: heads")
    page = render_handout(lesson, make_context(tmp_path))
    assert "The figure 'heads' is not available. Required: a plain Vision" in unescape(page)


def test_cost_follows_the_formulas():
    # A layer has 4 D^2 + 4 D parameters in qkv and proj, 8 D^2 + 5 D in the MLP, 4 D in two norms.
    cost, D, L, N = compute_vit_cost(32, 4, 64, 3, 4), 64, 3, 65
    embedding = 48 * D + D + D + N * D
    assert cost.parameters == L * (12 * D * D + 13 * D) + embedding + 2 * D + 10 * D + 10
    assert cost.attention_matrix_macs == count_attention_matrix_macs(N, D, L) == 2 * N * N * D * L
    linear = L * N * 12 * D * D + 64 * 48 * D + 10 * D
    assert cost.macs == linear + cost.attention_matrix_macs
    assert np.isclose(cost.attention_matrix_fraction, cost.attention_matrix_macs / cost.macs)


def test_the_task_returns_the_handout_of_the_chosen_lesson(shipped):
    own = make_feature([INCLUDED])
    view = own.payloads[handouts.VIEW](shipped, make_state())
    assert view.data == {"count": 10}
    menu = view.controls["handouts.lesson"]
    assert menu["value"] == menu["choices"][0][1] == "1-tokens" and len(menu["choices"]) == 10
    state = make_state(**{"handouts.lesson": "3-heads"})
    menu = own.payloads[handouts.VIEW](shipped, state).controls["handouts.lesson"]
    assert menu["value"] == "3-heads"
    for task, end in (("handouts", ""), ("handouts.answers", "-answers")):
        found = own.tasks[task](shipped, state, lambda *_: None)
        assert found["name"] == f"vitdemo-3-heads{end}.html"
        assert "Heads and layers" in found["text"]


def compute_factors(**options) -> dict[str, str]:
    table = cost.payload(None, make_state(**{f"cost.{name}": n for name, n in options.items()}))[0]
    return {row[0]: row[-1] for row in table["rows"]}


def test_the_cost_calculator_compares_with_the_baseline():
    factors = compute_factors(image=64, baseline="32,4,64,2,4", width=64, depth=2)
    assert factors["Tokens"] == "× 3.95"  # 257 to 65
    assert factors["Attention matrix products, M"] == "× 15.63"
    for baseline in (None, "", "32,4,64", "32,5,64,2,4", "a,b,c,d,e", "32,4,128,6,4"):
        assert set(compute_factors(baseline=baseline).values()) == {"× 1.00", ""}


def test_the_cost_calculator_rejects_invalid_sizes():
    with pytest.raises(LessonError, match="not a multiple of the patch side"):
        compute_factors(patch=5)
    with pytest.raises(LessonError, match="more than the limit of 2,500"):
        compute_factors(image=384, patch=2)
    state = make_state(**{"cost.image": 384, "cost.patch": 8, "cost.width": 1024, "cost.depth": 24})
    with pytest.raises(LessonError, match="more than the limit of 20 G"):
        cost.measure(None, state, lambda *_: None)
