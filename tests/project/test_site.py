"""The site and the report in a browser: nothing missing, nothing too wide, light and dark."""

import functools
import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
PAGES = (
    *("index", "report", "examples", "changelog", "negative-results", "reference/operators"),
    *("guide", "which-function", "glossary", "photographs", "command-line", "cluster"),
    *("gallery/index", "gallery/plot_2_a_noisy_photograph", "gallery/plot_5_causal_order"),
    *("compare-runs", "first-cluster"),
)
HARNESS = """<!DOCTYPE html><link rel="icon" href="data:,"><body><iframe id="frame" src="%s"
style="width:%dpx;height:900px;border:0"></iframe><pre id="out"></pre><script>
frame.onload = () => setTimeout(() => {
  const page = frame.contentDocument, root = page.documentElement;
  const wide = [...page.querySelectorAll("table, pre, math")].filter((each) => {
    for (let e = each; e !== page.body; e = e.parentElement) {
      if (getComputedStyle(e).overflowX === "auto") return false;
    }
    const inner = Math.max(...[...each.querySelectorAll("*")].map(
      (part) => part.getBoundingClientRect().right), each.getBoundingClientRect().right);
    return inner > root.clientWidth + 1;
  });
  out.textContent = JSON.stringify({
    broken: [...page.images].filter((i) => !i.complete || !i.naturalWidth).map((i) => i.src),
    pictures: page.images.length,
    // a thumbnail of the gallery has its tutorial's title below it, and nothing to add
    nameless: [...page.images].filter((i) => !i.alt && !i.closest(".sphx-glr-thumbcontainer"))
      .length,
    beyond: root.scrollWidth - root.clientWidth,
    wide: wide.map((each) => each.outerHTML.slice(0, 80)),
    unreachable: [...page.querySelectorAll("a[href], summary, button")]
      .filter((each) => each.tabIndex < 0 && each.offsetParent).length,
    background: getComputedStyle(page.body).backgroundColor,
  });
}, 1500);
</script>"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed"),
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that keeps what it could not find in place of printing it."""

    def log_message(self, *arguments):
        pass

    def send_error(self, code, *arguments):
        self.server.missing.append((code, self.path))
        super().send_error(code, *arguments)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs"]
    command += [str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    server.missing = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, server
    server.shutdown()


def look(site, page, width, dark=False):
    """Return what a browser finds on a page, and what it prints on its console."""
    folder, server = site
    (folder / "harness.html").write_text(HARNESS % (f"{page}.html", width))
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += ["--v=0", "--window-size=1400,1000", "--virtual-time-budget=15000", "--dump-dom"]
    command += [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    url = f"http://127.0.0.1:{server.server_port}/harness.html"
    done = subprocess.run([*command, url], capture_output=True, text=True, timeout=180)
    found = re.search(r'<pre id="out">(.+?)</pre>', done.stdout)
    assert found, done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    text = found[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
    return json.loads(text), console


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_whole_and_fits_the_screen(site, page, width):
    found, console = look(site, page, width)
    assert not console
    assert not found["broken"] and not found["nameless"]
    assert found["beyond"] <= 0 and not found["wide"]
    assert not found["unreachable"]
    assert not site[1].missing
    if page == "report":
        assert found["pictures"] > 10


@pytest.mark.parametrize("page", ["index", "report"])
def test_a_page_is_light_or_dark_as_the_reader_wishes(site, page):
    light, _ = look(site, page, 1280)
    dark, _ = look(site, page, 1280, dark=True)

    def brightness(found):
        return sum(map(int, re.findall(r"\d+", found["background"])[:3]))

    assert brightness(light) > 600 > 200 > brightness(dark)


def test_each_link_within_the_site_leads_somewhere(site):
    folder, _ = site
    pages = {path: path.read_text() for path in folder.rglob("*.html")}
    # viewcode's pages of source code have links of their own, which it does not check
    pages = {path: text for path, text in pages.items() if "_modules" not in path.parts}
    names = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    broken = []
    for path, text in pages.items():
        for link in re.findall(r'<a [^>]*href="([^"]+)"', text):
            if re.match(r"[a-z]+:", link) or path.name in ("report.html", "harness.html"):
                continue
            target, _, part = urllib.parse.unquote(link).partition("#")
            found = (path.parent / target).resolve() if target else path
            if not found.exists() or (part and part not in names.get(found, {part})):
                broken.append(f"{path.name}: {link}")
    assert not broken


def test_each_tutorial_shows_its_output_and_its_pictures(site):
    for script in (ROOT / "docs" / "tutorials").glob("plot_*.py"):
        page = (site[0] / "gallery" / f"{script.stem}.html").read_text()
        drawn = "plot." in script.read_text() or "subplots" in script.read_text()
        assert "sphx-glr-script-out" in page or "print(" not in script.read_text()
        assert "sphx_glr_" in page or not drawn


def test_each_module_of_the_library_is_in_the_reference():
    pages = "".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md"))
    internal = {"__init__"}
    modules = {path.stem for path in (ROOT / "hosm").glob("*.py")} - internal
    modules |= {path.parent.name for path in (ROOT / "hosm").glob("*/__init__.py")}
    modules -= {"experiment", "moved"}
    assert modules == set(re.findall(r"automodule:: hosm\.(\w+)", pages))
