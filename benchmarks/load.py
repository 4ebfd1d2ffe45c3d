"""How long a class waits: N people, each with a new picture every 10 seconds, on one page.

    python benchmarks/load.py --users 10 30 50 100

All are on the page when the clock starts. Each speaks HTTP as the page in a browser does: uploads a
picture of its own, asks for it (the event of the picture component, with the values that its
controls start with), reads the stream until the answer is whole and fetches the attention. The
times are from the upload's begin to the attention's last byte. Nobody draws: a browser adds its own
50 to 100 ms on its own machine. docs/how-fast.md states what it measured.
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

from tests.serving import serve  # noqa: E402
from vitdemo import console  # noqa: E402

EVERY = 10  # seconds from one picture of a person to the next
SIDE = 1024  # of each picture, in pixels
API = "gradio_api"


def main() -> None:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, nargs="+", default=[10, 30, 50, 100])
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--same", action="store_true", help="all look at one picture at a time")
    parser.add_argument("--runs", type=Path, default=ROOT / "assets" / "runs")
    args = parser.parse_args()
    print("| users | answers | median | p95 | slowest | errors | memory |")
    print("|---|---|---|---|---|---|---|")
    for users in args.users:
        # As a person starts it: a child of this process, whose memory is counted.
        with serve("--runs", str(args.runs.resolve()), by_variable=True) as address:
            row, errors = asyncio.run(measure(address, users, args.seconds, args.same))
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10  # of any page yet
        print(f"| {row} | {memory:.0f} MB |", flush=True)
        for error in sorted(set(errors))[:5]:
            print(f"  {error}", file=sys.stderr)


async def measure(address: str, users: int, seconds: float, same: bool) -> tuple[str, list[str]]:
    """The row of `users` people but for the memory, and what went wrong."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
        first = picture(10**6)
        await Person(client, await question(client), 0).ask(first)  # all models are loaded
        asked = await question(client)
        people = [Person(client, asked, number) for number in range(users)]
        turns = math.ceil(seconds / EVERY)
        # Made before the clock starts: in a class nobody draws them on the server's cores.
        made = {
            seed: picture(seed) for seed in {p.seed(t, same) for p in people for t in range(turns)}
        }
        for person in people:  # who is on the page has asked before: that makes their session
            await person.ask(first)
        await asyncio.gather(*(person.visit(users, turns, same, made) for person in people))
    found = np.array([wait for person in people for wait in person.waits] or [np.nan])
    errors = [error for person in people for error in person.errors]
    figures = [f"{1000 * value:.0f} ms" for value in np.percentile(found, [50, 95, 100])]
    return " | ".join([str(users), str(len(found)), *figures, str(len(errors))]), errors


async def question(client: httpx.AsyncClient) -> tuple[int, list]:
    """The number of the event that a new picture is, and the values that go with it."""
    config = (await client.get("config")).json()
    parts = {part["id"]: part for part in config["components"]}
    picture = next(i for i, p in parts.items() if p["props"].get("elem_id") == "picture")
    for event in config["dependencies"]:
        if any(target == picture for target, _ in event["targets"]):
            values = [parts[i]["props"].get("value") for i in event["inputs"]]
            return event["id"], [None if parts[i]["type"] == "state" else v
                                 for i, v in zip(event["inputs"], values, strict=True)]  # fmt: skip
    raise RuntimeError("this page has no event of the picture")


class Person:
    """One visit: its session, its waits in seconds, and what went wrong."""

    def __init__(self, client: httpx.AsyncClient, asked: tuple[int, list], number: int):
        self.client, self.number = client, number
        self.event, self.values = asked
        self.session = uuid.uuid4().hex
        self.waits: list[float] = []
        self.errors: list[str] = []

    def seed(self, turn: int, same: bool) -> int:
        return turn if same else 1000 * self.number + turn

    async def visit(self, users: int, turns: int, same: bool, made: dict[int, bytes]) -> None:
        begin = time.monotonic() + EVERY * self.number / users  # not all at the same moment
        for turn in range(turns):
            await asyncio.sleep(max(0.0, begin + EVERY * turn - time.monotonic()))
            started = time.monotonic()
            try:
                await self.ask(made[self.seed(turn, same)])
                self.waits.append(time.monotonic() - started)
            except (httpx.HTTPError, RuntimeError) as error:
                self.errors.append(f"{type(error).__name__}: {error}")

    async def ask(self, content: bytes) -> None:
        """A new picture, until its attention is here. Raises `RuntimeError` for a refusal."""
        files = {"files": ("picture.jpg", content, "image/jpeg")}
        (path,) = (await self.client.post(f"{API}/upload", files=files)).raise_for_status().json()
        body = {
            "data": self.values,
            "fn_index": self.event,
            "event_data": {"source": "own", "path": path, "at": 0.5},
            "session_hash": self.session,
        }
        joined = (await self.client.post(f"{API}/queue/join", json=body)).raise_for_status()
        output = await self.answer(joined.json()["event_id"])
        for file in files_of(output):
            (await self.client.get(f"{API}/file={file}")).raise_for_status()

    async def answer(self, event: str) -> list:
        address = f"{API}/queue/data?session_hash={self.session}"
        async with self.client.stream("GET", address) as stream:
            async for line in stream.aiter_lines():
                message = json.loads(line[5:]) if line.startswith("data:") else {}
                if message.get("msg") == "process_completed" and message["event_id"] == event:
                    if not message["success"]:
                        raise RuntimeError(str(message["output"].get("error")))
                    return message["output"]["data"]
        raise RuntimeError("the stream ended without an answer")


def files_of(value) -> list[str]:
    """The files that an answer names: what the browser draws from."""
    if isinstance(value, dict):
        if isinstance(value.get("path"), str):
            return [value["path"]]
        value = list(value.values())
    return [file for item in value for file in files_of(item)] if isinstance(value, list) else []


def picture(seed: int) -> bytes:
    """A JPEG that nobody has asked about before."""
    random = np.random.default_rng(seed)
    small = Image.fromarray(random.integers(0, 256, (16, 16, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    small.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


if __name__ == "__main__":
    main()
