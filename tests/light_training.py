"""Stand-in for train.py that writes the files of a training run without torch, to start fast.

    python light_training.py RECIPE --epochs N ... --out DIR [--resume]

It writes a line of steps.jsonl every hundredth of a second; five lines are an epoch. As train.py
does, it ends with an evaluation, after the last epoch or after SIGUSR1.
"""

import json
import signal
import sys
import time
from pathlib import Path

OUTPUT_FOLDER = Path(sys.argv[sys.argv.index("--out") + 1])
EPOCHS = int(sys.argv[sys.argv.index("--epochs") + 1])
stop_requests = []
signal.signal(signal.SIGUSR1, lambda *_: stop_requests.append(True))


def write_config(config: dict) -> None:
    (OUTPUT_FOLDER / "beside").write_text(json.dumps(config))
    (OUTPUT_FOLDER / "beside").replace(OUTPUT_FOLDER / "config.json")


def main() -> None:
    if EPOCHS == 66:
        print("train.py: The loss is not a number in epoch 1: the training diverged.")
        sys.exit(2)
    config = {"recipe": {"epochs": EPOCHS, "batch_size": 8}, "model": {}, "classes": []}
    config |= {"normalisation": {}, "split": {"train_pictures": 40}}
    history = OUTPUT_FOLDER / "history.jsonl"
    resumed = "--resume" in sys.argv and history.exists()
    done = len(history.read_text().splitlines()) if resumed else 0
    write_config(config)
    for epoch in range(done + 1, EPOCHS + 1):
        for step in range(1, 6):
            time.sleep(0.01)
            line = {"epoch": epoch, "step": step, "steps": 5, "loss": 1.0, "accuracy": 0.5}
            with open(OUTPUT_FOLDER / "steps.jsonl", "a") as file:
                file.write(json.dumps(line | {"seconds": 0.01 * (5 * epoch + step)}) + "\n")
        names = ("train_loss", "train_accuracy", "val_loss", "val_accuracy", "learning_rate")
        times = {"epoch_seconds": 0.05, "images_per_second": 800.0}
        record = {"epoch": epoch, "stage": "all"} | dict.fromkeys(names, 0.5) | times
        with open(history, "a") as file:
            file.write(json.dumps(record) + "\n")
        if stop_requests:
            write_config(config | {"stopped": {"epoch": epoch}})
            break
    (OUTPUT_FOLDER / "evaluation.npz").write_bytes(b"as if")


main()
