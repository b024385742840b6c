"""Services of a team on loopback for tests: an S3 store (moto), PostgreSQL and MLflow's server."""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PATIENCE = 240  # seconds that a server may take to answer on a busy machine
KEYS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}
POSTGRES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


def need(*modules):
    """Skip the tests of a file unless these modules are there (extra `s3`)."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs the package {module}", allow_module_level=True)


def free_port():
    """Return a port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def started(command, address, **options):
    """Run a server until the block ends; it must answer at an address by then."""
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115
    process = subprocess.Popen(command, stdout=log, stderr=log, **options)
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(address, timeout=5).close()
                break
            except urllib.error.HTTPError:  # it answers
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise AssertionError(
                        f"{command} does not answer: {log.read()[-3000:]}"
                    ) from None
                time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def s3():
    """Yield the address of an empty S3 store."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with started(command, address):
        yield address


@contextmanager
def postgres(folder):
    """Yield the URI of a new PostgreSQL database on loopback, below a folder."""
    if POSTGRES is None or shutil.which("runuser") is None or os.getuid() != 0:
        pytest.skip("needs Debian's postgresql, and to be root")
    place, port = Path(folder) / "postgres", free_port()
    place.mkdir()
    for each in (place, *place.parents[:3]):
        each.chmod(0o755)
    shutil.chown(place, "postgres", "postgres")

    def run(program, *arguments):
        command = ["runuser", "-u", "postgres", "--", str(POSTGRES / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=place, timeout=PATIENCE)

    data = str(place / "data")
    run("initdb", "-D", data, "-A", "trust", "-N")
    options = f"-h 127.0.0.1 -p {port} -k {place}"
    run("pg_ctl", "-D", data, "-o", options, "-w", "-l", str(place / "log"), "start")
    try:
        run("createdb", "-h", "127.0.0.1", "-p", str(port), "mlflow")
        yield f"postgresql+psycopg2://postgres@127.0.0.1:{port}/mlflow"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")


class Proxy:
    """A port of loopback that leads to another one, and can be closed and opened again."""

    def __init__(self, target):
        self.target, self.port, self.listener = target, free_port(), None
        self.ends = []

    def open(self):
        """Begin to listen."""
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def close(self):
        """Refuse all connections from now on, and cut those that clients keep open."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for each in self.ends:
            with suppress(OSError):  # its other end was faster
                each.shutdown(socket.SHUT_RDWR)
        self.ends.clear()

    def _accept(self, listener):
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.target))
            self.ends += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(one, other):
    """Send on what one end sends, until it ends."""
    try:
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        other.close()
