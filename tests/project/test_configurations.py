"""The configurations of the tests: each commit has its turn, and a wrong name is refused."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "tests/configurations.sh"


def call(root, *arguments):
    """Run the script of a project to its end."""
    command = ["sh", str(root / SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_turn_goes_round_by_the_number_of_commits(tmp_path):
    names = call(ROOT, "list").stdout.split()
    assert {"usual", "no-vectors", "avx2", "two-threads", "order-1"} <= set(names)
    (tmp_path / "tests").mkdir()
    (tmp_path / SCRIPT).write_text((ROOT / SCRIPT).read_text())
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    told = []
    for _ in range(3):
        empty = ["commit", "-q", "--no-gpg-sign", "--allow-empty", "-m", "one more"]
        subprocess.run([*git, *empty], check=True)
        done = call(tmp_path, "turn", "--version")  # of pytest, in place of the tests
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.splitlines()[0].removeprefix("configuration of this commit: "))
    assert told == names[1:4]


def test_an_unknown_configuration_is_refused_with_the_names():
    done = call(ROOT, "fast")
    assert done.returncode == 2
    assert done.stderr.startswith("error: configuration must be one of usual no-vectors avx2")
    assert done.stderr.rstrip().endswith("got fast")


def test_continuous_integration_takes_the_turn():
    assert "make test-in-turn" in (ROOT / ".ci" / "run").read_text().splitlines()
