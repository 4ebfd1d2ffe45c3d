"""Check that memory does not grow over thousands of requests from a few users.

    python benchmarks/soak.py --questions 5000

The memory is the resident set of the server, measured every second. Its median over 500 requests is
reported, because it varies by 100 MB during requests. The first 500 requests fill the cache of
predictions (512 MB), so growth is measured from the second 500.
benchmarks/log/2026-11-24-cpu.md has results.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from load import SimulatedUser, find_image_event, make_random_image  # noqa: E402

from tests.support.serving import serve  # noqa: E402

NUM_USERS = 8  # simulated users
REQUESTS_PER_MEDIAN = 500  # requests per reported median


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--questions",
        type=int,
        default=5000,
        help=f"number of requests, a multiple of {REQUESTS_PER_MEDIAN}",
    )
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "assets" / "runs", help="folder that contains the runs"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        folder = {"GRADIO_TEMP_DIR": cache}
        with serve("--runs", str(args.runs.resolve()), variables=folder) as address:
            asyncio.run(measure_memory_growth(address, args.questions))
        files = [file for file in Path(cache).rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files) / 1e6
        print(f"gradio's cache: {len(files):,} files, {size:.0f} MB (files are kept for an hour)")


async def measure_memory_growth(address: str, questions: int) -> None:
    """Print the memory after each block of requests, and its growth after the second block."""
    async with httpx.AsyncClient(base_url=address, timeout=120) as client:
        asked = await find_image_event(client)
        people = [SimulatedUser(client, asked, number) for number in range(NUM_USERS)]
        seeds, started = iter(range(questions)), time.monotonic()
        done, samples, levels = 0, [], {}

        async def watch() -> None:
            while done < questions:
                samples.append(read_server_memory())
                await asyncio.sleep(1)

        async def visit(person: SimulatedUser) -> None:
            nonlocal done
            for seed in seeds:
                await person.send_image(await asyncio.to_thread(make_random_image, seed))
                done += 1
                if done % REQUESTS_PER_MEDIAN == 0:
                    levels[done] = statistics.median(samples)
                    samples.clear()
                    seconds = time.monotonic() - started
                    print(f"{done:,} requests: {levels[done]:.0f} MB, {seconds:.0f} s", flush=True)

        await asyncio.gather(watch(), *map(visit, people))
        growth = levels[max(levels)] - levels[2 * REQUESTS_PER_MEDIAN]
        print(
            f"memory growth over the last {questions - 2 * REQUESTS_PER_MEDIAN:,} requests: "
            f"{growth:.0f} MB"
        )


def read_server_memory() -> float:
    """Return the resident memory in MB of the server, the only child of this process."""
    own = os.getpid()
    (child,) = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    status = Path(f"/proc/{child}/status").read_text()
    kilobytes = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(kilobytes.split()[1]) / 2**10


if __name__ == "__main__":
    main()
