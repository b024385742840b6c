import pytest

from hosm.experiment.report import texts

CAPTIONS = "growth:\n  caption: Time against D.\n  alt: A line.\n"
POINT = "{point: a batch of 1, stages: [speed], settings: {speed.batch: 1}}"
CLAIM = (
    "claims:\n  - {claim: It is fast., source: table 2, figure: growth, decides: [fast],"
    " appendix: cost,"
    f" would_change: Batches., elsewhere: {POINT}}}\n"
)
ERRATA = "errata:\n  - {place: table 2, printed: '1', right: '2', known_by: A sum.}\n"


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Read texts from files with this content in place of those of the report."""

    def from_files(captions=CAPTIONS, paper=CLAIM + ERRATA):
        (tmp_path / "captions.yaml").write_text(captions)
        (tmp_path / "paper.yaml").write_text(paper)
        monkeypatch.setattr(texts, "FOLDER", tmp_path)
        for function in (texts.captions, texts.paper):
            function.cache_clear()
        return texts.captions(), texts.paper()

    yield from_files
    for function in (texts.captions, texts.paper):
        function.cache_clear()


def test_texts_are_read_by_their_keys(read):
    captions, paper = read()
    assert captions["growth"].caption == "Time against D." and captions["growth"].alt == "A line."
    (claim,), (erratum,) = paper.claims, paper.errata
    assert (claim.figure, claim.decides, claim.beside) == ("growth", ["fast"], [])
    assert claim.elsewhere.settings == {"speed.batch": 1}
    assert (erratum.printed, erratum.right) == ("1", "2")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"captions": CAPTIONS.replace("alt", "alternative")}, "captions.yaml"),
        ({"captions": "growth:\n  caption: Time against D.\n"}, "alt"),
        ({"captions": CAPTIONS.replace("A line.", '""')}, "at least 1 character"),
        ({"paper": CLAIM.replace("[fast]", "[]") + ERRATA}, "decides"),
        ({"paper": CLAIM + ERRATA.replace("right", "left")}, "left"),
        ({"paper": CLAIM.replace("growth", "none") + ERRATA}, "got none"),
        ({"paper": CLAIM.replace("[speed]", "[]") + ERRATA}, "stages"),
        ({"paper": CLAIM.replace("{speed.batch: 1}", "{}") + ERRATA}, "settings"),
    ],
)
def test_what_is_wrong_with_a_text_is_named(read, content, words):
    with pytest.raises(ValueError, match=words):
        read(**content)
