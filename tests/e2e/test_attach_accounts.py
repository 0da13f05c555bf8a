"""What is kept account of for attached clients of either era: progress of tasks, log levels of single requests at legacy
servers (PROTOCOL "MCP dialect")."""

from harness import fake, npm_server, wait_for
from mcp_session import META, legacy, modern, wait_connected


def report(s):
    return s.call_tool('report').wait().result['structuredContent']


def test_progress_of_a_task_goes_on_behind_its_answer(make_daemon):
    d = make_daemon({'f': fake(tasks=True)})
    a, b = legacy(d, 'f'), legacy(d, 'f')
    made = a.call_tool('progress', {'steps': 5, 'ms': 40}, task={}, _meta={'progressToken': 'p'}).wait().result
    late = a.wait_event('notifications/progress', lambda p: p['progress'] == 5)
    assert late['progressToken'] == 'p'
    a.call('tasks/result', {'taskId': made['task']['taskId']})
    assert not b.take_events('notifications/progress')


def test_a_task_without_a_token_has_no_progress(make_daemon):
    d = make_daemon({'f': fake(tasks=True)})
    s = legacy(d, 'f')
    made = s.call_tool('progress', {'steps': 3, 'token': 'invented'}, task={}).wait().result
    s.call('tasks/result', {'taskId': made['task']['taskId']})
    assert not s.take_events('notifications/progress')


def test_a_legacy_server_is_told_the_level_of_a_request(make_daemon):
    d = make_daemon({'f': fake()})
    wait_connected(d, 'f')
    s, other, old = modern(d, 'f'), modern(d, 'f'), legacy(d, 'f')
    old.call('logging/setLevel', {'level': 'error'})
    assert report(s)['levels'] == ['error']

    def say(session, level, **meta):
        session.call_tool('notify', {'params': {'level': level, 'data': level}}, _meta=meta).wait()

    say(s, 'debug', **{META + 'logLevel': 'debug'})
    say(s, 'debug', **{META + 'logLevel': 'debug'})
    # It is told once, before the request; and what it says then is for whoever asked.
    assert report(s)['levels'] == ['error', 'debug']
    assert [p['data'] for p in s.take_events('notifications/message')] == ['debug', 'debug']
    say(s, 'critical')
    for session, heard in ((s, []), (other, []), (old, ['critical'])):
        session.call('tools/list')
        assert [p['data'] for p in session.take_events('notifications/message')] == heard
    # After a while without such a request the level is what it was.
    wait_for(lambda: report(other)['levels'] == ['error', 'debug', 'error'])


def test_server_everything_is_told_the_level_of_a_request(npm, make_daemon):
    d = make_daemon({'everything': npm_server('@modelcontextprotocol/server-everything')})
    wait_connected(d, 'everything')
    s, quiet = modern(d, 'everything', **{META + 'logLevel': 'debug'}), modern(d, 'everything')
    # Its messages come by a clock of its own, at a level taken by chance: some come while the request is there.
    s.tool_text('toggle-simulated-logging')
    busy = s.call_tool('trigger-long-running-operation', {'duration': 12, 'steps': 1})
    s.wait_event('notifications/message')
    assert not quiet.take_events('notifications/message')
    s.notify('notifications/cancelled', {'requestId': busy.id})
