"""The manual pages: they are well-formed, and say of options, commands, members and limits what the programs say."""

import os
import re
import shutil
import subprocess

import pytest
from harness import BUILD, Daemon, program

PAGES = ['mcpd.1', 'mcpctl.1', 'mcpd-bridge.1', 'mcpd.json.5']


def output(*command):
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def source(page):
    return (BUILD / 'contrib' / 'man' / page).read_text()


def plain(page):
    """The page's text without its markup; one line for each of the source."""
    lines = []
    for line in source(page).splitlines():
        if line.startswith('.'):
            macro, _, line = line.partition(' ')
            if macro in ('.BR', '.RB', '.IR', '.RI', '.BI', '.IB'):
                # Words of two fonts in turns, without spaces in between.
                line = ''.join(quoted or word for quoted, word in re.findall(r'"([^"]*)"|(\S+)', line))
        lines.append(re.sub(r'\\f.|\\&', '', line).replace(r'\-', '-').replace(r'\(ti', '~').replace(r'\(aq', "'")
                     .replace(r'\(dq', '"').replace(r'\e', '\\'))
    return '\n'.join(lines)


def table():
    """What --print-config-table lists: {name: (the cells behind it)}."""
    rows = {}
    for line in output(program('mcpd'), '--print-config-table').splitlines():
        cells = [c.strip() for c in line.strip('|').split('|')]
        if re.fullmatch(r'`[$\w]+`', cells[0]):
            rows[cells[0].strip('`')] = cells[1:]
    return rows


@pytest.mark.parametrize('page', PAGES)
@pytest.mark.parametrize('checker', [['groff', '-man', '-Tutf8', '-ww', '-z'], ['mandoc', '-T', 'lint', '-W', 'warning']],
                         ids=['groff', 'mandoc'])
def test_pages_are_well_formed(page, checker):
    if not shutil.which(checker[0]):
        if os.environ.get('MCPD_TEST_ALL'):
            pytest.fail('%s is not installed' % checker[0])
        pytest.skip('%s is not installed' % checker[0])
    ended = subprocess.run([*checker, str(BUILD / 'contrib' / 'man' / page)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert (ended.returncode, ended.stdout) == (0, '')
    version = output(program('mcpd'), '--version').split()[1]
    assert '"mcpd %s"' % version in source(page) and '@' not in re.sub('@modelcontextprotocol/', '', source(page))


def test_every_member_and_limit_is_there_with_its_default():
    rows = table()
    entries = dict(re.findall(r'^\\fB([$\w]+)\\fR \((.*)\)$', source('mcpd.json.5'), re.M))
    assert set(rows) == set(entries) and len(rows) > 40
    text = plain('mcpd.json.5')
    for name, cells in rows.items():
        *cells, what = [c.replace('`', '') for c in cells]
        entry = re.sub(r'\\f.', '', entries[name]).replace(r'\(ti', '~').replace(r'\-', '-').replace(r'\(aq', "'")
        assert what + '.' in text, name
        if re.fullmatch(r'\d+ \w+', cells[0]):          # a limit
            number, unit = cells[0].split()
            assert entry == '%s; default %s, from %s to %s' % (unit, number, cells[1], cells[2])
        elif cells[-1] == '-':
            assert 'default' not in entry and entry.endswith(cells[-2])
        else:
            assert entry.endswith('%s; default %s' % (cells[-2], cells[-1]))


def test_limits_are_the_same_everywhere():
    daemon = Daemon()
    try:
        with daemon.client() as c:
            told = c.call('daemon/status')['limits']
    finally:
        daemon.finish()
    page = re.findall(r'^\\fB(\w+)\\fR \(\w+; default (\d+), from \d+ to \d+\)$', source('mcpd.json.5'), re.M)
    assert {name: int(default) for name, default in page} == told


def options_of(help):
    """-o, --output, ..: what a program's --help shows."""
    return set(re.findall(r'(?<![\w-])(--?[a-z][a-z-]*)', help))


@pytest.mark.parametrize('name', ['mcpd', 'mcpctl', 'mcpd-bridge'])
def test_options_are_those_of_help(name):
    shown = options_of(output(program(name), '--help'))
    text = plain(name + '.1')
    section = text[text.index('\nOPTIONS\n'):text.index('\nEXIT STATUS\n' if name != 'mcpd' else '\nSIGNALS\n')]
    entries = options_of(section)
    assert shown - entries <= {'--graceful'}, shown - entries
    # The long forms of what --help shows short.
    assert entries - shown <= {'--output', '--lines'}, entries - shown


def test_commands_are_those_of_help():
    help = output(program('mcpctl'), '--help')
    shown = re.findall(r'^  ([a-z-]+)(?: |$)', help[help.index('commands:'):help.index('options:')], re.M)
    text = source('mcpctl.1')
    text = text[text.index('.SH COMMANDS'):text.index('.SH OPTIONS')]
    entries = [m.replace('\\-', '-') for m in re.findall(r'^\.TP\n\.(?:B|BR|BI) ([a-z\\-]+)', text, re.M)]
    assert sorted(shown) == sorted(entries) and len(shown) > 20


@pytest.mark.parametrize('name', ['mcpd', 'mcpctl', 'mcpd-bridge'])
def test_exit_statuses_are_those_of_help(name):
    help = output(program(name), '--help')
    told = help[help.lower().index('exit status'):].split('NO_COLOR')[0].split('MCPD_PROGRAM')[0]
    text = source(name + '.1')
    text = text[text.index('.SH EXIT STATUS'):]
    entries = re.findall(r'^\.TP\n\.B (\d+)$', text[:text.index('.SH', 5)], re.M)
    assert entries == re.findall(r'\b(\d+)\b', told)
