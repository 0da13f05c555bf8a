"""A strict reader of the Prometheus text exposition format, version 0.0.4: what is merely tolerated elsewhere is an error here.

    families = parse(text)       # name -> Family(type, help, samples: {labels as a frozenset of pairs: value or Histogram})
"""

import re

NAME = r'[a-zA-Z_:][a-zA-Z0-9_:]*'
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*'
SAMPLE = re.compile(r'(%s)(?:\{(.*)\})? (\S+)' % NAME)
PAIR = re.compile(r'(%s)="((?:[^"\\\n]|\\["\\n])*)"(,|$)' % LABEL)
TYPES = {'counter', 'gauge', 'histogram'}


class Histogram:
    def __init__(self):
        self.buckets, self.sum, self.count = {}, None, None

    def __eq__(self, other):
        return (self.buckets, self.sum, self.count) == (other.buckets, other.sum, other.count)

    def __repr__(self):
        return 'Histogram(%s, sum %s, count %s)' % (self.buckets, self.sum, self.count)


class Family:
    def __init__(self, type, help):
        self.type, self.help, self.samples = type, help, {}


def labels_of(text):
    """The pairs, in their order."""
    pairs, at = [], 0
    while at < len(text):
        pair = PAIR.match(text, at)
        assert pair, 'labels are broken at %r' % text[at:]
        value = re.sub(r'\\(.)', lambda m: '\n' if m[1] == 'n' else m[1], pair[2])
        pairs.append((pair[1], value))
        at = pair.end()
        assert pair[3] == ',' or at == len(text)
        assert not (pair[3] == ',' and at == len(text)), 'a comma at the end'
    names = [name for name, _ in pairs]
    assert len(set(names)) == len(names), 'a label occurs twice: %r' % text
    assert not any(name.startswith('__') for name in names)
    return pairs


def number(text):
    assert re.fullmatch(r'\d+(\.\d+)?', text), '%r is no plain number' % text
    return float(text)


def add(families, name, pairs, value):
    """One sample to the family that is being written, the last one."""
    family_name = next(reversed(families))
    family = families[family_name]
    if family.type != 'histogram':
        assert name == family_name, '%s stands among the samples of %s' % (name, family_name)
        key = frozenset(pairs)
        assert key not in family.samples, 'a sample occurs twice: %s %s' % (name, pairs)
        family.samples[key] = value
        return
    part = name[len(family_name):]
    assert name.startswith(family_name) and part in ('_bucket', '_sum', '_count')
    if part == '_bucket':
        assert pairs[-1][0] == 'le'
        le, pairs = pairs[-1][1], pairs[:-1]
    assert 'le' not in dict(pairs)
    histogram = family.samples.setdefault(frozenset(pairs), Histogram())
    if part == '_bucket':
        assert histogram.sum is None and le not in histogram.buckets
        histogram.buckets[le] = value
    elif part == '_sum':
        assert histogram.sum is None and '+Inf' in histogram.buckets
        histogram.sum = value
    else:
        assert histogram.count is None and histogram.sum is not None
        histogram.count = value


def check_histogram(name, histogram):
    bounds = [float(le) for le in histogram.buckets]
    counts = list(histogram.buckets.values())
    assert bounds == sorted(bounds) and bounds[-1] == float('inf'), name
    assert counts == sorted(counts), '%s: buckets are cumulative' % name
    assert histogram.count == counts[-1], name
    assert histogram.count or not histogram.sum, name


def parse(text):
    assert text.endswith('\n') and '\r' not in text
    families, helped = {}, None
    for line in text[:-1].split('\n'):
        if line.startswith('# HELP '):
            name, help = line[7:].split(' ', 1)
            assert helped is None and name not in families and re.fullmatch(NAME, name) and help
            helped = (name, help)
        elif line.startswith('# TYPE '):
            name, type = line[7:].split(' ')
            assert helped and helped[0] == name and type in TYPES
            assert name.endswith('_total') == (type == 'counter'), name
            families[name] = Family(type, helped[1])
            helped = None
        else:
            match = SAMPLE.fullmatch(line)
            assert match and helped is None and families, 'no sample: %r' % line
            add(families, match[1], labels_of(match[2] or ''), number(match[3]))
    assert helped is None
    for name, family in families.items():
        if family.type == 'histogram':
            for histogram in family.samples.values():
                check_histogram(name, histogram)
    return families
