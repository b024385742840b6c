import base64
import re
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import jinja2
import pytest

from hosm.experiment.report import blocks, headline, page, tables
from hosm.experiment.report.claims import claims
from hosm.experiment.report.results import load_results
from hosm.experiment.report.texts import captions, own, paper
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
        self.cell, self.folds, self.in_sight = None, 0, 0
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
        elif tag == "details":
            self.folds += 1
        elif tag == "table":
            self.tables.append([])
            self.in_sight += not self.folds
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
        elif tag == "details":
            self.folds -= 1


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
def written(results, paths, facts, root):
    page.write(results, paths, facts, root / "reports")
    return root / "reports"


@pytest.fixture(scope="module")
def text(written):
    return (written / "index.html").read_text()


@pytest.fixture(scope="module")
def appendix(written):
    return (written / "appendix.html").read_text()


@pytest.fixture(scope="module")
def both(text, appendix):
    return [Page(text), Page(appendix)]


def test_nothing_is_fetched_and_nothing_runs(both, text, appendix):
    allowed = ("data:image/png;base64,", "#", "index.html", "appendix.html")
    for found in both:
        assert found.links and all(link.startswith(allowed) for link in found.links)
        assert not {"script", "link", "iframe", "object"} & set(found.tags)
    for content in (text, appendix):
        assert "url(" not in content and "@import" not in content and "http" not in content


def test_every_section_is_there_and_every_link_lands(both):
    first, second = both
    assert {"found", "paper", "ours", "errata", "again"} <= first.ids
    sections = {"accuracy", "speed", "mixing", "uncertainty", "diversity", "training", "counts"}
    assert sections <= second.ids
    for here, other in ((first, second), (second, first)):
        inside = {link[1:] for link in here.links if link.startswith("#")}
        outside = {link.partition("#")[2] for link in here.links if ".html#" in link}
        assert inside <= here.ids and outside <= other.ids


def test_the_first_screen_has_ten_sentences_and_one_table(text, results):
    first = text.partition('id="found"')[2].partition("</section>")[0]
    assert first.count("<li>") == len(headline.findings(results)) == 10
    assert first.count("<table>") == 1 and "<figure" not in first


def test_few_tables_are_in_sight(both):
    first, second = both
    assert first.in_sight <= 20 and second.in_sight == 0


def test_every_table_is_filled(both, results):
    found = [rows for each in both for rows in each.tables]
    heads = [rows[0] for rows in found]
    for name, frame in tables.display_tables(results).items():
        assert list(frame.columns.drop(blocks.SPLIT.get(name, []))) in heads, name
    for rows in found:
        assert len(rows) >= 2
        assert len({len(row) for row in rows}) == 1
        assert all(cell for row in rows for cell in row)


def test_every_picture_is_inline_with_words_for_those_who_cannot_see_it(both, paths):
    first, second = both
    assert len(first.images) == len(paper().claims) + len(own())
    shown = {each for found in both for each in found.ids if each.startswith("figure-")}
    assert shown == {f"figure-{name}" for name in paths}
    for image in first.images + second.images:
        content = base64.b64decode(image["src"].partition(",")[2])
        assert content.startswith(b"\x89PNG")
        assert len(image["alt"]) > 40


def test_numbers_stand_beside_the_papers(both):
    rows = [row for found in both for rows in found.tables for row in rows]
    flat = [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in rows]
    assert ["s2, moment", "30", "2.05 ± 0.544", "7.200 ± 0.031", "2", "2,500", "80.0"] in flat
    assert any("scaled from 49 of 784 rows" in row for row in flat)
    assert any("600× (432 to 833)" in row and "510×" in row for row in flat)


def test_the_best_is_marked_by_an_element_not_by_asterisks(appendix):
    assert "<strong>2.100\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.031</strong>" in appendix
    assert "**" not in appendix


def test_the_machine_of_times_stands_below_the_last_part_of_their_table(results, text):
    unknown = "What other processes did while this was timed is unknown."
    frame = tables.display_tables(results)["table2-speed"]
    notes = [part["note"] for part in blocks.parts("table2-speed", frame)]
    assert notes == ["", unknown]
    assert f'</div>\n<p class="note">{unknown}</p>' in text


