"""Training: resumed runs equal uninterrupted ones, and each recipe setting has its effect."""

import io
import math
import time
from dataclasses import replace
from itertools import islice

import pytest
import torch

from vitdemo.data import make_synthetic_images
from vitdemo.errors import VitdemoError
from vitdemo.models import ModelSpec, build_model
from vitdemo.runs import RECORD_FIELDS
from vitdemo.training import Preprocessing, choose_compile_mode, choose_device, devices
from vitdemo.training import trainer as module
from vitdemo.training.batches import augment_batch
from vitdemo.training.devices import compile_static
from vitdemo.training.inference import predict_logits
from vitdemo.training.optimisation import build_optimizer, learning_rate_factor
from vitdemo.training.pretraining import make_trainer as new_trainer
from vitdemo.training.processes import Processes
from vitdemo.training.recipes import OPTIMIZERS, Recipe
from vitdemo.training.teacher import Teacher

SIZES = {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "drop_path_rate": 0.2}
TINY = ModelSpec("vit", image_size=16, options=SIZES)
DEIT = ModelSpec("timm", 16, "deit_tiny_patch16_224", {"depth": 1, "embed_dim": 48})
PLAIN = Recipe("plain", "", TINY, epochs=3, batch_size=8, learning_rate=3e-3)
RICH = replace(
    PLAIN,
    name="rich",
    ema_decay=0.9,
    mixup=0.5,
    cutmix=0.5,
    unmixed_epochs=1,
    erasing=0.3,
    label_smoothing=0.1,
    warmup_epochs=0.5,
    clip_norm=1.0,
)
TWO_STAGE = replace(RICH, name="two-stage", head_epochs=2, epochs=2, layer_decay=0.7, patience=5)
MASKED = replace(RICH, name="masked", mixup=0.0, cutmix=0.0, mask_ratio=0.5)
PATCH_DROPOUT = replace(PLAIN, name="dropping", patch_dropout=0.5, whole_epochs=1)
CONVNET = replace(
    PLAIN,
    name="convnet",
    model=ModelSpec("convnet", 16, options={"widths": (24, 24, 24)}),
    optimizer="muon",
    ema_decay=0.9,
    alternating_flip=True,
)


def make_trainer(recipe=PLAIN, seed=0, device="cpu", **options):
    torch.manual_seed(seed)
    model = build_model(recipe.model, 4).to(device)
    options["preprocessing"] = Preprocessing(recipe.model.image_size, (0.5,) * 3, (0.25,) * 3)
    train, validation = make_synthetic_images(4, 6, 16), make_synthetic_images(4, 2, 16, seed=1)
    return new_trainer(model, recipe, train, validation, num_classes=4, **options)


