"""Training: an interruption changes nothing, and every parameter moves as its recipe says."""

import io
import math
import time
from dataclasses import replace
from itertools import islice

import pytest
import torch

from vitdemo import training
from vitdemo.data import synthetic
from vitdemo.errors import VitdemoError
from vitdemo.models import ModelSpec, build_model
from vitdemo.recipes import OPTIMIZERS, Recipe
from vitdemo.runs import RECORD_FIELDS
from vitdemo.training import Preprocessing, Processes, Teacher, pick_device, predict
from vitdemo.training.pretraining import make_trainer as new_trainer

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
DROPPING = replace(PLAIN, name="dropping", patch_dropout=0.5, whole_epochs=1)
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
    train, validation = synthetic(4, 6, 16), synthetic(4, 2, 16, seed=1)
    return new_trainer(model, recipe, train, validation, num_classes=4, **options)


def through_disk(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def untimed(records):
    return [{k: r[k] for k in RECORD_FIELDS[:-2]} for r in records]


def copied(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.parametrize(
    ("recipe", "stops", "optimizer"),
    [
        (RICH, (0, 1, 2), "adamw"),
        (TWO_STAGE, (1, 2, 3), "adamw"),
        (TWO_STAGE, (2, 3), "sgd"),
        (TWO_STAGE, (2, 3), "muon"),
        (DROPPING, (1, 2), "adamw"),
        (MASKED, (1,), "adamw"),
        (CONVNET, (1,), "muon"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_an_interrupted_run_ends_where_a_whole_one_does(recipe, stops, optimizer):
    recipe = replace(recipe, optimizer=optimizer)
    whole = make_trainer(recipe)
    expected = untimed(whole.fit())
    for stop in stops:
        first, second = make_trainer(recipe), make_trainer(recipe, seed=9)
        records = list(islice(first.fit(), stop))
        second.load_state_dict(through_disk(first.state_dict()))
        assert untimed(records + list(second.fit())) == expected
        assert_same(second.model.state_dict(), whole.model.state_dict())
        assert_same(second.final_weights(), whole.final_weights())


@pytest.mark.parametrize(
    "recipe",
    [
        replace(PLAIN, epochs=20, learning_rate=1e-2, flip=False, crop_padding=0),
        replace(CONVNET, epochs=20, learning_rate=5e-2, ema_decay=0.0),
    ],
    ids=lambda recipe: recipe.name,
)
def test_loss_falls(recipe):
    records = list(make_trainer(recipe).fit())
    assert records[-1]["train_loss"] < 0.5 * records[0]["train_loss"]
    assert records[-1]["train_accuracy"] > 0.7


def test_validation_is_plain_cross_entropy_of_the_averaged_model():
    trainer = make_trainer(RICH)
    record = next(trainer.fit())
    logits = predict(trainer.ema.module, trainer.validation.images, trainer.preprocessing)
    loss = torch.nn.functional.cross_entropy(logits, trainer.validation.labels)
    assert record["val_loss"] == pytest.approx(loss.item())


def script_validation(trainer, losses):
    losses = iter(losses)
    trainer._validate = lambda: (next(losses), 0.5)


def test_stopping_early_keeps_the_best_weights_and_remembers_them_across_an_interruption():
    recipe = replace(RICH, epochs=9, patience=2)
    first, second, weights = make_trainer(recipe), make_trainer(recipe, seed=9), []
    script_validation(first, [1.0, 0.5, 0.7])
    for _ in islice(first.fit(), 3):
        weights.append(copied(first.averaged_model()))
    second.load_state_dict(through_disk(first.state_dict()))
    script_validation(second, [0.8, 0.1])
    assert [record["epoch"] for record in second.fit()] == [4]
    assert second.best.epoch == 2
    assert_same(second.final_weights(), weights[1])


def test_a_stalled_head_does_not_end_the_run():
    trainer = make_trainer(replace(RICH, head_epochs=3, epochs=2, patience=1))
    trainer._validate = lambda: (1.0, 0.5)  # never better than after the first epoch
    assert [record["stage"] for record in trainer.fit()] == ["head"] * 3 + ["all"]


def test_without_patience_the_last_weights_ship():
    trainer = make_trainer(PLAIN)
    script_validation(trainer, [0.1, 0.5, 0.9])
    list(trainer.fit())
    assert_same(trainer.final_weights(), trainer.model.state_dict())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_head_stage_moves_the_head_alone_and_the_second_everything(optimizer):
    trainer = make_trainer(replace(TWO_STAGE, optimizer=optimizer))
    before, epochs = copied(trainer.model), trainer.fit()

    def moved():
        return {n for n, t in trainer.model.state_dict().items() if not t.equal(before[n])}

    assert [record["stage"] for record in islice(epochs, 2)] == ["head", "head"]
    assert moved() == {"head.weight", "head.bias"}
    assert [record["stage"] for record in epochs] == ["all", "all"]
    assert moved() == before.keys()


def by_name(model, optimizer):
    """The group of the optimizer in which each parameter is."""
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
def test_decay_spares_biases_norms_class_token_and_positions(spec, optimizer, layer_decay):
    model = build_model(spec, 4)
    recipe = replace(PLAIN, optimizer=optimizer)
    groups = by_name(model, training.build_optimizer(model, recipe, 1e-3, layer_decay))
    decayed = {name for name, group in groups.items() if group["weight_decay"] > 0}
    matrices = {n for n, p in model.named_parameters() if p.ndim > 1} - {"cls_token", "pos_embed"}
    assert decayed == matrices
    assert groups.keys() == dict(model.named_parameters()).keys()


def test_muon_turns_inner_matrices_alone():
    plain, masked = (make_trainer(replace(r, optimizer="muon")) for r in (PLAIN, MASKED))
    turned, others = set(), set()
    for trainer in (plain, masked):
        for name, group in by_name(trainer.model, trainer.optimizer).items():
            (others if group.get("use_fallback") else turned).add(name)
    assert {"blocks.0.attn.qkv.weight", "blocks.1.mlp.fc2.weight", "decoder_embed.weight"} <= turned
    assert {"cls_token", "pos_embed", "head.weight", "mask_token"} <= others
    assert {"decoder_pred.weight", "encoder.head.weight"} <= others


def test_layer_decay_slows_the_lower_layers_and_the_schedule_keeps_them_apart():
    trainer = make_trainer(replace(PLAIN, layer_decay=0.5))
    rate = trainer._set_learning_rate(0)
    groups = by_name(trainer.model, trainer.optimizer)
    names = ("head.weight", "blocks.1.mlp.fc1.weight", "blocks.0.attn.qkv.weight", "pos_embed")
    head, *below = [groups[name]["lr_scale"] for name in names]
    assert head == 1
    assert below == pytest.approx([below[0], below[0] / 2, below[0] / 4])
    assert below[0] < head
    assert all(group["lr"] == pytest.approx(rate * group["lr_scale"]) for group in groups.values())


SCHEDULES = {  # epoch of ten, two of them to warm up: share of the peak
    "cosine": {0: 0, 1: 0.5, 2: 1, 6: 0.5, 8: 0.5 - math.sqrt(0.125), 10: 0, 11: 0},
    "linear": {0: 0, 1: 0.5, 2: 1, 4: 0.75, 6: 0.5, 10: 0, 11: 0},
    "constant": {1: 0.5, 2: 1, 10: 1},
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_learning_rate_warms_up_then_follows_its_schedule(schedule):
    recipe, wanted = replace(PLAIN, warmup_epochs=2.0, schedule=schedule), SCHEDULES[schedule]
    found = {epoch: training.learning_rate_factor(recipe, epoch, 10) for epoch in wanted}
    assert found == pytest.approx(wanted, abs=1e-12)


def test_each_stage_has_its_own_peak_and_schedule():
    recipe = replace(PLAIN, head_epochs=1, head_learning_rate=0.5, schedule="constant")
    rates = [record["learning_rate"] for record in make_trainer(recipe).fit()]
    assert rates == [0.5, 3e-3, 3e-3, 3e-3]


def test_the_average_holds_batch_norms_statistics_too():
    recipe = replace(RICH, model=ModelSpec("resnet18", 8), epochs=1, unmixed_epochs=0)
    trainer, seen = make_trainer(recipe), []
    update = trainer.ema.update

    def watch(model, step):
        seen.append(model.bn1.running_mean.clone())
        update(model, step=step)

    trainer.ema.update = watch
    list(trainer.fit())
    expected = seen[0]
    for step, mean in enumerate(seen[1:], 1):
        expected = expected.lerp(mean, (1 + step) ** (-2 / 3))
    assert torch.allclose(trainer.ema.module.bn1.running_mean, expected, atol=1e-6)
    assert trainer.ema.module.bn1.num_batches_tracked == len(seen) == 3


def test_progress_is_told_in_time_and_at_the_end_of_each_epoch(monkeypatch):
    seen = []
    list(make_trainer(on_step=seen.append).fit())
    assert [p.epoch for p in seen if p.step == p.steps] == [1, 2, 3]
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    seen.clear()
    record = next(make_trainer(on_step=seen.append).fit())
    assert [p.step for p in seen] == [1, 2, 3]
    assert all(0 <= p.accuracy <= 1 for p in seen)
    assert seen[-1].loss == pytest.approx(record["train_loss"])  # the mean so far
    assert seen[-1].accuracy == pytest.approx(record["train_accuracy"])


def test_fewer_pictures_than_a_batch_still_train():
    assert len(list(make_trainer(replace(PLAIN, batch_size=1000)).fit())) == 3


@pytest.mark.parametrize("training", [True, False])
def test_predict_leaves_the_mode_as_found_and_evaluates(training):
    trainer = make_trainer()
    images, model = synthetic(4, 3, 16).images, trainer.model.train(training)
    parts = predict(model, images, trainer.preprocessing, batch_size=5)
    assert model.training == training
    with torch.no_grad():
        assert torch.allclose(parts, model.eval()(trainer.preprocessing(images)), atol=1e-6)


def test_a_device_that_is_not_there_is_refused_and_auto_goes_on(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(VitdemoError, match="device 'cuda' is not available"):
        pick_device("cuda")
    assert pick_device().type == "cpu"


def test_a_gpu_that_is_there_in_name_alone_is_not_chosen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device().type == "cuda"
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    assert pick_device().type == "cpu"


@pytest.fixture
def traced(monkeypatch):
    """torch.compile without its code generator, which takes a minute."""

    def trace(function, mode):
        whole = not isinstance(function, torch.nn.Module)  # the augmentation is one graph
        return torch.compile(function, backend="aot_eager", dynamic=False, fullgraph=whole)

    monkeypatch.setattr(training, "compiled", trace)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


# Nothing is left to chance in the model, since a compiler draws in its own way.
CERTAIN = replace(TINY, options=SIZES | {"drop_path_rate": 0.0})
COMPILED = replace(RICH, policy="auto", cutout=3, model=CERTAIN)
COMPILED_MASKED = replace(COMPILED, mixup=0.0, cutmix=0.0, mask_ratio=0.5)
COMPILABLE = {
    "taught": COMPILED,  # like the last, with mixing that rests in the last epoch
    "masked": replace(COMPILED_MASKED, policy="none"),  # whose operations take the longest
    "dropping": replace(COMPILED, policy="none", patch_dropout=0.5),
}


@pytest.mark.filterwarnings("default")  # of the compiler's own making
@pytest.mark.parametrize("kind", COMPILABLE)
def test_a_compiled_training_is_the_same_and_a_plain_one_goes_on_from_it(traced, kind):
    options = {}
    if kind == "taught":
        preprocessing = Preprocessing(16, (0.4,) * 3, (0.2,) * 3)
        options["teacher"] = Teacher(build_model(ModelSpec("resnet18", 16), 4), preprocessing, 0.5)
    plain, second = (make_trainer(COMPILABLE[kind], seed, **options) for seed in (0, 9))
    first = make_trainer(COMPILABLE[kind], **options, compile="default")
    wanted, epochs = untimed(plain.fit()), first.fit()
    records = [next(epochs)]
    with torch._dynamo.config.patch(error_on_recompile=True):  # nothing is compiled again
        records.append(next(epochs))
        state = through_disk(first.state_dict())
        records += epochs
    assert first.compile == "default"  # it did not fall back
    assert state["model"].keys() == plain.state_dict()["model"].keys()
    second.load_state_dict(state)
    records += second.fit()
    for found, record in zip(untimed(records), [*wanted, wanted[-1]], strict=True):
        for name, value in record.items():  # the stage, and None without labels, are no numbers
            number = isinstance(value, float)
            assert found[name] == (pytest.approx(value, rel=1e-3) if number else value), name


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
def test_cuda_compiles_the_same_training(mode, recipe):
    from torch._inductor import cudagraph_trees

    # As in a fresh process, where CUDA graphs have not been told of a step yet.
    cudagraph_trees.MarkStepBox.mark_step_counter = 0
    notes, options = [], {"device": "cuda"}
    plain = make_trainer(recipe, **options)
    compiled = make_trainer(recipe, **options, compile=mode, on_note=notes.append)
    records = list(compiled.fit())
    assert notes == []  # it did not fall back
    # bfloat16; and where few pictures share BatchNorm's statistics, trainings soon differ.
    compared = 1 if recipe.model.family == "resnet18" else len(records)
    for ours, theirs in zip(records[:compared], plain.fit(), strict=False):
        assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=0.05)
        assert ours["val_loss"] == pytest.approx(theirs["val_loss"], rel=0.1)


@needs_cuda
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("policy", ["auto", "trivial", "rand"])
def test_cuda_compiles_the_same_pixels(policy):
    trainer = make_trainer(replace(COMPILED, policy=policy, mixup=0.0, cutmix=0.0), device="cuda")
    trainer._draw_epoch()
    plain, _ = trainer._batch(0)
    trainer._augment = training.compiled(training.augment, "default")
    apart = (trainer._batch(0)[0] - plain).abs()
    assert apart.max() <= 1  # a grey level, where a quotient is a hair below a whole number
    assert (apart < 0.01).float().mean() > 0.99


@needs_cuda
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("mode", ["off", "default"])
def test_cuda_steps_wait_for_nothing(mode):
    trainer = make_trainer(COMPILED, device="cuda", compile=mode)
    next(trainer.fit())
    trainer._draw_epoch()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step in range(trainer.steps):
            trainer._set_learning_rate(step)
            trainer._step(step)
            trainer.ema.update(trainer.model, step=step + 1)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("spec", [TINY, DEIT], ids=lambda spec: spec.family)
@pytest.mark.parametrize("bfloat16", [True, False])
def test_attention_is_written_out_where_its_kernel_is_slow(monkeypatch, spec, bfloat16):
    monkeypatch.setattr(training.devices, "autocast_helps", lambda device: bfloat16)
    trainer = make_trainer(replace(RICH, model=spec))

    def fused(model):
        return {m.fused_attn for m in model.modules() if hasattr(m, "fused_attn")}

    assert fused(trainer.model) == {not bfloat16}
    assert fused(trainer.averaged_model()) == {True}  # it only answers


def test_the_second_rate_of_an_older_timms_muon_follows_the_schedule():
    trainer = make_trainer(replace(PLAIN, optimizer="muon"))
    for group in trainer.optimizer.param_groups:
        group["adamw_lr"] = 1.0  # timm 1.0.21 to 1.0.26: the peak, for ever
    rate = trainer._set_learning_rate(0)
    assert rate != 1.0
    assert {group["adamw_lr"] for group in trainer.optimizer.param_groups} == {rate}


def test_an_overflow_of_half_precision_is_validated_again(monkeypatch):
    trainer, whole = make_trainer(), training.predict

    def overflowing(*arguments, half=False):
        return whole(*arguments) + (math.inf if half else 0)

    wanted = trainer._validate()
    monkeypatch.setattr(training, "predict", overflowing)
    assert trainer._validate() == wanted


def test_the_compilers_rehearsal_leaves_no_trace():
    trainer = make_trainer(replace(PLAIN, model=ModelSpec("resnet18", 8)))
    trainer._forward, before = trainer.model, copied(trainer.model)
    trainer._draw_epoch()
    assert trainer._rehearse("model", lambda: trainer._loss(0)[0].backward())
    assert_same(trainer.model.state_dict(), before)
    assert all(parameter.grad is None for parameter in trainer.model.parameters())


@pytest.mark.parametrize("failing", [("augmentation",), ("augmentation", "model"), ("model",)])
def test_a_failing_compiler_is_named_and_the_training_goes_on(monkeypatch, failing):
    calls = []

    def fail(function, mode):
        what = "model" if isinstance(function, torch.nn.Module) else "augmentation"

        def compiled(*args):
            calls.append(what)
            if what in failing:
                raise RuntimeError("no C compiler\nat all")
            return function(*args)

        return compiled

    monkeypatch.setattr(training, "compiled", fail)
    notes, expected = [], untimed(make_trainer(RICH).fit())
    trainer = make_trainer(RICH, compile="default", on_note=notes.append)
    assert untimed(trainer.fit()) == expected
    assert len(notes) == len(failing)
    for note, what in zip(notes, failing, strict=True):
        assert f"on the {what} (RuntimeError: no C compiler)" in note and "without comp" in note
    assert trainer.compile == ("off" if "model" in failing else "default")
    assert calls.count("model") == 1 if "model" in failing else calls.count("model") > 9
    with pytest.warns(UserWarning, match="without compilation"):
        next(make_trainer(RICH, compile="default").fit())


def test_only_cuda_compiles_by_itself():
    assert training.choose_compile(torch.device("cuda")) == "default"
    assert training.choose_compile(torch.device("cpu")) == "off"
    assert training.choose_compile(torch.device("cpu"), "reduce-overhead") == "reduce-overhead"


@pytest.mark.parametrize("mixed", [0.0, 0.5])
def test_processes_see_between_them_what_one_sees(mixed):
    recipe = replace(PLAIN, mixup=mixed, cutmix=mixed, policy="auto", erasing=0.5, cutout=3)
    whole = make_trainer(recipe)
    parts = [make_trainer(recipe, processes=Processes(rank, 2)) for rank in range(2)]
    for trainer in (whole, *parts):
        trainer._draw_epoch()
    for step in range(whole.steps):
        inputs, targets = whole._batch(step)
        shared = [part._batch(step) for part in parts]
        assert torch.equal(torch.cat([s[0] for s in shared]), inputs)
        assert torch.equal(torch.cat([s[1] for s in shared]), targets)
    assert parts[0].share == whole.share / 2 == 4
    with pytest.raises(VitdemoError, match="batch of 8 images cannot be divided evenly among 3"):
        make_trainer(recipe, processes=Processes(0, 3))


CONV_STEM = ModelSpec("vit", options={"embed_dim": 24, "depth": 1, "num_heads": 2, "stem": "conv"})


@pytest.mark.parametrize("model", [ModelSpec("resnet18", 8), CONV_STEM])
def test_convolutions_train_on_channels_last(model):
    trainer = make_trainer(replace(PLAIN, model=model))
    trainer._draw_epoch()
    pixels, _ = trainer._batch(0)
    assert trainer._inputs(pixels).is_contiguous(memory_format=torch.channels_last)
    convolution = next(m for m in trainer.model.modules() if isinstance(m, torch.nn.Conv2d))
    assert convolution.weight.is_contiguous(memory_format=torch.channels_last)


def test_the_convnet_is_whitened_by_its_training_pictures():
    trainer, other = make_trainer(CONVNET), build_model(CONVNET.model, 4).whiten
    fitted = trainer.model.whiten.weight.clone()
    other.fit(trainer.preprocessing(trainer.train.images))
    torch.testing.assert_close(fitted, other.weight)
    next(trainer.fit())
    assert torch.equal(trainer.model.whiten.weight, fitted)


def test_shuffled_labels_are_learnt_of_the_training_pictures_alone():
    plain, shuffled = make_trainer(), make_trainer(replace(PLAIN, shuffled_labels=True))
    assert torch.equal(shuffled.train.images, plain.train.images)
    assert not torch.equal(shuffled.train.labels, plain.train.labels)
    assert torch.equal(shuffled.train.labels.sort()[0], plain.train.labels.sort()[0])
    assert torch.equal(shuffled.validation.labels, plain.validation.labels)


def test_each_epoch_has_its_order_and_mirrors_what_the_one_before_did_not():
    trainer = make_trainer(replace(PLAIN, alternating_flip=True, epochs=4))
    orders, mirrored = [], []
    for _ in trainer.fit():
        orders.append(trainer.order.tolist())
        places = trainer.order[: len(trainer.draws["flip"])].argsort()
        mirrored.append(trainer.draws["flip"][places])  # of each picture in turn
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(24))
    assert 0 < mirrored[0].sum() < len(mirrored[0])
    assert torch.equal(mirrored[1], ~mirrored[0])
    assert torch.equal(mirrored[2], mirrored[0]) and torch.equal(mirrored[3], mirrored[1])


def test_mixing_rests_for_the_last_epochs():
    trainer = make_trainer(replace(RICH, epochs=3, unmixed_epochs=2))
    assert [trainer.partners is not None for _ in trainer.fit()] == [True, False, False]


@pytest.mark.parametrize("spec", [TINY, replace(DEIT, image_size=32)], ids=lambda spec: spec.family)
def test_patches_are_dropped_in_training_alone_and_not_in_the_whole_epochs(spec):
    trainer = make_trainer(replace(DROPPING, model=spec))
    tokens, block = [], trainer.model.blocks[0]
    block.register_forward_hook(
        lambda _, inputs, __: tokens.append((block.training, inputs[0].shape[1]))
    )
    patches = trainer.model.patch_embed.num_patches
    for epoch, _ in enumerate(trainer.fit()):
        kept = patches if epoch == 2 else patches // 2
        assert set(tokens) == {(True, 1 + kept), (False, 1 + patches)}
        tokens.clear()


def test_patches_are_dropped_where_there_are_any():
    with pytest.raises(VitdemoError, match="needs a Vision Transformer"):
        make_trainer(replace(DROPPING, model=ModelSpec("resnet18", 16)))
