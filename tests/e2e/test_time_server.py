"""mcpd-time-server: both eras, every answer valid by its revision's schema; times compared with Python's zoneinfo."""

import datetime
import json
import zoneinfo

import jsonschema
import pytest

from harness import time_server
from mcp_schema import LEGACY, MODERN, check, error_definition, result_definition

META = {'io.modelcontextprotocol/protocolVersion': MODERN, 'io.modelcontextprotocol/clientCapabilities': {}}


class Session:
    """The server as a client of one version sees it; each answer is checked, and its result by its definition."""

    def __init__(self, server, version):
        self.server, self.version = server, version
        if version != MODERN:
            result = check(version, 'InitializeResult', server.initialize(version)['result'])
            assert result['protocolVersion'] == version

    def ask(self, method, params=None):
        params = dict(params or {})
        if self.version == MODERN:
            params['_meta'] = {**META, **params.get('_meta', {})}
        answer = self.server.request(method, params)
        definition = error_definition if 'error' in answer else result_definition
        check(self.version, definition(self.version), answer)
        return answer

    def tools(self):
        return check(self.version, 'ListToolsResult', self.ask('tools/list')['result'])['tools']

    def call(self, name, **arguments):
        result = check(self.version, 'CallToolResult',
                       self.ask('tools/call', {'name': name, 'arguments': arguments})['result'])
        if not result.get('isError'):
            schema = next(t for t in self.tools() if t['name'] == name)['outputSchema']
            jsonschema.validate(result['structuredContent'], schema, jsonschema.Draft202012Validator)
            assert json.loads(result['content'][0]['text']) == result['structuredContent']
        return result

    def error(self, method, params=None):
        return self.ask(method, params)['error']


@pytest.fixture(params=LEGACY + [MODERN])
def session(request, run_server):
    session = Session(run_server(time_server()), request.param)
    yield session
    assert session.server.close() == 0      # ends at the end of its input
    assert session.server.stderr.text == ''


@pytest.fixture
def modern(run_server):
    return Session(run_server(time_server()), MODERN)


def ask_time(session, **arguments):
    result = session.call('convert_time', **arguments)
    return result['structuredContent'] if not result.get('isError') else result['content'][0]['text']


def test_lists_its_tools(session):
    tools = session.tools()
    assert [t['name'] for t in tools] == ['get_current_time', 'convert_time']
    for tool in tools:
        check(session.version, 'Tool', tool)
        jsonschema.Draft202012Validator.check_schema(tool['inputSchema'])
        jsonschema.Draft202012Validator.check_schema(tool['outputSchema'])


@pytest.mark.parametrize('zone', ['UTC', 'Europe/Berlin', 'America/St_Johns', 'Asia/Kathmandu', 'Pacific/Kiritimati',
                                  'Etc/GMT+12'])
def test_current_time(session, zone):
    before = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    result = session.call('get_current_time', timezone=zone)['structuredContent']
    after = datetime.datetime.now(datetime.timezone.utc)
    told = datetime.datetime.fromisoformat(result['datetime'])
    assert before <= told <= after
    there = told.astimezone(zoneinfo.ZoneInfo(zone))
    assert result == {'timezone': zone, 'datetime': there.isoformat(), 'day_of_week': there.strftime('%A'),
                      'utc_offset': there.isoformat()[-6:], 'is_dst': bool(there.dst())}


def test_converts_today_by_default(session):
    result = ask_time(session, source_timezone='Europe/Berlin', time='16:30', target_timezone='Asia/Tokyo')
    source, target = (datetime.datetime.fromisoformat(result[k]['datetime']) for k in ('source', 'target'))
    today = datetime.datetime.now(zoneinfo.ZoneInfo('Europe/Berlin')).date()
    assert source == target and (source.hour, source.minute, source.second) == (16, 30, 0)
    assert abs((source.date() - today).days) <= 1       # the test may run over midnight


