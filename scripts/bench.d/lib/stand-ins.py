"""Stand-ins for browsers behind relays, in the namespaces of a fleet, all in one process.

`stand-ins.py FILE`, the file a JSON array of {netns, host, port, silent}. A socket belongs to the namespace it was
made in, whatever its process does later, so one process serves them all. A silent one accepts and never
answers, as a stopped browser does. Prints "ready".
"""
import ctypes
import json
import os
import selectors
import socket
import sys

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
select = selectors.DefaultSelector()


def enter(netns):
    fd = os.open("/run/netns/" + netns, os.O_RDONLY)
    if libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns " + netns)
    os.close(fd)


def answer(host, port):
    ws = f"ws://{host}:{port}/devtools/browser/00000000-0000-4000-8000-000000000000"
    body = json.dumps({"Browser": "Chrome/156.0.0.0", "webSocketDebuggerUrl": ws})
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


kept = []
for entry in json.load(open(sys.argv[1], encoding="utf8")):
    enter(entry["netns"])
    listener = socket.create_server((entry["host"], entry["port"]), backlog=64)
    say = None if entry["silent"] else answer(entry["host"], entry["port"])
    select.register(listener, selectors.EVENT_READ, ("accept", say))
print("ready", flush=True)
while True:
    for key, _ in select.select():
        what, say = key.data
        if what == "accept":
            peer, _ = key.fileobj.accept()
            if say is None:
                kept.append(peer)
            else:
                select.register(peer, selectors.EVENT_READ, ("request", say))
            continue
        select.unregister(key.fileobj)
        try:
            if key.fileobj.recv(4096):
                key.fileobj.sendall(say)
        except OSError:
            pass
        key.fileobj.close()
