#!/usr/bin/python3
"""A launcher of the worst sort (npx, uvx and `sh -c` are the usual ones): launcher.py exec|run COMMAND [ARG..]

First it starts processes that want to stay, all of them deaf to every signal that can be ignored and with names of their
own, and waits until they are what they want to be:
  recluse   forked twice, in a session of its own, with every descriptor closed
  holder    keeps the server's stdio open, and does not mind its end
  hydra     a session of its own; each SIGTERM makes it two
Then the server: in its own place (exec), or as a child that it waits for, itself and the child deaf as well (run)."""

import os
import signal
import sys


def deaf():
    for signo in range(1, signal.NSIG):
        if signo not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD):
            try:
                signal.signal(signo, signal.SIG_IGN)
            except (OSError, ValueError):
                pass        # the C library's own


def call_itself(name):
    with open('/proc/self/comm', 'w') as f:
        f.write(name)


def stay(ready):
    os.write(ready, b'x')
    os.close(ready)
    while True:
        signal.pause()


def recluse(ready):
    os.setsid()
    if os.fork():
        os._exit(0)
    os.setsid()
    for fd in range(256):
        if fd != ready:
            try:
                os.close(fd)
            except OSError:
                pass
    stay(ready)


def holder(ready):
    stay(ready)


def hydra(ready):
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: os.fork())
    stay(ready)


def start(life):
    """Returns once it has settled."""
    settled, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(settled)
        deaf()
        call_itself(life.__name__)
        life(ready)
    os.close(ready)
    os.read(settled, 1)
    os.close(settled)
    if life is recluse:
        os.waitpid(pid, 0)      # of the two, the one that was in between


def main():
    how, command = sys.argv[1], sys.argv[2:]
    for life in (recluse, holder, hydra):
        start(life)
    if how == 'run':
        deaf()
        pid = os.fork()
        if pid:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xff)
    os.execv(command[0], command)


main()
