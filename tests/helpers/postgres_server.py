"""A PostgreSQL server for tests: in a temporary folder, on a Unix socket, without a port."""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.helpers.planted import is_running

ADVICE = "no PostgreSQL server here (Debian: apt-get install postgresql)"

_OPTIONS = {
    "fsync": "off",  # a crash of the machine may lose what a test wrote
    "listen_addresses": "",
    "lock_timeout": "60s",  # so that no test waits for ever
    "max_connections": "40",
    "shared_buffers": "16MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
_PATIENCE_S = 30


def programs():
    """The folder of the newest server's programs; None where there is none."""
    debian = Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")
    newest = sorted(debian, key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("pg_ctl")
    found = [*([Path(on_path)] if on_path else []), *newest]
    return found[-1].parent if found else None


class Server:
    """A server that runs as another user than root."""

    def __init__(self, folder, bin_):
        self._folder, self._bin = folder, bin_
        self._data = folder / "data"
        self._numbers = itertools.count(1)
        self._as = {}
        if os.geteuid() == 0:
            user = next(u for u in pwd.getpwall() if u.pw_name in ("postgres", "nobody"))
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(folder, user.pw_uid, user.pw_gid)
        words = "-U harness -A trust --no-sync -E UTF8 --no-locale --wal-segsize=1"
        self._run("initdb", "-D", str(self._data), *words.split())

    def _run(self, program, *words):
        done = subprocess.run(
            [str(self._bin / program), *words],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            **self._as,
        )
        assert done.returncode == 0, done.stderr + self.log()

    def log(self):
        path = self._folder / "log"
        return path.read_text() if path.exists() else ""

    def start(self, limit_bytes=None):
        """Start the server; with a limit, no file of it may grow beyond.

        It is our own child, so that no trace of it is left once we have waited for its end. Where
        the reaper of orphans is slow, `pg_ctl` would take a killed server's for a running one.
        """
        options = {**_OPTIONS, "unix_socket_directories": str(self._folder)}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        command = [str(self._bin / "postgres"), "-D", str(self._data), *words]
        if limit_bytes is not None:
            limit = f'ulimit -f {limit_bytes // 512}; exec "$@"'  # sh counts blocks of 512 bytes
            command = ["sh", "-c", limit, "sh", *command]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as,
            )
        is_ready = [str(self._bin / "pg_isready"), "-q", "-h", str(self._folder)]
        end = time.monotonic() + _PATIENCE_S
        while subprocess.run(is_ready, check=False).returncode != 0:
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.02)

    def stop(self):
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(_PATIENCE_S)

    def kill(self):
        """Kill the server and all that it started."""
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self._process.pid)], capture_output=True, text=True
        ).stdout.split()
        self._process.kill()
        for pid in map(int, children):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(_PATIENCE_S)
        end = time.monotonic() + _PATIENCE_S
        while any(map(is_running, map(int, children))):
            assert time.monotonic() < end
            time.sleep(0.01)

    def url(self, name="postgres", user="harness"):
        return f"postgresql://{user}@/{name}?host={self._folder}"

    def make_database(self):
        """Return the URL of a new, empty database."""
        name = f"test_{next(self._numbers)}"
        ((version,),) = self.execute("SHOW server_version_num")
        quickly = "STRATEGY FILE_COPY" if int(version) >= 150_000 else ""  # older ones do so anyway
        self.execute(f"CREATE DATABASE {name} TEMPLATE template0 {quickly}")
        return self.url(name)

    def drop(self, url):
        self.execute(f"DROP DATABASE {url.partition('@/')[2].partition('?')[0]} WITH (FORCE)")

    def execute(self, sql, url=None):
        """Execute statements, each committed at once; return the rows of the last one."""
        return execute(url or self.url(), sql)


def execute(url, sql):
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(sql)
        while found.nextset():
            pass
        return found.fetchall() if found.description else []


@contextmanager
def running_server(limit_bytes=None):
    """A new server."""
    bin_ = programs()
    assert bin_ is not None
    folder = Path(tempfile.mkdtemp(prefix="harness-pg-", dir="/tmp"))  # a socket's path is short
    try:
        server = Server(folder, bin_)
        server.start(limit_bytes)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
