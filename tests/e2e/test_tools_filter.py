""""tools": {"allow": [..], "deny": [..]} of a server: what clients see and may call."""

import json

import pytest
from harness import fake
from mcp_session import legacy, wait_connected

NAMES = ['read_file', 'read_dir', 'write_file', 'delete_all']


def filtered(**tools):
    return fake(tools=NAMES, server={'tools': tools})


@pytest.mark.parametrize('tools, seen', [
    ({'allow': ['read_*']}, ['read_file', 'read_dir']), ({'deny': ['delete_*', 'write*']}, ['read_file', 'read_dir']),
    ({'allow': ['*_file'], 'deny': ['write_*']}, ['read_file']), ({'allow': []}, []), ({}, NAMES),
    ({'allow': ['read_di?']}, ['read_dir'])])
def test_only_what_is_allowed_is_listed_and_called(make_daemon, tools, seen):
    d = make_daemon({'f': filtered(**tools)})
    wait_connected(d, 'f')
    with d.client() as c:
        assert [t['name'] for t in c.call('tools/list')['servers'][0]['tools']] == seen
        assert c.server('f')['toolCount'] == len(seen)
        assert c.server('f')['config'].get('tools', {}) == tools
        for name in NAMES:
            if name in seen:
                assert c.text('f', name) == name + ' was called'
            else:
                error = c.fails('tools/call', {'server': 'f', 'name': name})
                assert error.code == -32602 and '"tools"' in error.message
                assert c.fails('mcp/request', {'server': 'f', 'method': 'tools/call', 'params': {'name': name}}).code == -32602
    s = legacy(d, 'f')
    assert s.names() == seen
    assert [n for n in legacy(d).names()] == ['f__' + n for n in seen]
    if 'delete_all' not in seen:
        assert s.fails('tools/call', {'name': 'delete_all'}).code == -32602


def test_a_reload_changes_what_is_seen_and_touches_no_process(make_daemon):
    d = make_daemon({'f': filtered(allow=['read_*'])})
    wait_connected(d, 'f')
    s = legacy(d, 'f')
    assert s.names() == ['read_file', 'read_dir']
    with d.client() as c:
        pid = c.server('f')['pid']
        c.subscribe('tools')
        d.write_config({'f': filtered(deny=['read_*'])})
        assert c.call('daemon/reload')['changed'] == ['f']
        c.wait_event('events/tools')
        assert c.server('f')['pid'] == pid
    s.wait_event('notifications/tools/list_changed')
    assert s.names() == ['write_file', 'delete_all']


def test_the_filter_holds_for_cached_tools(make_daemon):
    d = make_daemon({'f': filtered(allow=['read_*'])})
    wait_connected(d, 'f')
    d.stop()
    d.write_config({'f': {**filtered(allow=['write_*']), 'lazy': True}})
    d.start()
    with d.client() as c:
        listed = c.call('tools/list')['servers'][0]
        assert listed['deferred'] and [t['name'] for t in listed['tools']] == ['write_file']


@pytest.mark.parametrize('tools', ['read_*', {'allow': 'read_*'}, {'deny': [7]}])
def test_a_filter_that_is_none_fails_its_server_with_a_reason(make_daemon, tools):
    d = make_daemon({'f': fake(server={'tools': tools}), 'g': fake()})
    with d.client() as c:
        assert c.server('f')['state'] == 'failed'
        assert 'tools' in c.server('f')['lastError']['message'], json.dumps(c.server('f'))
