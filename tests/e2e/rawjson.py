"""Where values lie in JSON text, so that tests can compare bytes.

Python's json module changes what it reads and prints again (1.10, duplicate keys, 30-digit exponents), so a test of
"byte for byte" (PROTOCOL "Framing", R19) has to cut the bytes out. Written for the tests, independent of proto/.
"""

import json
import re

_SPACE = re.compile(rb'[ \t\r\n]*')
_SCALAR = re.compile(rb'[^,\]} \t\r\n]+')
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def _skip(text, at):
    return _SPACE.match(text, at).end()


def _end(text, at):
    """Offset behind the value that begins at `at`."""
    first = text[at:at + 1]
    if first == b'"':
        return _STRING.match(text, at).end()
    if first not in (b'{', b'['):
        return _SCALAR.match(text, at).end()
    depth = 0
    while True:
        c = text[at:at + 1]
        if c == b'"':
            at = _STRING.match(text, at).end()
            continue
        if c in (b'{', b'['):
            depth += 1
        elif c in (b'}', b']'):
            depth -= 1
            if depth == 0:
                return at + 1
        elif not c:
            raise ValueError('JSON text ends inside a value')
        at += 1


def members(text):
    """The (key, value) pairs of the object `text` (bytes), in order; the key decoded, the value as its bytes."""
    at = _skip(text, 0)
    if text[at:at + 1] != b'{':
        raise ValueError('not an object: %r' % text[:80])
    at = _skip(text, at + 1)
    pairs = []
    while text[at:at + 1] != b'}':
        end = _end(text, at)
        key = json.loads(text[at:end])
        at = _skip(text, end)
        if text[at:at + 1] != b':':
            raise ValueError('no colon behind a key')
        at = _skip(text, at + 1)
        end = _end(text, at)
        pairs.append((key, text[at:end]))
        at = _skip(text, end)
        if text[at:at + 1] == b',':
            at = _skip(text, at + 1)
    return pairs


def elements(text):
    """The elements of the array `text` (bytes), each as its bytes."""
    at = _skip(text, 0)
    if text[at:at + 1] != b'[':
        raise ValueError('not an array: %r' % text[:80])
    at = _skip(text, at + 1)
    found = []
    while text[at:at + 1] != b']':
        end = _end(text, at)
        found.append(text[at:end])
        at = _skip(text, end)
        if text[at:at + 1] == b',':
            at = _skip(text, at + 1)
    return found


def raw(text, *path):
    """The bytes of the value at `path` (names and indexes), or None if there is none. The first of doubled members."""
    for step in path:
        if isinstance(step, int):
            found = elements(text)[step:step + 1]
        else:
            found = [value for key, value in members(text) if key == step][:1]
        if not found:
            return None
        text = found[0]
    return text
