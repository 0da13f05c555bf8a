"""Calls that become tasks (MCP 2025-11-25, and the extension of modern servers): a task is its client's alone, and ends with
it and with the server's process (PROTOCOL "mcp/request")."""

import pytest

from harness import fake, npm_server, wait_for

EXTENSION = {'extensions': {'io.modelcontextprotocol/tasks': {}}}
ELICIT = {'message': 'Which?', 'requestedSchema': {'type': 'object', 'properties': {}}}


def request(c, method, params=None, server='s', **more):
    return c.request('mcp/request', {'server': server, 'method': method, 'params': params or {}, **more})


def start_task(c, tool, arguments=None, server='s', meta=None, **more):
    """Starts a tools/call that asks for a task; returns the task."""
    params = {'name': tool, 'arguments': arguments or {}, 'task': {'ttl': 60000}}
    if meta:
        params['_meta'] = meta
    return request(c, 'tools/call', params, server, **more).wait().result['task']


def about(c, method, task, server='s', **more):
    return request(c, method, {'taskId': task['taskId'] if isinstance(task, dict) else task}, server, **more).wait()


def report(c, server='s'):
    return c.tool(server, 'report').wait().result['structuredContent']


@pytest.fixture
def daemon(make_daemon):
    daemon = make_daemon({'s': fake(tasks=True)})
    daemon.client().wait_state('s', 'connected')
    return daemon


def test_a_task_is_its_clients_alone(daemon):
    with daemon.client() as a, daemon.client() as b:
        mine = start_task(a, 'sleep', {'ms': 600000})
        theirs = start_task(b, 'text', {'text': 'of b'})
        assert about(a, 'tasks/get', mine).result['status'] == 'working'
        assert about(b, 'tasks/result', theirs).result['content'][0]['text'] == 'of b'
        before = report(a)['methods']
        for method in ('tasks/get', 'tasks/result', 'tasks/cancel', 'tasks/update'):
            for id in (theirs['taskId'], 'task-99'):
                error = about(a, method, id).error
                assert error['code'] == -32602 and error['data'] == {'server': 's'}, error
        after = report(a)['methods']
        assert [after.get(m) for m in ('tasks/get', 'tasks/result', 'tasks/cancel')] == \
            [before.get(m) for m in ('tasks/get', 'tasks/result', 'tasks/cancel')]
        assert about(a, 'tasks/cancel', mine).result['status'] == 'cancelled'
        # The server's own word on one of the client's own.
        error = about(a, 'tasks/cancel', mine).error
        assert error['code'] == -32006 and error['data']['error']['message'] == 'It has ended'


def test_lists_are_cut(daemon):
    with daemon.client() as a, daemon.client() as b, daemon.client() as c:
        for i in range(3):
            start_task(a, 'hang'), start_task(b, 'hang')
        assert [t['taskId'] for t in request(a, 'tasks/list').wait().result['tasks']] == ['task-1', 'task-3', 'task-5']
        assert [t['taskId'] for t in request(b, 'tasks/list').wait().result['tasks']] == ['task-2', 'task-4', 'task-6']
        listed = request(c, 'tasks/list').wait().result
        assert listed == {'tasks': [], 'nextCursor': 'more'}


def test_statuses_are_told_to_the_owner(daemon):
    with daemon.client() as a, daemon.client() as b:
        a.subscribe('notifications'), b.subscribe('notifications')
        task = start_task(a, 'sleep', {'ms': 600000})
        about(a, 'tasks/cancel', task)
        event = a.wait_event('events/notification')
        assert event['method'] == 'notifications/tasks/status' and event['params']['taskId'] == task['taskId']
        a.tool('s', 'notify', {'method': 'notifications/marker'}).wait()
        assert b.wait_event('events/notification')['method'] == 'notifications/marker'


def test_progress_does_not_come_behind_the_answer(daemon):
    with daemon.client() as c:
        task = start_task(c, 'progress', {'steps': 5, 'ms': 30}, meta={'progressToken': 'p'})
        c.take_events('notifications/progress')     # what came before it
        assert about(c, 'tasks/result', task).result['content'][0]['text'] == 'done'
        assert not c.take_events('notifications/progress')


