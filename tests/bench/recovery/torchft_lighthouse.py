"""torchft's lighthouse on a port of its own choice, whose address is printed. torchft_lighthouse.py HEARTBEAT_MS
JOIN_MS"""

import socket
import sys
import threading

from torchft.coordination import LighthouseServer


def main(heartbeat_ms, join_ms):
    server = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=int(join_ms),
                              heartbeat_timeout_ms=int(heartbeat_ms))
    print(server.address().replace(socket.gethostname(), "127.0.0.1"), flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
