"""R4: a container outlives its client; mcpd stops it by its id, on every path."""

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import uuid

import pytest
from harness import HERE, wait_for


class Dockerd:
    """The daemon behind servers/docker.py: containers are processes that only it ends."""

    def __init__(self, dir):
        self.path, self.calls, self.containers = str(dir / 'dockerd.sock'), [], {}
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            args = json.loads(conn.makefile().readline())
            conn.sendall(json.dumps(self._act(args)).encode() + b'\n')
            conn.close()

    def _act(self, args):
        self.calls.append(args)
        if 'run' in args:
            id = uuid.uuid4().hex * 2
            self.containers[id] = subprocess.Popen(['/bin/sleep', '600'], env={})
            return id
        process = self.containers.get(args[-1])
        if process:
            process.kill()
            process.wait()
        return bool(process)

    def running(self):
        return [id for id, p in self.containers.items() if p.poll() is None]

    def stops(self):
        return [c for c in self.calls if 'stop' in c]

    def close(self):
        self.listener.close()
        for p in self.containers.values():
            p.kill()
            p.wait()


@pytest.fixture
def docker(make_daemon):
    """(daemon that is not started, Dockerd, a function that makes server definitions)"""
    daemon = make_daemon(start=False)
    bin = daemon.path('bin')
    bin.mkdir()
    for name in ('docker', 'podman'):
        shutil.copy(HERE / 'servers' / 'docker.py', bin / name)
        text = (bin / name).read_text().replace("Path(__file__).with_name('fake.py')", repr(str(HERE / 'servers' / 'fake.py')))
        (bin / name).write_text(text)
    dockerd = Dockerd(daemon.dir)
    daemon.extra_env['FAKE_DOCKERD'] = dockerd.path

    def definition(*args, command='docker', fake=None, **members):
        return {'command': str(bin / command), 'args': [*(args or ('run', '-i', '--rm', 'image')), json.dumps(fake or {})],
                'stopGrace': 300, **members}

    yield daemon, dockerd, definition
    dockerd.close()


def connected(daemon, name='c'):
    with daemon.client() as c:
        c.wait_state(name, 'connected')


def end_by_disconnect(d, definition):
    with d.client() as c:
        c.call('servers/disconnect', {'server': 'c'})


def end_by_reload(d, definition):
    d.write_config({})
    with d.client() as c:
        c.call('daemon/reload')


def end_by_shutdown(d, definition):
    with d.client() as c:
        c.call('daemon/shutdown')
    d.wait_exit(0)


def end_by_crash(d, definition):
    with d.client() as c:
        pid = c.server('c')['pid']
        d.write_config({'c': {**definition(), 'enabled': False}})
        os.kill(pid, signal.SIGKILL)
        c.call('daemon/reload')


def end_by_kill_of_the_daemon(d, definition):
    d.kill()


def end_by_signal(d, definition):
    d.stop()


@pytest.mark.parametrize('end', [end_by_disconnect, end_by_reload, end_by_shutdown, end_by_crash, end_by_kill_of_the_daemon,
                                 end_by_signal], ids=lambda f: f.__name__)
def test_R4_a_container_is_stopped_by_its_id_on_every_path(docker, end):
    d, dockerd, definition = docker
    d.write_config({'c': definition()})
    d.start()
    connected(d)
    (id,) = dockerd.running()
    end(d, definition)
    wait_for(lambda: not dockerd.running(), what='the end of the container')
    assert ['stop', '-t', '1', id] in dockerd.calls
    wait_for(lambda: ['rm', '-f', id] in dockerd.calls)
    folder = d.dir / 'run' / 'mcpd' / 'mcpd.sock.containers'
    wait_for(lambda: not list(folder.iterdir()), what='the end of the files about it')


@pytest.mark.parametrize('args, prefix', [
    (('--context', 'remote', '-l', 'debug', 'run', '-i', 'image'), ['--context', 'remote', '-l', 'debug']),
    (('container', 'run', '-i', 'image'), []), (('--tls', '--host=tcp://x', 'run', 'image'), ['--tls', '--host=tcp://x'])])
def test_R4_options_in_front_of_run_are_for_stop_too(docker, args, prefix):
    d, dockerd, definition = docker
    d.write_config({'c': definition(*args, command='podman')})
    d.start()
    connected(d)
    (id,) = dockerd.running()
    d.stop()
    assert not dockerd.running()
    assert dockerd.stops() == [[*prefix, 'stop', '-t', '1', id]]


def test_R4_a_cidfile_of_the_configuration_is_used_and_kept(docker):
    d, dockerd, definition = docker
    cidfile = d.path('own.cid')
    d.write_config({'c': definition('run', '--cidfile', str(cidfile), 'image')})
    d.start()
    connected(d)
    (id,) = dockerd.running()
    d.stop()
    assert not dockerd.running() and cidfile.read_text() == id
    assert [a for a in dockerd.calls[0] if a.startswith('--cidfile')] == ['--cidfile']


def test_R4_what_an_earlier_life_left_is_removed(docker):
    d, dockerd, definition = docker
    d.write_config({'c': definition()})
    d.start()
    connected(d)
    (id,) = dockerd.running()
    # The worst case: everything that could stop it is killed at once.
    keepers = [p.pid for p in d.processes() if p.name in ('mcpd-keeper', 'mcpd-guard')]
    for pid in keepers:
        os.kill(pid, signal.SIGSTOP)
    os.kill(d.pid, signal.SIGKILL)
    for pid in keepers:
        os.kill(pid, signal.SIGKILL)
    for p in d.processes():
        if p.pid != d.pid:
            os.kill(p.pid, signal.SIGKILL)
    d.wait_exit(-signal.SIGKILL)
    assert dockerd.running() == [id]
    d.write_config({})
    d.start()
    wait_for(lambda: not dockerd.running(), what='the end of the container')
    assert ['rm', '-f', id] in dockerd.calls


def test_other_commands_are_left_as_they_are(docker):
    d, dockerd, definition = docker
    d.write_config({'c': definition('exec', '-i', 'run', 'x')})
    d.start()
    wait_for(lambda: dockerd.calls)
    assert dockerd.calls[0] == ['exec', '-i', 'run', 'x', '{}']
