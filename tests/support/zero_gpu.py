"""Start of `app.py` as in a Space on ZeroGPU: `python tests/support/zero_gpu.py --port 7860 ...`.

The `spaces` package is the real one. Stand-ins replace the GPU driver and the service that lends
GPUs at once. A process with a lent GPU works on the CPU and reports a "lent" device.
"""

import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

GPU_LEASE = {"idle": False, "nvidiaIndex": 0, "nvidiaUUID": "GPU-0", "allowToken": "lent"}


class GpuLeaseHandler(BaseHTTPRequestHandler):
    """A stand-in for the scheduler that lends GPUs."""

    def do_POST(self) -> None:
        content = json.dumps(GPU_LEASE if self.path.startswith("/schedule") else {}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args) -> None:
        pass


def main() -> int:
    server = ThreadingHTTPServer(("127.0.0.1", 0), GpuLeaseHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # also ends the processes with a GPU
    os.environ["SPACES_ZERO_GPU"] = "true"
    os.environ["SPACES_ZERO_DEVICE_API_URL"] = f"http://127.0.0.1:{server.server_port}"
    sys.path.insert(0, str(Path(__file__).parents[2]))
    import app  # it must import `spaces` before torch
    from vitdemo.analyses import latency

    def initialise(name: str) -> None:
        latency.device_name = lambda _: f"the lent {name}"

    sys.modules["spaces.zero.torch"].init = initialise
    sys.modules["spaces.zero.torch"].move = lambda **_: None
    return app.main()


if __name__ == "__main__":
    sys.exit(main())
