#!/usr/bin/python3
"""Plays the program `docker`: tells the test's own fake of its daemon (FAKE_DOCKERD, a Unix socket) how it was called. For
`run` it gets a container's id, writes it to the file of --cidfile as the real one does, and becomes fake.py with the options
behind the image's name: the container itself is a process of the test's, that lives until it is stopped by its id."""
import json
import os
import socket
import sys
from pathlib import Path

args = sys.argv[1:]
sock = socket.socket(socket.AF_UNIX)
sock.connect(os.environ['FAKE_DOCKERD'])
sock.sendall(json.dumps(args).encode() + b'\n')
answer = json.loads(sock.makefile().readline())
sock.close()
if 'run' not in args:
    sys.exit(0 if answer else 1)
for i, arg in enumerate(args):
    path = arg[10:] if arg.startswith('--cidfile=') else args[i + 1] if arg == '--cidfile' else None
    if path:
        with open(path, 'x') as f:      # it refuses to write over a file
            f.write(answer)
os.execv('/usr/bin/python3', ['python3', str(Path(__file__).with_name('fake.py')), args[-1]])
