"""Measure response times for N simultaneous users who each send a new image every 10 seconds.

    python benchmarks/load.py --users 10 30 50 100

All users have loaded the page before the measurement starts. Each simulated user sends the same
HTTP requests as the page in a browser: it uploads an image, sends a request of the view state for
the image, the predictions and the attention maps, reads the response stream to its end and
downloads the files. The time is from the start of the upload to the last byte of the files. Drawing
is not included; it adds 50 to 100 ms on the user's computer. The processor time is that of the
server, per image. docs/deployment.md has the results.
"""

import argparse
import asyncio
import io
import json
import math
import resource
import sys
import time
import uuid
from pathlib import Path

import httpx
import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.serving import serve  # noqa: E402
from vitdemo import console  # noqa: E402
from vitdemo.page.explore import attention_maps, image_input, predictions  # noqa: E402

IMAGE_INTERVAL = 10  # seconds between two images of a user
RANDOM_IMAGE_SIDE = 1024  # pixels
API_PREFIX = "gradio_api"
VIEWS = [image_input.VIEW, predictions.VIEW, attention_maps.VIEW]


def main() -> None:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--users", type=int, nargs="+", default=[10, 30, 50, 100], help="numbers of users to test"
    )
    parser.add_argument(
        "--seconds", type=float, default=120, help="duration of each test, in seconds"
    )
    parser.add_argument("--same", action="store_true", help="all users send the same images")
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "assets" / "runs", help="folder that contains the runs"
    )
    args = parser.parse_args()
    print("| users | responses | median | p95 | slowest | errors | memory |")
    print("|---|---|---|---|---|---|---|")
    for users in args.users:
        # `by_variable` starts the page as a child of this process, so that its memory is counted.
        with serve("--runs", str(args.runs.resolve()), by_variable=True) as address:
            row, errors = asyncio.run(measure_load(address, users, args.seconds, args.same))
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10  # maximum so far
        print(f"| {row} | {memory:.0f} MB |", flush=True)
        for error in sorted(set(errors))[:5]:
            print(f"  {error}", file=sys.stderr)


async def measure_load(
    address: str, users: int, seconds: float, same: bool
) -> tuple[str, list[str]]:
    """Return the table row for `users` users, except the memory, and the error messages."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
        first = make_random_image(10**6)
        event = await find_request_event(client)
        await SimulatedUser(client, event, 0).send_image(first)  # loads all models
        people = [SimulatedUser(client, event, number) for number in range(users)]
        turns = math.ceil(seconds / IMAGE_INTERVAL)
        # Creating images would slow down the server, so they are created before the measurement.
        made = {
            seed: make_random_image(seed)
            for seed in {p.image_seed(t, same) for p in people for t in range(turns)}
        }
        for person in people:  # the first request of each user creates the session
            await person.send_image(first)
        await asyncio.gather(*(person.send_images(users, turns, same, made) for person in people))
    found = np.array([wait for person in people for wait in person.response_times] or [np.nan])
    errors = [error for person in people for error in person.errors]
    figures = [f"{1000 * value:.0f} ms" for value in np.percentile(found, [50, 95, 100])]
    return " | ".join([str(users), str(len(found)), *figures, str(len(errors))]), errors


async def find_request_event(client: httpx.AsyncClient) -> int:
    """Return the id of the event with which the page requests the data of views."""
    config = (await client.get("config")).json()
    bridge = next(p["id"] for p in config["components"] if p["props"].get("elem_id") == "bridge")
    return next(e["id"] for e in config["dependencies"] if [bridge, "ask"] in e["targets"])


class SimulatedUser:
    """One simulated user: session, response times in seconds, and errors."""

    def __init__(self, client: httpx.AsyncClient, event_id: int, number: int):
        self.client, self.event_id, self.number = client, event_id, number
        self.session_hash = uuid.uuid4().hex
        self.state: dict = {"model": ""}
        self.response_times: list[float] = []
        self.errors: list[str] = []

    def image_seed(self, turn: int, same: bool) -> int:
        return turn if same else 1000 * self.number + turn

    async def send_images(
        self, users: int, turns: int, same: bool, images: dict[int, bytes]
    ) -> None:
        # Users start evenly spread over an interval.
        begin = time.monotonic() + IMAGE_INTERVAL * self.number / users
        for turn in range(turns):
            await asyncio.sleep(max(0.0, begin + IMAGE_INTERVAL * turn - time.monotonic()))
            started = time.monotonic()
            try:
                await self.send_image(images[self.image_seed(turn, same)])
                self.response_times.append(time.monotonic() - started)
            except (httpx.HTTPError, RuntimeError) as error:
                self.errors.append(f"{type(error).__name__}: {error}")

    async def send_image(self, content: bytes) -> None:
        """Send a new image and download the files of its views. Raises `RuntimeError`."""
        files = {"files": ("picture.jpg", content, "image/jpeg")}
        (path,) = (
            (await self.client.post(f"{API_PREFIX}/upload", files=files)).raise_for_status().json()
        )
        self.state["image"] = {"source": "own", "path": path, "at": 0.5}
        answer = await self.request_views()
        if answer["models"]:  # the first response names the models
            self.state["models"] = answer["models"]["stamp"]
            self.state["model"] = answer["models"]["groups"][0][1][0]
            answer = await self.request_views()
        errors = [view["error"] for view in answer["views"].values() if "error" in view]
        if errors:
            raise RuntimeError(errors[0])
        for file in collect_files(answer):
            (await self.client.get(f"{API_PREFIX}/file={file}")).raise_for_status()

    async def request_views(self) -> dict:
        """Request the data of `VIEWS` for the view state. Raises `RuntimeError` if this fails."""
        body = {
            "data": [],
            "fn_index": self.event_id,
            "event_data": {"id": 1, "state": self.state, "views": dict.fromkeys(VIEWS, "")},
            "session_hash": self.session_hash,
        }
        joined = (await self.client.post(f"{API_PREFIX}/queue/join", json=body)).raise_for_status()
        (answer,) = await self.read_response(joined.json()["event_id"])
        return {**json.loads(answer["text"]), "files": answer["files"]}

    async def read_response(self, event: str) -> list:
        address = f"{API_PREFIX}/queue/data?session_hash={self.session_hash}"
        async with self.client.stream("GET", address) as stream:
            async for line in stream.aiter_lines():
                message = json.loads(line[5:]) if line.startswith("data:") else {}
                if message.get("msg") == "process_completed" and message["event_id"] == event:
                    if not message["success"]:
                        raise RuntimeError(str(message["output"].get("error")))
                    return message["output"]["data"]
        raise RuntimeError("the stream ended without a response")


def collect_files(value) -> list[str]:
    """Return the files that a response refers to, which the browser would download."""
    if isinstance(value, dict):
        if isinstance(value.get("path"), str):
            return [value["path"]]
        value = list(value.values())
    items = value if isinstance(value, list) else []
    return [file for item in items for file in collect_files(item)]


def make_random_image(seed: int) -> bytes:
    """Return a random JPEG image, so that no cache contains its predictions."""
    random = np.random.default_rng(seed)
    small = Image.fromarray(random.integers(0, 256, (16, 16, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    small.resize((RANDOM_IMAGE_SIDE, RANDOM_IMAGE_SIDE), Image.Resampling.BICUBIC).save(
        buffer, "JPEG", quality=90
    )
    return buffer.getvalue()


if __name__ == "__main__":
    main()