@pytest.mark.parametrize('source, date, time, target', [
    ('Europe/Berlin', '2026-01-15', '12:00', 'America/New_York'),
    ('Europe/Berlin', '2026-07-15', '00:30', 'America/Los_Angeles'),        # the day before
    ('America/Los_Angeles', '2026-12-31', '23:59', 'Asia/Tokyo'),           # the next year
    ('Pacific/Pago_Pago', '2026-06-01', '23:00', 'Pacific/Kiritimati'),     # 25 hours: two days on
    ('Asia/Kathmandu', '2026-06-01', '05:45', 'UTC'),
    ('Australia/Lord_Howe', '2026-01-01', '10:00', 'Asia/Kolkata'),         # summer time of half an hour
    ('Europe/Berlin', '2026-03-29', '03:00', 'UTC'),                        # the first minute of summer time
    ('Europe/Berlin', '2026-10-25', '02:30', 'UTC'),                        # shown twice: the first one
    ('Africa/Casablanca', '2026-02-18', '01:30', 'UTC'),
    ('Europe/London', '2050-07-01', '12:00', 'UTC'),                        # by the rule behind the last listed change
    ('Africa/Monrovia', '1971-06-01', '12:00', 'UTC'),                      # an offset with seconds
    ('Europe/London', '1970-01-01', '01:00', 'UTC'),
    ('Asia/Manila', '2024-02-29', '08:00', 'Asia/Manila'),
])
def test_conversion_agrees_with_zoneinfo(modern, source, date, time, target):
    result = ask_time(modern, source_timezone=source, time=time, target_timezone=target, date=date)
    here = datetime.datetime.fromisoformat(date + 'T' + time).replace(tzinfo=zoneinfo.ZoneInfo(source))
    there = here.astimezone(zoneinfo.ZoneInfo(target))
    for name, expected in (('source', here), ('target', there)):
        assert result[name]['datetime'] == expected.isoformat()
        assert result[name]['day_of_week'] == expected.strftime('%A')
        assert result[name]['is_dst'] == bool(expected.dst())
    sign, hours, minutes, *seconds = result['time_difference'][0], *result['time_difference'][1:].split(':')
    difference = datetime.timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds[0]) if seconds else 0)
    assert (difference if sign == '+' else -difference) == there.utcoffset() - here.utcoffset()
    assert result['day_difference'] == (there.date() - here.date()).days


def test_a_time_that_clocks_skip_is_told(modern):
    text = ask_time(modern, source_timezone='Europe/Berlin', time='02:30', target_timezone='UTC', date='2026-03-29')
    assert text == 'In Europe/Berlin the clocks never show 02:30 on 2026-03-29: they go forward over it'
    # A day that Samoa left out when it crossed the date line.
    text = ask_time(modern, source_timezone='Pacific/Apia', time='12:00', target_timezone='UTC', date='2011-12-30')
    assert 'never show' in text


@pytest.mark.parametrize('zone', [
    '', 'Nowhere', 'Europe/Nowhere', 'europe/berlin', '../zoneinfo/UTC', 'Europe/../UTC', '/etc/localtime', '/UTC', 'UTC/',
    'Europe//Berlin', './UTC', 'zone.tab', 'Europe', 'posixrules', 'localtime', 'right/UTC', 'posix/UTC', ':UTC',
    'CET-1CEST', 'Europe/Berlin\n', 'A' * 65, 'Zürich', '..',
])
def test_bad_zones_are_refused_with_an_example(modern, zone):
    """Nothing outside the database can be named, and the answer says what could."""
    result = modern.call('get_current_time', timezone=zone)
    assert result['isError'] and 'structuredContent' not in result
    assert 'for example "Europe/Berlin"' in result['content'][0]['text']


@pytest.mark.parametrize('time', ['', '24:00', '12:60', '1:30', '12:3', '12-30', '12:30:00', ' 12:30', '12:30 ', 'noon',
                                  '-1:30', '+1:30', '１２:30'])
def test_bad_times_are_refused_with_an_example(modern, time):
    assert 'for example "16:30"' in ask_time(modern, source_timezone='UTC', time=time, target_timezone='UTC')


@pytest.mark.parametrize('date', ['', '2026-02-29', '2026-13-01', '2026-00-10', '2026-01-00', '2026-1-1', '1969-12-31',
                                  'today', '2026-04-31'])
def test_bad_dates_are_refused_with_an_example(modern, date):
    text = ask_time(modern, source_timezone='UTC', time='12:00', target_timezone='UTC', date=date)
    assert 'YYYY-MM-DD, for example "2026-03-29"' in text


@pytest.mark.parametrize('arguments, word', [
    ({}, 'The argument "timezone" is missing'),
    ({'timezone': 5}, 'must be a short string'),
    ({'timezone': None}, 'must be a short string'),
    ({'timezone': 'A' * 300}, 'must be a short string'),
    ({'timezone': 'U\0TC'}, 'must be a short string'),
    ({'timezone': 'UTC', 'zone': 'UTC'}, 'Unknown argument "zone"; known are "timezone"'),
])
def test_bad_arguments_are_told_in_the_result(session, arguments, word):
    """A model sees a result, not a protocol error, and can do better."""
    result = check(session.version, 'CallToolResult',
                   session.ask('tools/call', {'name': 'get_current_time', 'arguments': arguments})['result'])
    assert result['isError'] and word in result['content'][0]['text']


def test_doubled_argument_is_refused(modern):
    modern.server.send_bytes(b'{"jsonrpc":"2.0","id":"d","method":"tools/call","params":{"name":"get_current_time",'
                             b'"arguments":{"timezone":"UTC","timezone":"Asia/Tokyo"},"_meta":%s}}\n'
                             % json.dumps(META).encode())
    assert 'occurs twice' in modern.server.answer('d')['result']['content'][0]['text']


