"""Fills the journal: `journal-fill.py MIB`. Straight to journald's socket, because a logger(1) per line takes hours.

Lines of the lengths of a busy host's, of text that does not compress well; one in fifty is the product's own, so that
what is looked for lies scattered among the rest.
"""
import os
import random
import socket
import sys

goal = int(sys.argv[1]) * 1024 * 1024
sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sock.connect("/run/systemd/journal/socket")
sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
pick = random.Random(1)
sent = 0
n = 0
while sent < goal:
    n += 1
    text = pick.randbytes(pick.choice((60, 200, 1500, 6000))).hex()
    node = ("muse", "pip", "646", "opm", "def", "dev")[n % 6]
    ours = f"OBJECT_SYSTEMD_UNIT=chromebox-watchdog@{node}.service\nNETVM_NODE={node}\n" if n % 50 == 0 else ""
    sock.send(f"MESSAGE={text}\nPRIORITY=6\nSYSLOG_IDENTIFIER=noise{n % 400}\n{ours}".encode())
    sent += len(text)
