"""Stand between a browser and a page, and hold back the stream of answers, as some networks do.

python tests/slow_stream.py http://127.0.0.1:7860 7999 0.3
"""

import asyncio
import sys

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route


def create_proxy(address: str, seconds: float) -> Starlette:
    """All that `address` answers, its event stream `seconds` later than the rest."""
    client = httpx.AsyncClient(base_url=address, timeout=None, trust_env=False)

    async def forward(request: Request) -> StreamingResponse:
        headers = [(k, v) for k, v in request.headers.items() if k != "accept-encoding"]
        asked = client.build_request(
            request.method,
            f"{request.url.path}?{request.url.query}",
            headers=[*headers, ("accept-encoding", "identity")],
            content=await request.body(),
        )
        answer = await client.send(asked, stream=True)
        dropped = ("content-length", "transfer-encoding", "connection")
        kept = {k: v for k, v in answer.headers.items() if k not in dropped}
        late = seconds if request.url.path.endswith("/queue/data") else 0
        return StreamingResponse(
            delay_stream(answer, late), status_code=answer.status_code, headers=kept
        )

    return Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "HEAD", "POST"])])


async def delay_stream(answer: httpx.Response, seconds: float):
    """The parts of `answer`, each `seconds` after it came."""
    clock, parts = asyncio.get_running_loop().time, asyncio.Queue()

    async def read():
        async for part in answer.aiter_raw():
            parts.put_nowait((clock(), part))
        parts.put_nowait((clock(), None))

    reading = asyncio.create_task(read())
    try:
        while True:
            came, part = await parts.get()
            await asyncio.sleep(max(0, came + seconds - clock()))
            if part is None:
                return
            yield part
    finally:
        reading.cancel()
        await answer.aclose()


if __name__ == "__main__":
    address, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    options = {"log_level": "warning", "timeout_graceful_shutdown": 1}  # browsers never let go
    uvicorn.run(create_proxy(address, seconds), host="127.0.0.1", port=port, **options)
