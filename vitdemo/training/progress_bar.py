"""Terminal output of a training run: a progress bar and one line per epoch."""

from tqdm import tqdm

from vitdemo.training.trainer import StepProgress, Trainer


def format_epoch_line(record: dict) -> str:
    accuracy = record["val_accuracy"]
    accuracy_text = "" if accuracy is None else f"validation accuracy {100 * accuracy:.2f}%  "
    return (
        f"epoch {record['epoch']:3d}  loss {record['train_loss']:.4f}  "
        f"validation loss {record['val_loss']:.4f}  {accuracy_text}"
        f"{record['epoch_seconds']:.0f} s  {record['images_per_second']:.0f} images/s"
    )


def create_progress_bar(trainer: Trainer) -> tqdm:
    """Return a progress bar over the images of all epochs; the trainer's `on_step` updates it."""
    epoch_images = trainer.steps * trainer.batch_size
    bar = tqdm(
        total=trainer.recipe.total_epochs * epoch_images,
        initial=trainer.epoch * epoch_images,
        unit="img",
        unit_scale=True,
        dynamic_ncols=True,
        disable=not trainer.processes.is_first,
    )
    trainer.on_step = lambda progress: update_progress_bar(bar, progress, trainer)
    return bar


def update_progress_bar(bar: tqdm, progress: StepProgress, trainer: Trainer) -> None:
    done = (progress.epoch - 1) * progress.steps + progress.step
    bar.set_description(f"epoch {progress.epoch}/{trainer.recipe.total_epochs}", refresh=False)
    accuracy = {} if trainer.recipe.mask_ratio else {"accuracy": f"{100 * progress.accuracy:.1f}%"}
    bar.set_postfix(loss=f"{progress.loss:.3f}", **accuracy, refresh=False)
    bar.update(done * trainer.batch_size - bar.n)
