"""One question to a name server: enough to see that a Service's name has an address."""

import os
import socket
import struct


def address_of(name, server, seconds=2):
    """The first IPv4 address of the name, or None when there is none. Raises OSError if no server answers."""
    number = os.urandom(2)
    labels = b"".join(bytes([len(word)]) + word.encode() for word in name.rstrip(".").split("."))
    question = number + struct.pack(">HHHHH", 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.settimeout(seconds)
        wire.connect((server, 53))
        wire.send(question)
        answer = wire.recv(4096)
    if answer[:2] != number:
        raise OSError("an answer to another question")
    count = struct.unpack(">H", answer[6:8])[0]
    at = len(question)
    for _ in range(count):
        while answer[at] not in (0,) and answer[at] < 0xC0:
            at += 1 + answer[at]
        at += 2 if answer[at] >= 0xC0 else 1
        kind, _, _, length = struct.unpack(">HHIH", answer[at : at + 10])
        if kind == 1 and length == 4:
            return socket.inet_ntoa(answer[at + 10 : at + 14])
        at += 10 + length
    return None
