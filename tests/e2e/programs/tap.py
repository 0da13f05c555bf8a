#!/usr/bin/python3
"""tap.py LOG COMMAND [ARG..]: runs a program that speaks over its pipes, and keeps what goes by, line by line, as it was:
`> ` and what went in, `< ` and what came out. Ends as the program does."""

import os
import signal
import subprocess
import sys
import threading


def main():
    log, command = open(sys.argv[1], 'ab', buffering=0), sys.argv[2:]
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, frame: program.send_signal(n))

    def copy(source, target, mark):
        rest = b''
        while data := os.read(source, 1 << 16):
            *lines, rest = (rest + data).split(b'\n')
            for line in lines:
                log.write(mark + line + b'\n')
            try:
                while data:
                    data = data[os.write(target, data):]
            except BrokenPipeError:
                break
        if rest:
            log.write(mark + rest + b'(no newline)\n')

    def feed():
        copy(0, program.stdin.fileno(), b'> ')
        program.stdin.close()

    threading.Thread(target=feed, daemon=True).start()
    copy(program.stdout.fileno(), 1, b'< ')
    status = program.wait()
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == '__main__':
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    main()
