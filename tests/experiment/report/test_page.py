import base64
import re
import subprocess
from html.parser import HTMLParser

import jinja2
import pytest

from hosm.experiment.report import page, tables
from hosm.experiment.report.results import load_results
from hosm.experiment.report.texts import captions, paper
from hosm.experiment.settings import load_params
from tests.experiment.report.report_inputs import write_inputs

FIGURES = tuple(captions())
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


class Page(HTMLParser):
    """Collects the text of each table's cells, every attribute that could fetch, and the tags."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.links, self.tags, self.images, self.ids = [], [], [], [], set()
        self.cell = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        self.links += [
            values[name] for name in ("src", "href", "srcset", "data") if name in values
        ]
        self.ids |= {values["id"]} if "id" in values else set()
        if tag == "img":
            self.images.append(values)
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.cell = []

    def handle_data(self, data):
        if self.cell is not None:
            self.cell.append(data)

    def handle_endtag(self, tag):
        if tag in ("th", "td"):
            self.tables[-1][-1].append("".join(self.cell).strip())
            self.cell = None


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def results(root):
    return load_results(root)


@pytest.fixture(scope="module")
def facts(root):
    params = load_params(root / "params.yaml")
    return page.facts(root, params.profile, params)


@pytest.fixture(scope="module")
def paths(root):
    """Stand-ins: what a figure shows is tested elsewhere."""
    of_images = ["variance", "calibration", "directions", "traversals", "explained"]
    of_images += ["classes", "steps", "noise", "chains"]
    names = [f"{name}-mnist5k" if name in of_images else name for name in FIGURES]
    whole = ("calibration", "explained", "classes", "steps", "noise", "chains")
    names += [*(f"{name}-mnist5k-whole" for name in whole), "tabular-whole", "diffusion-whole"]
    names += ["inverse-whole"]
    names += [f"photos{end}-whole" for end in ("", "-reliability", "-psnr")]
    made = {name: root / f"{name}.png" for name in names}
    for path in made.values():
        path.write_bytes(PIXEL)
    return made


@pytest.fixture(scope="module")
def text(results, paths, facts, root):
    page.write(results, paths, facts, root / "reports" / "index.html")
    return (root / "reports" / "index.html").read_text()


@pytest.fixture(scope="module")
def parsed(text):
    return Page(text)


def test_nothing_is_fetched_and_nothing_runs(parsed, text):
    assert parsed.links
    assert all(link.startswith(("data:image/png;base64,", "#")) for link in parsed.links)
    assert not {"script", "link", "iframe", "object"} & set(parsed.tags)
    assert "url(" not in text and "@import" not in text and "http" not in text


def test_every_section_is_there_and_every_link_lands(parsed):
    sections = {"what", "accuracy", "speed", "mixing", "uncertainty", "diversity", "training"}
    sections |= {"replication", "errata", "not", "again"}
    assert sections <= parsed.ids
    assert {link[1:] for link in parsed.links if link.startswith("#")} <= parsed.ids


def test_every_table_is_filled(parsed, results):
    heads = [rows[0] for rows in parsed.tables]
    for name, frame in tables.display_tables(results).items():
        assert list(frame.columns.drop(page.SPLIT.get(name, []))) in heads, name
    for rows in parsed.tables:
        assert len(rows) >= 2
        assert len({len(row) for row in rows}) == 1
        assert all(cell for row in rows for cell in row)


def test_every_picture_is_inline_with_words_for_those_who_cannot_see_it(parsed):
    thumbnails = len(paper().claims)
    assert len(parsed.images) == thumbnails + len(FIGURES) + 12  # of what is kept
    for image in parsed.images:
        content = base64.b64decode(image["src"].partition(",")[2])
        assert content.startswith(b"\x89PNG")
        assert len(image["alt"]) > 40


def test_numbers_stand_beside_the_papers(parsed):
    rows = [row for rows in parsed.tables for row in rows]
    flat = [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in rows]
    assert ["s2, moment", "30", "2.05 ± 0.544", "7.200 ± 0.031", "2", "2,500", "80.0"] in flat
    assert any("scaled from 49 of 784 rows" in row for row in flat)
    assert any("600× (432 to 833)" in row and "510×" in row for row in flat)


def test_the_best_is_marked_by_an_element_not_by_asterisks(text):
    assert "<strong>2.100\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.031</strong>" in text
    assert "**" not in text


def test_the_machine_of_times_stands_below_the_last_part_of_their_table(results, text):
    unknown = "What other processes did while this was timed is unknown."
    frame = tables.display_tables(results)["table2-speed"]
    notes = [part["note"] for part in page._parts("table2-speed", frame)]
    assert notes == ["", unknown]
    assert f'</div>\n<p class="note">{unknown}</p>' in text


def test_what_does_not_hold_comes_from_the_numbers(text, results, paths, facts):
    section = text.partition('id="not"')[2].partition('id="again"')[0]
    failing = section.partition("<h3>Vacuous")[0]
    assert "s2 trained by the paper&#39;s objective has a smaller error than" in failing
    assert "Ozaki, as printed – (ε = 5, diverged)" in failing
    assert "predicted variance and squared error of a pixel have a correlation" not in failing
    context = page.page_context(results, paths, facts)
    assert section.count('<span class="verdict') == sum(map(len, context["judged"].values()))


def test_a_vacuous_claim_is_shown_with_its_meaning(text):
    section = text.partition("<h3>Vacuous</h3>")[2].partition("<h3>")[0]
    assert "Ozaki, floor 28.9 (ε = 5, biased)" in section
    meaning = text.partition('id="counts"')[2].partition("<table>")[0]
    assert "draws whose bias is beyond the bounds" in meaning


def test_a_verdict_without_claims_has_no_heading(results, paths, facts):
    context = page.page_context(results, paths, facts)
    context["judged"] = {**context["judged"], "undecided": []}
    assert "Undecided</h3>" not in page.render_page(context)


def test_the_papers_claims_are_counted_apart(text):
    start = text.partition('id="what"')[2].partition("</section>")[0]
    assert f"Of {len(paper().claims)} claims of the paper, " in start
    assert "CIFAR-10, is not reproduced" in text


def test_the_header_says_where_the_numbers_come_from(text, facts):
    header = text.partition("<header>")[2].partition("</header>")[0]
    for words in (
        "laptop",
        facts["hardware"],
        f"torch {facts['versions']['torch']}",
        "abababababab",
    ):
        assert words in header
    assert "ray " in header and "mlflow " in header and "dvc " in header


def test_a_denoiser_trained_at_length_says_how_and_where(text):
    section = text.partition('id="uncertainty"')[2].partition("</section>")[0]
    run, _, kept = section.partition("mnist5k, trained at length")
    assert "r = 5, up to 2,500 steps, profile" in run and "commit" not in run.split("<h3>")[-1]
    assert "r = 50, up to 8,000 steps, profile paper, on 2 cores" in kept
    assert "commit abc (<code>make denoisers</code>)" in kept
    assert "-2,005" in kept and "-2,005" not in run


def test_chains_of_images_at_length_say_how_and_have_their_pictures(text):
    section = text.partition('id="diversity"')[2].partition("</section>")[0]
    run, _, kept = section.partition("mnist5k, σ = 0.5, at length")
    assert "1,000 chains" in kept and "1,000 chains" not in run
    assert "commit abc (<code>make classes</code>)" in kept and "make classes" not in run
    assert run.count("<figure") == kept.count("<figure") == 4


def test_each_claim_says_what_would_change_it_and_what_was_found_elsewhere(text):
    section = text.partition('id="replication"')[2].partition("</section>")[0]
    assert section.count("What would change the verdict.") == len(paper().claims)
    assert section.count("Tried at one other point") == 1  # that was run
    first = section.partition("</article>")[0]
    assert f"{paper().claims[0].elsewhere.point}: <b>holds only in part</b>" in first
    assert first.count("errors of s2 in nats: 7.5") == 2


def test_a_smoke_run_warns_that_its_numbers_mean_nothing(results, paths, facts, text):
    context = page.page_context(results, paths, {**facts, "profile": "smoke"})
    assert "Smoke profile." in page.render_page(context)
    assert "Smoke profile." not in text


def test_what_the_results_say_is_escaped(results, paths, facts):
    context = page.page_context(results, paths, {**facts, "hardware": "<b>&"})
    assert "&lt;b&gt;&amp;" in page.render_page(context)


def test_a_context_that_lacks_something_is_an_error(results, paths, facts):
    context = page.page_context(results, paths, facts)
    del context["summary"]
    with pytest.raises(jinja2.UndefinedError, match="summary"):
        page.render_page(context)


def test_the_page_adapts_to_dark_mode_paper_and_narrow_screens(text):
    for words in ("prefers-color-scheme: dark", "@media print", "overflow-x: auto", "viewport"):
        assert words in text
    assert re.search(r'<html lang="en">', text)


def test_facts_name_profile_seeds_versions_and_sizes(facts):
    assert facts["profile"] == "laptop"
    assert facts["seeds"] == list(range(len(facts["seeds"])))
    assert facts["cpus"] >= 1
    assert set(facts["versions"]) >= {"python", "torch", "ray", "mlflow", "dvc"}
    assert facts["data"] == {"gaussian100": "ab" * 32}
    assert facts["commit"].startswith("unknown")
    assert facts["protocol"]["chains"] == 32


def _git(folder, *arguments):
    names = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *names, *arguments], check=True, capture_output=True)


def test_facts_tell_the_commit_and_whether_the_code_differs(tmp_path):
    root = write_inputs(tmp_path)
    params = load_params(root / "params.yaml")
    _git(root, "init")
    _git(root, "add", "params.yaml")
    _git(root, "commit", "-m", "one")
    clean = page.facts(root, "laptop", params)["commit"]
    assert re.fullmatch("[0-9a-f]{10}", clean)
    (root / "params.yaml").write_text((root / "params.yaml").read_text() + "# changed\n")
    assert page.facts(root, "laptop", params)["commit"] == (
        f"{clean}, with changes that are not committed"
    )
