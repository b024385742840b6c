"""Mutate the files of one reader: `python -m tests.fuzz.look NAME SECONDS`; see `tests.fuzz`."""

import hashlib
import sys

import atheris

with atheris.instrument_imports(include=["hosm", "openpyxl", "tifffile", "yaml", "zipfile"]):
    from tests.fuzz.readers import CASES, READERS, WORK, ends_well

LONGEST = 20  # seconds that an input of `LENGTH` bytes may take on a busy machine
LARGEST = 4000  # megabytes of the whole process, of which the libraries take one thousand
LENGTH = 40_000  # bytes of an input, at most


def main(name, seconds):
    """Mutate until the seconds are over; the process then ends."""
    place = WORK / f"tried-{name}{READERS[name][0]}"

    def one(data):
        place.write_bytes(data)
        if (wrong := ends_well(name, place)) is None:
            return
        kind = hashlib.sha256(wrong[:40].encode()).hexdigest()[:8]
        kept = CASES / f"{name}-{kind}{READERS[name][0]}"
        if not kept.exists():
            kept.write_bytes(data)
            print(f"\n{kept.name}: {wrong}", flush=True)

    limits = [f"-max_total_time={seconds}", f"-max_len={LENGTH}", f"-timeout={LONGEST}"]
    limits += [f"-rss_limit_mb={LARGEST}", f"-artifact_prefix={CASES}/{name}-"]
    atheris.Setup([sys.argv[0], str(WORK / name), *limits], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