def test_C5_tasks_end_with_their_client(daemon):
    with daemon.client() as stays:
        kept = start_task(stays, 'sleep', {'ms': 600000})
        with daemon.client() as goes:
            first, second = start_task(goes, 'sleep', {'ms': 600000}), start_task(goes, 'hang')
        wait_for(lambda: len(report(stays).get('cancelledTasks', [])) == 2)
        assert sorted(report(stays)['cancelledTasks']) == sorted([first['taskId'], second['taskId']])
        assert about(stays, 'tasks/get', kept).result['status'] == 'working'


def test_ids_of_a_process_that_has_ended_mean_nothing(daemon):
    with daemon.client() as a, daemon.client() as b:
        mine = start_task(a, 'hang')
        a.tool('s', 'crash').wait()
        a.wait_state('s', 'connected')
        # The new process counts from the same number: that is the other client's.
        theirs = start_task(b, 'hang')
        assert theirs['taskId'] == mine['taskId']
        assert about(a, 'tasks/get', mine).error['code'] == -32602
        assert about(b, 'tasks/get', theirs).result['status'] == 'working'
        # With none there, none is started to be asked.
        a.call('servers/disconnect', {'server': 's'})
        assert about(b, 'tasks/get', theirs).error['code'] == -32602
        assert a.server('s')['state'] == 'idle'


def test_an_idle_stop_waits_for_live_tasks(make_daemon):
    daemon = make_daemon({'s': fake(tasks=True, server={'idleTimeout': 300})})
    with daemon.client() as c:
        task = start_task(c, 'sleep', {'ms': 600000})
        watcher = daemon.client()
        watcher.subscribe('servers', server='s')
        with pytest.raises(TimeoutError):
            watcher.wait_event('events/server', lambda p: p['server'].get('state') == 'idle', timeout=1)
        about(c, 'tasks/cancel', task)
        watcher.wait_event('events/server', lambda p: p['server'].get('state') == 'idle')


def test_a_client_has_so_many_tasks_and_no_more(make_daemon):
    daemon = make_daemon({'s': fake(tasks=True)}, mcpd={'limits': {'maxTasksPerClient': 2}})
    with daemon.client() as c, daemon.client() as other:
        c.wait_state('s', 'connected')
        tasks = [start_task(c, 'sleep', {'ms': 600000}) for _ in range(2)]
        error = request(c, 'tools/call', {'name': 'hang', 'task': {}}).wait().error
        assert error['code'] == -32009 and error['data'] == {'server': 's', 'limit': 'maxTasksPerClient', 'value': 2}
        start_task(other, 'hang')
        about(c, 'tasks/cancel', tasks[1])
        start_task(c, 'hang')                   # for which the one that has ended is forgotten
        assert about(c, 'tasks/get', tasks[1]).error['code'] == -32602
        assert about(c, 'tasks/get', tasks[0]).result['status'] == 'working'


def test_a_question_of_a_task_goes_to_its_client(daemon):
    """ARCHITECTURE "Sharing": it is proven by the task's name, also where others have requests in flight."""
    with daemon.client(capabilities={'elicitation': {}}) as a, daemon.client(capabilities={'elicitation': {}}) as b:
        busy = b.tool('s', 'hang')
        task = start_task(a, 'ask', {'method': 'elicitation/create', 'params': ELICIT})
        question = a.wait_question()
        assert question['params']['_meta']['io.modelcontextprotocol/related-task'] == {'taskId': task['taskId']}
        a.respond(question, {'action': 'decline'})
        assert about(a, 'tasks/result', task).result['structuredContent'] == {'result': {'action': 'decline'}}
        # Without the name it is nobody's, while there is another client's request.
        task = start_task(a, 'ask', {'method': 'elicitation/create', 'params': ELICIT, 'related': False})
        error = about(a, 'tasks/result', task).result['structuredContent']['error']
        assert 'cannot prove' in error['message']
        b.notify('notifications/cancelled', {'requestId': busy.id})
        busy.wait()
        assert not b.questions


