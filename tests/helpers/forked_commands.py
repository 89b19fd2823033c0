"""Commands of harness as forks of a process that has loaded what they need.

To load pandas, SQLAlchemy, scikit-learn and OpenTuner takes each command 3 s of CPU. A program of
the standard library alone takes the place of a command, passes its words, folder, environment and
files to that process, and ends as the command does.
"""

import contextlib
import importlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
from contextlib import contextmanager
from pathlib import Path

_COMMANDS = ("analyse", "check", "compare", "dispatch", "export", "merge", "tune")
_LIBRARIES = ("pandas", "scipy.optimize", "scipy.spatial", "scipy.stats", "sklearn.ensemble")
_LOADED = (*(f"harness.commands.{name}" for name in _COMMANDS), "harness.search", *_LIBRARIES)

_MOST_BYTES = 1 << 18


@contextmanager
def forked_commands(path):
    """Serve commands at a socket; return the shell's words that take the place of `harness`."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.helpers.forked_commands", "serve", str(path)]
    with subprocess.Popen(command, cwd=root) as server:
        try:
            while not path.exists():
                assert server.poll() is None, "the process of the commands has ended"
                time.sleep(0.05)
            yield f"{sys.executable} -I -S {__file__} ask {path}"
        finally:
            server.kill()


def _serve(path):
    for name in _LOADED:
        importlib.import_module(name)
    loading = f"{path}.loading"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(loading)
        listening.listen()
        os.rename(loading, path)
        while True:
            connection, _ = listening.accept()
            with contextlib.suppress(ChildProcessError):  # there is none yet
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if os.fork() == 0:
                listening.close()
                _run(connection)
            connection.close()


def _run(connection):
    """Be the command that is asked for."""
    from harness.__main__ import main

    message, files, _, _ = socket.recv_fds(connection, _MOST_BYTES, 3)
    request = json.loads(message)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["harness", *request["words"]]
    threading.Thread(target=_end_with, args=[connection], daemon=True).start()
    code = 1
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code
    except Exception:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    connection.send(bytes([int(code or 0)]))
    os._exit(0)


def _end_with(connection):
    """End this process where the program that asked for it was killed."""
    connection.recv(1)
    os._exit(1)


def _ask(path, words):
    """Have a command run; return its exit code."""
    request = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(path)
        socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
        answer = connection.recv(1)
    return answer[0] if answer else 1


if __name__ == "__main__":
    action, socket_path, *command_words = sys.argv[1:]
    if action == "serve":
        _serve(socket_path)
    sys.exit(_ask(socket_path, command_words))