def test_every_claim_stands_on_the_page_with_its_verdict_and_its_run(both, results):
    first, _ = both
    rows = {tuple(row) for rows in first.tables for row in rows if len(row) == 4}
    for claim in claims(results):
        built = " true by construction: checks the code" if claim.by_construction else ""
        assert (claim.where, claim.verdict, f"{claim.evidence}{built}", claim.run) in rows


def test_a_study_of_which_nothing_is_kept_is_left_out(results, paths, facts):
    left = page.page_context(replace(results, dimension=None), paths, facts)
    titles = [each["subject"].title for each in left["subjects"]]
    assert titles == [each.title for each in own() if each.figure != "dimension"]
    assert "Local dimension" not in page.render_page(left, page.APPENDIX)


def test_a_number_has_one_run_on_the_first_page(text):
    """Where a longer run is kept, no figure and no table of this run stands beside it."""
    shown = re.findall(r'id="figure-([^"]+)"', text)
    assert "reduction" in shown  # of which none is kept here
    for name in ("diffusion", "inverse", "tabular", "photos"):
        assert f"{name}-whole" in shown and name not in shown
    captions_shown = re.findall(r"<figcaption>.*?</figcaption>", text, re.DOTALL)
    assert len(captions_shown) == len(shown)
    for caption in captions_shown:
        assert re.search(r'<span class="tag">(this|long) run</span>', caption)


def test_a_vacuous_claim_is_shown_with_its_meaning(text):
    assert "Ozaki, floor 28.9 (ε = 5, biased)" in text
    meaning = text.partition('id="verdicts"')[2].partition("</p>")[0]
    assert "<em>vacuous</em> where the winner" in meaning


def test_the_papers_claims_are_counted_apart(text, appendix):
    assert f"Of {len(paper().claims)} claims of the paper, " in text
    assert "CIFAR-10, is not reproduced" in text and "CIFAR-10, is not reproduced" in appendix


def test_the_page_says_where_the_numbers_come_from(text, facts):
    header = text.partition("<header")[2].partition("</header>")[0]
    assert "laptop" in header and facts["hardware"] in header
    section = text.partition('id="again"')[2]
    versions = (f"torch {facts['versions']['torch']}", "ray ", "mlflow ", "dvc ")
    for words in (*versions, "abababababab"):
        assert words in section


def test_the_long_runs_say_how_and_where_they_were_made(text):
    section = text.partition("Long runs whose results are kept")[2]
    for target in ("table1", "mixing", "tabular", "photos", "diffusion", "inverse"):
        made = f"<code>make {target}</code></td><td>paper</td><td>2 cores</td><td>abc</td>"
        assert made in section
    assert "<code>make denoisers</code>" in section and "<code>make classes</code>" in section
    assert "make figure1" not in section  # of which none is kept here


def test_a_denoiser_trained_at_length_says_how_and_where(appendix):
    section = appendix.partition('id="uncertainty"')[2].partition("</section>")[0]
    run, _, kept = section.partition("mnist5k, trained at length")
    assert "r = 5, up to 2,500 steps, profile" in run and "commit" not in run.split("<h3>")[-1]
    assert "r = 50, up to 8,000 steps, profile" in kept
    assert "commit abc (<code>make denoisers</code>)" in kept
    assert "-2,005" in kept and "-2,005" not in run


def test_chains_of_images_at_length_say_how(appendix):
    section = appendix.partition('id="diversity"')[2].partition("</section>")[0]
    run, _, kept = section.partition("mnist5k, σ = 0.5, at length")
    assert "1,000 chains" in kept and "1,000 chains" not in run
    assert "commit abc (<code>make classes</code>)" in kept and "make classes" not in run


def test_each_claim_says_what_would_change_it_and_what_was_found_elsewhere(text):
    section = text.partition('id="paper"')[2].partition("</section>")[0]
    assert section.count("What would change the verdict.</b>") == len(paper().claims)
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


def test_a_table_or_picture_is_that_of_the_longest_run():
    names = ["photos", "photos-psnr", "photos-whole", "calibration-mnist5k-whole", "growth"]
    assert blocks.chosen("photos", names) == "photos-whole"
    assert blocks.chosen("calibration", names) == "calibration-mnist5k-whole"
    assert blocks.chosen("growth", names) == "growth"
    with pytest.raises(ValueError, match="none must be one of"):
        blocks.chosen("none", names)


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