def test_a_live_task_counts_as_a_request_in_flight(daemon):
    with daemon.client(capabilities={'elicitation': {}}) as a, daemon.client(capabilities={'elicitation': {}}) as b:
        task = start_task(a, 'sleep', {'ms': 600000})
        ask = {'method': 'elicitation/create', 'params': ELICIT}
        # B's own call asks; but it might be A's task that does.
        error = b.tool('s', 'ask', ask).wait().result['structuredContent']['error']
        assert 'cannot prove' in error['message']
        about(a, 'tasks/cancel', task)
        call = b.tool('s', 'ask', ask)
        b.respond(b.wait_question(), {'action': 'cancel'})
        assert call.wait().result['structuredContent'] == {'result': {'action': 'cancel'}}


def test_a_modern_server_makes_tasks_for_those_who_can_deal_with_them(make_daemon):
    daemon = make_daemon({'s': fake(era='modern', tasks=True)})
    with daemon.client(capabilities=EXTENSION) as a, daemon.client(capabilities=EXTENSION) as b, daemon.client() as c:
        a.wait_state('s', 'connected')
        # Through tools/call, too: the server decides.
        task = a.tool('s', 'text', {'text': 'later'}).wait().result
        assert task['resultType'] == 'task'
        wait_for(lambda: about(a, 'tasks/get', task).result['status'] == 'completed')
        assert about(a, 'tasks/get', task).result['result']['content'][0]['text'] == 'later'
        assert about(b, 'tasks/get', task).error['code'] == -32602
        assert c.text('s', 'text', {'text': 'at once'}) == 'at once'
        live = b.tool('s', 'hang').wait().result
        assert about(b, 'tasks/update', live).result['resultType'] == 'complete'
        assert about(b, 'tasks/cancel', live).result['resultType'] == 'complete'
        assert about(b, 'tasks/get', live).result['status'] == 'cancelled'


def test_server_everything(npm, make_daemon):
    """The official SDK's tasks, with a question on the way, while another client is at work."""
    daemon = make_daemon({'everything': npm_server('@modelcontextprotocol/server-everything')})
    with daemon.client(capabilities={'elicitation': {'form': {}}}) as a, \
            daemon.client(capabilities={'elicitation': {'form': {}}}) as b:
        a.wait_state('everything', 'connected')
        a.subscribe('notifications'), b.subscribe('notifications')
        task = start_task(a, 'simulate-research-query', {'topic': 'daemons', 'ambiguous': True}, 'everything')
        busy = b.tool('everything', 'trigger-long-running-operation', {'duration': 600, 'steps': 2}, timeoutMs=0)
        wait_for(lambda: about(a, 'tasks/get', task, 'everything').result['status'] == 'input_required')
        assert about(b, 'tasks/get', task, 'everything').error['code'] == -32602
        assert task['taskId'] in [t['taskId'] for t in request(a, 'tasks/list', None, 'everything').wait().result['tasks']]
        assert request(b, 'tasks/list', None, 'everything').wait().result['tasks'] == []
        result = request(a, 'tasks/result', {'taskId': task['taskId']}, 'everything', timeoutMs=0)
        question = a.wait_question()
        assert question['method'] == 'elicitation/create'
        schema = question['params']['requestedSchema']['properties']
        content = {name: (p.get('enum') or [o['const'] for o in p['oneOf']])[0] for name, p in schema.items()}
        a.respond(question, {'action': 'accept', 'content': content})
        assert 'daemons' in result.wait().result['content'][0]['text']
        assert about(a, 'tasks/get', task, 'everything').result['status'] == 'completed'
        told = [e for e in a.take_events('events/notification') if e['method'] == 'notifications/tasks/status']
        assert told and all(e['params']['taskId'] == task['taskId'] for e in told)
        assert not [e for e in b.take_events('events/notification') if e['method'] == 'notifications/tasks/status']
        assert not b.questions
        b.notify('notifications/cancelled', {'requestId': busy.id})
        assert busy.wait().error['code'] == -32005
