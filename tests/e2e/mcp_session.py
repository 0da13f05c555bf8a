"""MCP over an attached connection (PROTOCOL.md, "MCP dialect"), on top of mcpd_client.Client.

    s = legacy(daemon, 'fake')                  # attached to one server, initialize and initialized done
    s = legacy(daemon)                          # to all of them
    s = modern(daemon, 'fake')                  # 2026-07-28: requests get their _meta by themselves
    s.call('tools/list'); s.tool_text('echo', {'text': 'x'})
    s.opened                                    # the result of initialize, or of server/discover
"""

from mcpd_client import Client, TIMEOUT

MODERN = '2026-07-28'
META = 'io.modelcontextprotocol/'


class Session(Client):
    def __init__(self, path, server=None, **attach):
        super().__init__(path)
        self.modern_meta = None
        self.opened = None
        self.attached_to = self.mcp_attach(server, **attach)

    def request(self, method, params=None, id=None):
        if self.modern_meta is not None:
            params = dict(params or {})
            params['_meta'] = {**self.modern_meta, **params.get('_meta', {})}
        return super().request(method, params, id)

    def initialize(self, version='2025-11-25', capabilities=None, name='test', initialized=True):
        self.opened = self.call('initialize', {'protocolVersion': version, 'capabilities': capabilities or {},
                                               'clientInfo': {'name': name, 'version': '1'}})
        if initialized:
            self.notify('notifications/initialized')
        return self.opened

    def be_modern(self, capabilities=None, name='test', **meta):
        self.modern_meta = {META + 'protocolVersion': MODERN, META + 'clientCapabilities': capabilities or {},
                            META + 'clientInfo': {'name': name, 'version': '1'}, **meta}

    def call_tool(self, name, arguments=None, id=None, **params):
        return self.request('tools/call', {'name': name, 'arguments': arguments or {}, **params}, id=id)

    def tool_text(self, name, arguments=None, timeout=TIMEOUT, **params):
        return self.call_tool(name, arguments, **params).wait(timeout).result['content'][0]['text']

    def names(self, method='tools/list', member='tools', key='name'):
        return [item[key] for item in self.call(method)[member]]


def wait_connected(daemon, *servers):
    """The union answers a listing within 250 ms with what there is: tests first wait for what they want to see."""
    with daemon.client() as c:
        for server in servers:
            c.wait_state(server, 'connected')


def legacy(daemon, server=None, version='2025-11-25', capabilities=None, **attach):
    session = Session(daemon.socket, server, **attach)
    daemon.clients.append(session)
    session.initialize(version, capabilities)
    return session


def modern(daemon, server=None, capabilities=None, discover=True, **meta):
    session = Session(daemon.socket, server)
    daemon.clients.append(session)
    session.be_modern(capabilities, **meta)
    if discover:
        session.opened = session.call('server/discover')
    return session