@pytest.mark.parametrize('params', [{}, {'name': 5}, {'name': 'nothing'}, {'name': 'get_current_time', 'arguments': []},
                                    {'name': 'get_current_time', 'arguments': None}])
def test_calls_that_are_no_calls(session, params):
    assert session.error('tools/call', params)['code'] == -32602


def test_unknown_methods_and_cursors(session):
    assert session.error('resources/list')['code'] == -32601
    assert session.error('subscriptions/listen', {'notifications': {}})['code'] == -32601
    assert session.error('tools/list', {'cursor': ''})['code'] == -32602


def test_ping_is_legacy(session):
    answer = session.ask('ping')
    if session.version == MODERN:
        assert answer['error']['code'] == -32601
    else:
        assert answer['result'] == {}


def test_cancellation_and_other_notifications_are_harmless(session):
    session.server.notify('notifications/cancelled', {'requestId': 12345, 'reason': 'gone'})
    session.server.notify('notifications/whatever')
    session.server.send({'jsonrpc': '2.0', 'id': 'nobody', 'result': {}})
    assert len(session.tools()) == 2 and session.server.skipped == []


def test_ids_come_back_as_they_were(session):
    for id in (b'0', b'-5', b'123456789012345678901234567890', b'"x"', b'"\\u0031"', b'""'):
        params = json.dumps({'_meta': META} if session.version == MODERN else {}).encode()
        session.server.send_bytes(b'{"jsonrpc":"2.0","method":"tools/list","id":%s,"params":%s}\n' % (id, params))
        assert session.server.read_line().startswith(b'{"jsonrpc":"2.0","id":%s,"result"' % id)


@pytest.mark.parametrize('version', ['1999-01-01', '2025-12-31', MODERN, ''])
def test_unknown_version_is_offered_the_latest(run_server, version):
    server = run_server(time_server())
    result = server.initialize(version)['result']
    assert check('2025-11-25', 'InitializeResult', result)['protocolVersion'] == '2025-11-25'
    assert len(server.request('tools/list')['result']['tools']) == 2


@pytest.mark.parametrize('params', [
    {},
    {'protocolVersion': 5, 'capabilities': {}, 'clientInfo': {'name': 'x', 'version': '1'}},
    {'protocolVersion': '2025-11-25', 'clientInfo': {'name': 'x', 'version': '1'}},
    {'protocolVersion': '2025-11-25', 'capabilities': {}},
])
def test_bad_initialize(run_server, params):
    server = run_server(time_server())
    assert server.request('initialize', params)['error']['code'] == -32602
    assert server.request('tools/list')['error']['code'] == -32600      # there is no session


def test_before_initialize(run_server):
    server = run_server(time_server())
    assert server.request('ping')['result'] == {}
    for method in ('tools/list', 'tools/call'):
        error = server.request(method, {})['error']
        assert error['code'] == -32600 and 'initialize' in error['message']
    assert server.request('server/discover', {})['error']['code'] == -32602


def test_discover(modern):
    result = check(MODERN, 'DiscoverResult', modern.ask('server/discover')['result'])
    assert result['supportedVersions'] == [MODERN] and result['capabilities'] == {'tools': {}}
    assert result['resultType'] == 'complete' and result['cacheScope'] == 'public' and result['ttlMs'] > 0
    assert result['_meta']['io.modelcontextprotocol/serverInfo']['name'] == 'mcpd-time-server'


def test_modern_results_carry_what_they_must(modern):
    for method, params in (('tools/list', {}), ('tools/call', {'name': 'get_current_time'}),
                           ('tools/call', {'name': 'get_current_time', 'arguments': {'timezone': 'UTC'}})):
        result = modern.ask(method, params)['result']
        assert result['resultType'] == 'complete'
        assert result['_meta']['io.modelcontextprotocol/serverInfo']['name'] == 'mcpd-time-server'


def test_legacy_results_carry_nothing_modern(run_server):
    session = Session(run_server(time_server()), '2025-11-25')
    for result in (session.ask('tools/list')['result'], session.call('get_current_time', timezone='UTC')):
        assert not {'resultType', '_meta', 'ttlMs', 'cacheScope'} & set(result)


@pytest.mark.parametrize('version', ['2025-11-25', '2099-01-01', ''])
def test_unsupported_modern_version(modern, version):
    answer = modern.ask('server/discover', {'_meta': {'io.modelcontextprotocol/protocolVersion': version}})
    check(MODERN, 'UnsupportedProtocolVersionError', answer)
    assert answer['error']['data'] == {'supported': [MODERN], 'requested': version}


