"""Check that a report page is self-contained and that every table of it is filled.

Run as `python -m tests.experiment.report.check_report reports/index.html`.
"""

import re
import sys
from pathlib import Path


def problems(path):
    """Return what is wrong with a page, as lines."""
    text = Path(path).read_text()
    found = []
    links = re.findall(
        r"""(?:src|href)=["'](https?:[^"']+\.(?:js|css|png|svg|woff2?))["']""", text
    )
    found += [f"external asset {link}" for link in links]
    if text.count("data:image/png;base64,") < 5:
        found.append("fewer than five inline pictures")
    tables = re.findall(r"<table.*?</table>", text, flags=re.DOTALL)
    if len(tables) < 3:
        found.append(f"{len(tables)} tables, expected at least 3")
    for number, table in enumerate(tables):
        if not cells(table):
            found.append(f"table {number} has no filled cell")
    return found


def cells(table):
    """Return the texts of a table's body cells that hold something."""
    texts = re.findall(r"<td[^>]*>(.*?)</td>", table, flags=re.DOTALL)
    return [text for text in texts if re.sub(r"<[^>]+>", "", text).strip(" –—-\n")]


if __name__ == "__main__":
    wrong = problems(sys.argv[1])
    print("\n".join(wrong) or "the report is complete")
    sys.exit(bool(wrong))