def save_and_load(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def remove_times(records):
    return [{k: r[k] for k in RECORD_FIELDS[:-2]} for r in records]


def copy_weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_equal_weights(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.parametrize(
    ("recipe", "stop_epochs", "optimizer"),
    [
        (RICH, (0, 1, 2), "adamw"),
        (TWO_STAGE, (1, 2, 3), "adamw"),
        (TWO_STAGE, (2, 3), "sgd"),
        (TWO_STAGE, (2, 3), "muon"),
        (PATCH_DROPOUT, (1, 2), "adamw"),
        (MASKED, (1,), "adamw"),
        (CONVNET, (1,), "muon"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_resumed_run_equals_an_uninterrupted_run(recipe, stop_epochs, optimizer):
    recipe = replace(recipe, optimizer=optimizer)
    uninterrupted = make_trainer(recipe)
    states = [save_and_load(uninterrupted.state_dict())]  # after each epoch, where a run may stop
    expected = []
    for record in uninterrupted.fit():
        expected += remove_times([record])
        states.append(save_and_load(uninterrupted.state_dict()))
    for epochs in stop_epochs:
        second = make_trainer(recipe, seed=9)
        second.load_state_dict(states[epochs])
        assert remove_times(second.fit()) == expected[epochs:]
        assert_equal_weights(second.model.state_dict(), uninterrupted.model.state_dict())
        assert_equal_weights(second.final_weights(), uninterrupted.final_weights())


@pytest.mark.parametrize("recipe", [RICH, TWO_STAGE, PATCH_DROPOUT, MASKED, CONVNET])
def test_run_paused_within_an_epoch_equals_an_uninterrupted_run(recipe):
    recipe = replace(recipe, batch_size=6)  # 4 steps per epoch
    uninterrupted = make_trainer(recipe)
    expected = remove_times(uninterrupted.fit())
    pauses = iter([False, True, False, False, True, True])  # steps 2, 5 and 6; the rest: no pause
    state, records = None, []
    for part in range(4):
        trainer = make_trainer(recipe, seed=part, pause=lambda: next(pauses, False))
        if state:
            trainer.load_state_dict(save_and_load(state))
        records += trainer.fit()
        state = trainer.state_dict()
        if part < 3:
            step = [2, 2, 3][part]
            assert (trainer.epoch, trainer.epoch_progress.step) == ([0, 1, 1][part], step)
            assert not trainer.is_finished and trainer.epoch_progress.seconds > 0
    assert trainer.is_finished and trainer.epoch_progress is None
    assert remove_times(records) == expected
    assert_equal_weights(trainer.model.state_dict(), uninterrupted.model.state_dict())
    assert_equal_weights(trainer.final_weights(), uninterrupted.final_weights())


def test_epoch_time_includes_the_steps_before_a_pause():
    trainer = make_trainer(replace(PLAIN, batch_size=6), pause=lambda: True)
    assert list(trainer.fit()) == []
    state = trainer.state_dict()
    state["progress"]["seconds"] = 100.0
    resumed = make_trainer(replace(PLAIN, batch_size=6))
    resumed.load_state_dict(state)
    first, second = islice(resumed.fit(), 2)
    assert 100 < first["epoch_seconds"] < 150 and second["epoch_seconds"] < 50
    assert first["images_per_second"] < 24 / 100


@pytest.mark.parametrize(
    "recipe",
    [
        replace(PLAIN, epochs=20, learning_rate=1e-2, flip=False, crop_padding=0),
        replace(CONVNET, epochs=20, learning_rate=5e-2, ema_decay=0.0),
    ],
    ids=lambda recipe: recipe.name,
)
def test_training_reduces_the_loss(recipe):
    records = list(make_trainer(recipe).fit())
    assert records[-1]["train_loss"] < 0.5 * records[0]["train_loss"]
    assert records[-1]["train_accuracy"] > 0.7


def test_validation_loss_is_the_cross_entropy_of_the_ema_model():
    trainer = make_trainer(RICH)
    record = next(trainer.fit())
    logits = predict_logits(trainer.ema.module, trainer.validation.images, trainer.preprocessing)
    loss = torch.nn.functional.cross_entropy(logits, trainer.validation.labels)
    assert record["val_loss"] == pytest.approx(loss.item())


def mock_validation(trainer, losses):
    losses = iter(losses)
    trainer._validate = lambda: (next(losses), 0.5)


def test_early_stopping_keeps_the_best_weights_after_resume():
    recipe = replace(RICH, epochs=9, patience=2)
    first, second, weights = make_trainer(recipe), make_trainer(recipe, seed=9), []
    mock_validation(first, [1.0, 0.5, 0.7])
    for _ in islice(first.fit(), 3):
        weights.append(copy_weights(first.ema_model()))
    second.load_state_dict(save_and_load(first.state_dict()))
    mock_validation(second, [0.8, 0.1])
    assert [record["epoch"] for record in second.fit()] == [4]
    assert second.best.epoch == 2
    assert_equal_weights(second.final_weights(), weights[1])


def test_patience_does_not_end_the_run_in_the_head_stage():
    trainer = make_trainer(replace(RICH, head_epochs=3, epochs=2, patience=1))
    trainer._validate = lambda: (1.0, 0.5)  # never better than after the first epoch
    assert [record["stage"] for record in trainer.fit()] == ["head"] * 3 + ["all"]


def test_final_weights_are_the_last_without_patience():
    trainer = make_trainer(PLAIN)
    mock_validation(trainer, [0.1, 0.5, 0.9])
    list(trainer.fit())
    assert_equal_weights(trainer.final_weights(), trainer.model.state_dict())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_head_stage_trains_only_the_head_and_the_next_everything(optimizer):
    trainer = make_trainer(replace(TWO_STAGE, optimizer=optimizer))
    before, epochs = copy_weights(trainer.model), trainer.fit()

    def changed():
        return {n for n, t in trainer.model.state_dict().items() if not t.equal(before[n])}

    assert [record["stage"] for record in islice(epochs, 2)] == ["head", "head"]
    assert changed() == {"head.weight", "head.bias"}
    assert [record["stage"] for record in epochs] == ["all", "all"]
    assert changed() == before.keys()


def find_groups_by_name(model, optimizer):
    """Return the parameter group of each parameter, by the parameter's name."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    groups = optimizer.param_groups
    return {names[parameter]: group for group in groups for parameter in group["params"]}


@pytest.mark.parametrize(
    ("spec", "optimizer", "layer_decay"),
    [
        *((TINY, optimizer, decay) for optimizer in OPTIMIZERS for decay in (1.0, 0.5)),
        (ModelSpec("resnet18"), "adamw", 1.0),
    ],
    ids=lambda value: getattr(value, "family", value),
)
def test_weight_decay_excludes_biases_norms_and_embeddings(spec, optimizer, layer_decay):
    model = build_model(spec, 4)
    recipe = replace(PLAIN, optimizer=optimizer)
    groups = find_groups_by_name(model, build_optimizer(model, recipe, 1e-3, layer_decay))
    decayed = {name for name, group in groups.items() if group["weight_decay"] > 0}
    matrices = {n for n, p in model.named_parameters() if p.ndim > 1} - {"cls_token", "pos_embed"}
    assert decayed == matrices
    assert groups.keys() == dict(model.named_parameters()).keys()


def test_muon_updates_only_inner_matrices():
    plain, masked = (make_trainer(replace(r, optimizer="muon")) for r in (PLAIN, MASKED))
    muon, fallback = set(), set()
    for trainer in (plain, masked):
        for name, group in find_groups_by_name(trainer.model, trainer.optimizer).items():
            (fallback if group.get("use_fallback") else muon).add(name)
    assert {"blocks.0.attn.qkv.weight", "blocks.1.mlp.fc2.weight", "decoder_embed.weight"} <= muon
    assert {"cls_token", "pos_embed", "head.weight", "mask_token"} <= fallback
    assert {"decoder_pred.weight", "encoder.head.weight"} <= fallback


def test_layer_decay_scales_the_learning_rates_of_lower_layers():
    trainer = make_trainer(replace(PLAIN, layer_decay=0.5))
    rate = trainer._set_learning_rate(0)
    groups = find_groups_by_name(trainer.model, trainer.optimizer)
    names = ("head.weight", "blocks.1.mlp.fc1.weight", "blocks.0.attn.qkv.weight", "pos_embed")
    head, *below = [groups[name]["lr_scale"] for name in names]
    assert head == 1
    assert below == pytest.approx([below[0], below[0] / 2, below[0] / 4])
    assert below[0] < head
    assert all(group["lr"] == pytest.approx(rate * group["lr_scale"]) for group in groups.values())


SCHEDULES = {  # epoch: fraction of the peak, in ten epochs with two of warm-up
    "cosine": {0: 0, 1: 0.5, 2: 1, 6: 0.5, 8: 0.5 - math.sqrt(0.125), 10: 0, 11: 0},
    "linear": {0: 0, 1: 0.5, 2: 1, 4: 0.75, 6: 0.5, 10: 0, 11: 0},
    "constant": {1: 0.5, 2: 1, 10: 1},
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_learning_rate_warms_up_then_follows_its_schedule(schedule):
    recipe, expected = replace(PLAIN, warmup_epochs=2.0, schedule=schedule), SCHEDULES[schedule]
    factors = {epoch: learning_rate_factor(recipe, epoch, 10) for epoch in expected}
    assert factors == pytest.approx(expected, abs=1e-12)


def test_each_stage_has_its_own_peak_and_schedule():
    recipe = replace(PLAIN, head_epochs=1, head_learning_rate=0.5, schedule="constant")
    rates = [record["learning_rate"] for record in make_trainer(recipe).fit()]
    assert rates == [0.5, 3e-3, 3e-3, 3e-3]


def test_ema_includes_batch_norm_statistics():
    recipe = replace(RICH, model=ModelSpec("resnet18", 8), epochs=1, unmixed_epochs=0)
    trainer, means = make_trainer(recipe), []
    update = trainer.ema.update

    def record(model, step):
        means.append(model.bn1.running_mean.clone())
        update(model, step=step)

    trainer.ema.update = record
    list(trainer.fit())
    expected = means[0]
    for step, mean in enumerate(means[1:], 1):
        expected = expected.lerp(mean, (1 + step) ** (-2 / 3))
    assert torch.allclose(trainer.ema.module.bn1.running_mean, expected, atol=1e-6)
    assert trainer.ema.module.bn1.num_batches_tracked == len(means) == 3


def test_progress_is_reported_periodically_and_at_epoch_end(monkeypatch):
    reports = []
    list(make_trainer(on_step=reports.append).fit())
    assert [p.epoch for p in reports if p.step == p.steps] == [1, 2, 3]
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    reports.clear()
    record = next(make_trainer(on_step=reports.append).fit())
    assert [p.step for p in reports] == [1, 2, 3]
    assert all(0 <= p.accuracy <= 1 for p in reports)
    assert reports[-1].loss == pytest.approx(record["train_loss"])  # the mean so far
    assert reports[-1].accuracy == pytest.approx(record["train_accuracy"])


def test_training_set_may_be_smaller_than_a_batch():
    assert len(list(make_trainer(replace(PLAIN, batch_size=1000)).fit())) == 3


@pytest.mark.parametrize("training", [True, False])
def test_predict_uses_eval_mode_and_restores_the_mode(training):
    trainer = make_trainer()
    images, model = make_synthetic_images(4, 3, 16).images, trainer.model.train(training)
    parts = predict_logits(model, images, trainer.preprocessing, batch_size=5)
    assert model.training == training
    with torch.no_grad():
        assert torch.allclose(parts, model.eval()(trainer.preprocessing(images)), atol=1e-6)


def test_missing_device_is_rejected_and_auto_selects_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(VitdemoError, match="device 'cuda' is not available"):
        choose_device("cuda")
    assert choose_device().type == "cpu"


def test_auto_device_ignores_zero_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device().type == "cuda"
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    assert choose_device().type == "cpu"


@pytest.fixture
def traced(monkeypatch):
    """Patch of `torch.compile` without its code generator, which takes a minute."""

    def trace(function, mode):
        fullgraph = not isinstance(function, torch.nn.Module)  # the augmentation is one graph
        return torch.compile(function, backend="aot_eager", dynamic=False, fullgraph=fullgraph)

    monkeypatch.setattr(module, "compile_static", trace)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


# The model has no dropout, because compiled code draws other random numbers.
DETERMINISTIC = replace(TINY, options=SIZES | {"drop_path_rate": 0.0})
COMPILED = replace(RICH, policy="auto", cutout=3, model=DETERMINISTIC)
COMPILED_MASKED = replace(COMPILED, mixup=0.0, cutmix=0.0, mask_ratio=0.5)
COMPILED_RECIPES = {
    "taught": COMPILED,  # without MixUp and CutMix in the last epoch
    "masked": replace(COMPILED_MASKED, policy="none"),  # a policy is slow to compile
    "dropping": replace(COMPILED, policy="none", patch_dropout=0.5),
}


@pytest.mark.filterwarnings("default")  # the compiler warns
@pytest.mark.parametrize("kind", COMPILED_RECIPES)
def test_compiled_run_equals_a_plain_run_and_is_resumable(traced, kind):
    options = {}
    if kind == "taught":
        preprocessing = Preprocessing(16, (0.4,) * 3, (0.2,) * 3)
        options["teacher"] = Teacher(build_model(ModelSpec("resnet18", 16), 4), preprocessing, 0.5)
    plain, second = (make_trainer(COMPILED_RECIPES[kind], seed, **options) for seed in (0, 9))
    first = make_trainer(COMPILED_RECIPES[kind], **options, compile="default")
    expected, epochs = remove_times(plain.fit()), first.fit()
    records = [next(epochs)]
    with torch._dynamo.config.patch(error_on_recompile=True):  # nothing is compiled again
        records.append(next(epochs))
        state = save_and_load(first.state_dict())
        records += epochs
    assert first.compile == "default"  # it did not fall back
    assert state["model"].keys() == plain.state_dict()["model"].keys()
    second.load_state_dict(state)
    records += second.fit()
    for compiled, record in zip(remove_times(records), [*expected, expected[-1]], strict=True):
        for name, value in record.items():  # the stage and missing accuracies are no numbers
            is_number = isinstance(value, float)
            assert compiled[name] == (pytest.approx(value, rel=1e-3) if is_number else value), name


needs_cuda = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="this machine has no CUDA device"
)


@needs_cuda
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize(
    "recipe",
    [COMPILED, replace(COMPILED, model=ModelSpec("resnet18", 16)), COMPILED_MASKED],
    ids=["vit", "resnet18", "masked"],
)
def test_cuda_compilation_gives_the_same_losses(mode, recipe):
    from torch._inductor import cudagraph_trees

    # A new process starts with this state of CUDA graphs.
    cudagraph_trees.MarkStepBox.mark_step_counter = 0
    notes, options = [], {"device": "cuda"}
    plain = make_trainer(recipe, **options)
    compiled = make_trainer(recipe, **options, compile=mode, on_note=notes.append)
    records = list(compiled.fit())
    assert notes == []  # it did not fall back
    # In bfloat16, runs soon differ if few images share BatchNorm's statistics.
    compared = 1 if recipe.model.family == "resnet18" else len(records)
    for ours, theirs in zip(records[:compared], plain.fit(), strict=False):
        assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=0.05)
        assert ours["val_loss"] == pytest.approx(theirs["val_loss"], rel=0.1)


@needs_cuda
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("policy", ["auto", "trivial", "rand"])
def test_cuda_compilation_gives_the_same_augmented_pixels(policy):
    trainer = make_trainer(replace(COMPILED, policy=policy, mixup=0.0, cutmix=0.0), device="cuda")
    trainer._draw_epoch()
    plain, _ = trainer.batches.load(0)
    trainer.batches.augment = compile_static(augment_batch, "default")
    difference = (trainer.batches.load(0)[0] - plain).abs()
    assert difference.max() <= 1  # one grey level, if a quotient is just below an integer
    assert (difference < 0.01).float().mean() > 0.99


@needs_cuda
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("mode", ["off", "default"])
def test_cuda_steps_need_no_synchronisation(mode):
    trainer = make_trainer(COMPILED, device="cuda", compile=mode)
    next(trainer.fit())
    trainer._draw_epoch()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step in range(trainer.steps):
            trainer._set_learning_rate(step)
            trainer._train_step(step)
            trainer.ema.update(trainer.model, step=step + 1)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("spec", [TINY, DEIT], ids=lambda spec: spec.family)
@pytest.mark.parametrize("bfloat16", [True, False])
def test_fused_attention_is_off_in_training_with_bfloat16(monkeypatch, spec, bfloat16):
    monkeypatch.setattr(devices, "supports_fast_bfloat16", lambda device: bfloat16)
    trainer = make_trainer(replace(RICH, model=spec))

    def fused_flags(model):
        return {m.fused_attn for m in model.modules() if hasattr(m, "fused_attn")}

    assert fused_flags(trainer.model) == {not bfloat16}
    assert fused_flags(trainer.ema_model()) == {True}  # it is only evaluated


def test_adamw_rate_of_older_timm_muon_follows_the_schedule():
    trainer = make_trainer(replace(PLAIN, optimizer="muon"))
    for group in trainer.optimizer.param_groups:
        group["adamw_lr"] = 1.0  # constant in timm 1.0.21 to 1.0.26
    rate = trainer._set_learning_rate(0)
    assert rate != 1.0
    assert {group["adamw_lr"] for group in trainer.optimizer.param_groups} == {rate}


def test_half_precision_overflow_is_validated_in_full_precision(monkeypatch):
    trainer, predict = make_trainer(), predict_logits

    def predict_with_overflow(*arguments, use_float16=False):
        return predict(*arguments) + (math.inf if use_float16 else 0)

    expected = trainer._validate()
    monkeypatch.setattr(module, "predict_logits", predict_with_overflow)
    assert trainer._validate() == expected


def test_trial_compilation_leaves_weights_and_gradients_unchanged():
    trainer = make_trainer(replace(PLAIN, model=ModelSpec("resnet18", 8)))
    trainer._forward, before = trainer.model, copy_weights(trainer.model)
    trainer._draw_epoch()
    assert trainer._try_compiled("model", lambda: trainer._compute_loss(0)[0].backward())
    assert_equal_weights(trainer.model.state_dict(), before)
    assert all(parameter.grad is None for parameter in trainer.model.parameters())


@pytest.fixture(scope="module")
def rich_records():
    """Return the records of a run without compilation."""
    return remove_times(make_trainer(RICH).fit())


@pytest.mark.parametrize("failing", [("augmentation",), ("augmentation", "model"), ("model",)])
def test_failed_compilation_is_reported_and_training_continues(monkeypatch, rich_records, failing):
    calls = []

    def fail(function, mode):
        part = "model" if isinstance(function, torch.nn.Module) else "augmentation"

        def compiled(*args):
            calls.append(part)
            if part in failing:
                raise RuntimeError("no C compiler\nat all")
            return function(*args)

        return compiled

    monkeypatch.setattr(module, "compile_static", fail)
    notes = []
    trainer = make_trainer(RICH, compile="default", on_note=notes.append)
    assert remove_times(trainer.fit()) == rich_records
    assert len(notes) == len(failing)
    for note, part in zip(notes, failing, strict=True):
        assert f"on the {part} (RuntimeError: no C compiler)" in note and "without comp" in note
    assert trainer.compile == ("off" if "model" in failing else "default")
    assert calls.count("model") == 1 if "model" in failing else calls.count("model") > 9
    with pytest.warns(UserWarning, match="without compilation"):
        next(make_trainer(RICH, compile="default").fit())


def test_compilation_is_on_by_default_only_on_cuda():
    assert choose_compile_mode(torch.device("cuda")) == "default"
    assert choose_compile_mode(torch.device("cpu")) == "off"
    assert choose_compile_mode(torch.device("cpu"), "reduce-overhead") == "reduce-overhead"


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_processes_split_the_batches_of_a_single_process(alpha):
    recipe = replace(PLAIN, mixup=alpha, cutmix=alpha, policy="auto", erasing=0.5, cutout=3)
    single = make_trainer(recipe)
    parts = [make_trainer(recipe, processes=Processes(rank, 2)) for rank in range(2)]
    for trainer in (single, *parts):
        trainer._draw_epoch()
    for step in range(single.steps):
        inputs, targets = single.batches.load(step)
        shared = [part.batches.load(step) for part in parts]
        assert torch.equal(torch.cat([s[0] for s in shared]), inputs)
        assert torch.equal(torch.cat([s[1] for s in shared]), targets)
    assert parts[0].images_per_process == single.images_per_process / 2 == 4
    with pytest.raises(VitdemoError, match="batch of 8 images cannot be divided evenly among 3"):
        make_trainer(recipe, processes=Processes(0, 3))


CONV_STEM = ModelSpec("vit", options={"embed_dim": 24, "depth": 1, "num_heads": 2, "stem": "conv"})


@pytest.mark.parametrize("model", [ModelSpec("resnet18", 8), CONV_STEM])
def test_convolutions_train_on_channels_last(model):
    trainer = make_trainer(replace(PLAIN, model=model))
    trainer._draw_epoch()
    pixels, _ = trainer.batches.load(0)
    assert trainer._preprocess(pixels).is_contiguous(memory_format=torch.channels_last)
    convolution = next(m for m in trainer.model.modules() if isinstance(m, torch.nn.Conv2d))
    assert convolution.weight.is_contiguous(memory_format=torch.channels_last)


def test_convnet_whitening_is_fitted_to_the_training_images():
    trainer, other = make_trainer(CONVNET), build_model(CONVNET.model, 4).whiten
    fitted = trainer.model.whiten.weight.clone()
    other.fit(trainer.preprocessing(trainer.train.images))
    torch.testing.assert_close(fitted, other.weight)
    next(trainer.fit())
    assert torch.equal(trainer.model.whiten.weight, fitted)


def test_shuffled_labels_affect_only_the_training_set():
    plain, shuffled = make_trainer(), make_trainer(replace(PLAIN, shuffled_labels=True))
    assert torch.equal(shuffled.train.images, plain.train.images)
    assert not torch.equal(shuffled.train.labels, plain.train.labels)
    assert torch.equal(shuffled.train.labels.sort()[0], plain.train.labels.sort()[0])
    assert torch.equal(shuffled.validation.labels, plain.validation.labels)


def test_epochs_have_different_orders_and_alternate_flips():
    trainer = make_trainer(replace(PLAIN, alternating_flip=True, epochs=4))
    orders, mirrored = [], []
    for _ in trainer.fit():
        orders.append(trainer.batches.order.tolist())
        positions = trainer.batches.order[: len(trainer.batches.draws["flip"])].argsort()
        mirrored.append(trainer.batches.draws["flip"][positions])  # by image index
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(24))
    assert 0 < mirrored[0].sum() < len(mirrored[0])
    assert torch.equal(mirrored[1], ~mirrored[0])
    assert torch.equal(mirrored[2], mirrored[0]) and torch.equal(mirrored[3], mirrored[1])


def test_mixup_is_off_in_the_last_epochs():
    trainer = make_trainer(replace(RICH, epochs=3, unmixed_epochs=2))
    mixed = [trainer.batches.mixing_partners is not None for _ in trainer.fit()]
    assert mixed == [True, False, False]


@pytest.mark.parametrize("spec", [TINY, replace(DEIT, image_size=32)], ids=lambda spec: spec.family)
def test_patch_dropout_is_off_in_validation_and_whole_epochs(spec):
    trainer = make_trainer(replace(PATCH_DROPOUT, model=spec))
    tokens, block = [], trainer.model.blocks[0]
    block.register_forward_hook(
        lambda _, inputs, __: tokens.append((block.training, inputs[0].shape[1]))
    )
    patches = trainer.model.patch_embed.num_patches
    for epoch, _ in enumerate(trainer.fit()):
        visible = patches if epoch == 2 else patches // 2
        assert set(tokens) == {(True, 1 + visible), (False, 1 + patches)}
        tokens.clear()


def test_patch_dropout_requires_a_vision_transformer():
    with pytest.raises(VitdemoError, match="needs a Vision Transformer"):
        make_trainer(replace(PATCH_DROPOUT, model=ModelSpec("resnet18", 16)))