@pytest.mark.parametrize('meta', [
    {'io.modelcontextprotocol/protocolVersion': MODERN},
    {**META, 'io.modelcontextprotocol/protocolVersion': 7},
    {**META, 'io.modelcontextprotocol/clientCapabilities': []},
])
def test_bad_meta(run_server, meta):
    answer = run_server(time_server()).request('tools/list', {'_meta': meta})
    assert check(MODERN, 'JSONRPCErrorResponse', answer)['error']['code'] == -32602


def test_both_eras_on_one_connection(run_server):
    """Each request says for itself which era it is of; initialize is unknown to modern ones."""
    server = run_server(time_server())
    assert server.request('tools/list', {'_meta': META})['result']['resultType'] == 'complete'
    assert server.request('initialize', {'_meta': META})['error']['code'] == -32601
    server.initialize()
    assert 'resultType' not in server.request('tools/list')['result']
    assert server.request('tools/list', {'_meta': META})['result']['resultType'] == 'complete'


@pytest.mark.parametrize('line, code', [
    (b'{not json', -32700), (b'{"jsonrpc":"2.0","id":1,"method":"ping"}}', -32700), (b'\xff\xfe', -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', -32700),
    (b'5', -32600), (b'"x"', -32600), (b'{}', -32600), (b'[]', -32600),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32600), pytest.param(b'x' * (2 << 20), -32600, id='too long'),
])
def test_broken_lines_get_an_error_without_an_id(run_server, line, code):
    """And the connection lives. MCP has no null ids, so the error has none at all."""
    server = run_server(time_server())
    server.send_bytes(line + b'\n')
    answer = check(MODERN, 'JSONRPCErrorResponse', server.read())
    assert answer['error']['code'] == code and 'id' not in answer
    assert server.request('ping')['result'] == {}


@pytest.mark.parametrize('line, code', [
    (b'{"id":9,"method":"ping"}', -32600), (b'{"jsonrpc":"1.0","id":9,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":9,"method":5}', -32600), (b'{"jsonrpc":"2.0","id":9}', -32600),
    (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":5}', -32600),
    (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":[]}', -32602),
])
def test_broken_requests_get_an_error_with_their_id(run_server, line, code):
    server = run_server(time_server())
    server.send_bytes(line + b'\n')
    answer = check(MODERN, 'JSONRPCErrorResponse', server.read())
    assert answer['error']['code'] == code and answer['id'] == 9


def test_framing(run_server):
    """Blank lines, CRLF, a BOM, pretty spaces, several messages in one write, an unterminated last line."""
    server = run_server(time_server())
    ping = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}'
    server.send_bytes(b'\n\r\n\xef\xbb\xbf' + ping % 1 + b'\r\n  ' + ping % 2 + b' \n' + ping % 3)
    assert [server.read()['id'] for _ in range(2)] == [1, 2]
    server.proc.stdin.close()
    assert server.read()['id'] == 3 and server.read() is None and server.close() == 0


def test_a_byte_at_a_time(run_server):
    server = run_server(time_server())
    for byte in b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n':
        server.send_bytes(bytes([byte]))
    assert server.answer(1)['result'] == {}


def test_batches_of_2025_03_26(run_server):
    """S6's other side: one array of answers, in order, nothing for notifications; empty and nested ones are refused."""
    server = run_server(time_server())
    server.initialize('2025-03-26')
    ping = {'jsonrpc': '2.0', 'method': 'ping'}
    server.send([{**ping, 'id': 1}, ping, {**ping, 'id': 'b'}, {'jsonrpc': '2.0', 'id': 3, 'method': 'nothing'}, 5])
    answers = server.read()
    assert [a.get('id') for a in answers] == [1, 'b', 3, None]
    assert [a['error']['code'] for a in answers if 'error' in a] == [-32601, -32600]
    check('2025-03-26', 'JSONRPCBatchResponse', answers[:3])
    server.send([ping])
    server.send([])
    assert server.read()['error']['code'] == -32600
    server.send([[{**ping, 'id': 1}]])
    assert server.read()[0]['error']['code'] == -32600
    server.initialize('2025-06-18')
    server.send([{**ping, 'id': 1}])
    assert server.read()['error']['code'] == -32600


def test_command_line(run_server):
    shown = run_server({**time_server(), 'args': ['--version']})
    assert shown.read_line().startswith(b'mcpd-time-server 0.') and shown.close() == 0
    refused = run_server({**time_server(), 'args': ['--nonsense']})
    refused.stderr.wait('usage: mcpd-time-server')
    assert refused.close() == 2


def test_runs_without_an_environment(run_server):
    """No TZ, HOME or LANG of the caller matters."""
    server = run_server({'command': '/usr/bin/env', 'args': ['-i', 'TZ=Asia/Tokyo', time_server()['command']]})
    server.initialize()
    answer = server.request('tools/call', {'name': 'get_current_time', 'arguments': {'timezone': 'UTC'}})
    assert answer['result']['structuredContent']['utc_offset'] == '+00:00'
