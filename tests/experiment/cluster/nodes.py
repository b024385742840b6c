"""A Ray cluster whose nodes are processes of this machine."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

BIN = Path(sys.executable).parent
STARTS = 10  # of a node, on a machine that is busy


def free_ports(count):
    """Ports that are free, all at once; below those that Ray's workers take."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def plain_environment(**extra):
    dropped = ("RAY_", "DVC_", "MLFLOW_", "HOSM_", "PYTEST", "PYTHONPATH", "CI")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    return {**kept, "PATH": f"{BIN}:{kept['PATH']}", "OMP_NUM_THREADS": "1", **extra}


class Cluster:
    """Nodes that `ray start` makes on this machine, ended by their process ids."""

    def __init__(self, folder, **extra):
        self.folder, self.nodes = folder, []
        self.gcs, self.dashboard = free_ports(2)
        # whoever ends a node waits for nothing that still runs on it, half a minute by default
        at_once = {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0"}
        self.environment = plain_environment(**at_once, **extra)
        self.address = f"127.0.0.1:{self.gcs}"

    def add(self, cpus):
        """Start a node; the first one is the head."""
        names = ("dashboard-agent-listen-port", "dashboard-agent-grpc-port")
        names += ("metrics-export-port", "runtime-env-agent-port")
        ports = zip(names, free_ports(len(names)), strict=True)
        options = [f"--{name}={port}" for name, port in ports]
        if self.nodes:
            options += [f"--address={self.address}"]
        else:
            options += ["--head", f"--port={self.gcs}", f"--dashboard-port={self.dashboard}"]
            options += ["--dashboard-host=127.0.0.1", "--include-dashboard=true"]
            options += [f"--ray-client-server-port={free_ports(1)[0]}"]
        options += ["--block", f"--num-cpus={cpus}", "--node-ip-address=127.0.0.1"]
        options += [f"--temp-dir={self.folder}/{len(self.nodes)}"]  # as if each were a machine
        options += ["--object-store-memory=150000000", "--disable-usage-stats"]
        command = [str(BIN / "ray"), "start", *options]
        self.nodes.append(self.started(command, self.folder / f"node{len(self.nodes)}.log"))

    def started(self, command, log):
        """The process of a node that runs; Ray gives one up that takes more than 30 seconds."""
        for _ in range(STARTS):
            with log.open("w") as file:
                node = subprocess.Popen(command, env=self.environment, stdout=file, stderr=file)
            while "Ray runtime started" not in (said := log.read_text()) and node.poll() is None:
                time.sleep(0.5)
            if node.poll() is None:
                return node
            assert "timed out during startup" in said, said[-3000:]
        raise AssertionError(f"no node started, {STARTS} times: {said[-3000:]}")

    def drain(self, seconds):
        """Give notice that the node which is not the head will be taken away, as a cloud does."""
        code = (
            "import ray; ray.init(log_to_driver=False); "
            "print(*(node['NodeID'] for node in ray.nodes() if node['Alive'] "
            "and 'node:__internal_head__' not in node['Resources']))"
        )
        asked = {**self.environment, "RAY_ADDRESS": self.address}
        done = subprocess.run(
            [sys.executable, "-c", code], env=asked, capture_output=True, text=True, check=True
        )
        node = done.stdout.split()[-1]
        command = [BIN / "ray", "drain-node", f"--address={self.address}", f"--node-id={node}"]
        command += ["--reason=DRAIN_NODE_REASON_PREEMPTION", "--reason-message=taken away"]
        command += [f"--deadline-remaining-seconds={seconds}"]
        subprocess.run(command, check=True, env=self.environment)

    def kill(self, number):
        """Have a node vanish with all that runs on it, as a machine does."""
        node = psutil.Process(self.nodes[number].pid)
        for each in [*node.children(recursive=True), node]:
            each.kill()
        self.nodes[number].wait(60)

    def stop(self):
        for node in reversed(self.nodes):
            node.send_signal(signal.SIGTERM)
        for node in self.nodes:
            node.wait(200)


def wait_for(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.5)
