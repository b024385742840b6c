"""Look for files that a reader does not take well: mutates good files, guided by coverage.

    python -m tests.fuzz SECONDS [NAME ...]

Each reader has the same share of the seconds. What covers something new is kept in build/fuzz and
is where the next call goes on. An input that ends in anything but one plain line, or takes too
long or too much memory (`tests.fuzz.look`), goes to tests/fuzz/cases, where a test takes it up.
"""

import subprocess
import sys

from tests.fuzz.readers import CASES, READERS, ROOT, WORK, good_files


def main(seconds, *names):
    """Look for bad files of readers, one after the other, each in a process of its own."""
    WORK.mkdir(parents=True, exist_ok=True)
    for name, path in good_files(WORK).items():
        (WORK / name).mkdir(exist_ok=True)
        (WORK / name / "good").write_bytes(path.read_bytes())
    chosen, tried = names or tuple(READERS), 0
    for name in chosen:
        command = [sys.executable, "-m", "tests.fuzz.look", name, str(int(seconds) // len(chosen))]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")
        lines = (done.stdout + done.stderr).splitlines()
        runs = [line for line in lines if line.startswith("Done ")]
        tried += int(runs[-1].split()[1]) if runs else 0
        found = [line for line in lines if line.startswith(f"{name}-") or "SUMMARY" in line]
        outcome = runs[-1] if runs else f"ended with {done.returncode}: {lines[-1:]}"
        print(f"{name}: {outcome}", *found, sep="\n  ", flush=True)
    print(f"{tried} inputs of {len(chosen)} readers; kept as cases: {len([*CASES.glob('*-*')])}")


if __name__ == "__main__":
    main(*sys.argv[1:])
