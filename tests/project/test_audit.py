"""The audit fails for a known vulnerability, and only for that."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAFE = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
UNKNOWN = {"name": "c", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (None, 0, "audit: skipped, no answer: ConnectionError: no network"),
        ([UNKNOWN], 0, "audit: skipped, the service knows none of the packages"),
        ([SAFE, UNKNOWN], 0, "audit: 0 vulnerabilities in 1 of 2 packages"),
        ([SAFE, BAD], 1, "audit: b 2: CVE-1, fixed in 3"),
    ],
)
def test_the_audit_says_what_is_known(tmp_path, answer, status, text):
    stub = tmp_path / "pip-audit"
    body = "import sys\n"
    if answer is None:
        body += "print('ConnectionError: no network', file=sys.stderr)\n"
    else:
        body += "place = sys.argv[sys.argv.index('--output') + 1]\n"
        body += f"open(place, 'w').write({json.dumps({'dependencies': answer})!r})\n"
    stub.write_text(f"#!{sys.executable}\n{body}sys.exit(1)\n")
    stub.chmod(0o755)
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["sh", str(ROOT / ".ci" / "audit")]
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    assert text in done.stdout
