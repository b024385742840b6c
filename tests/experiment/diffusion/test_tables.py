"""What a reader sees of the study of diffusion."""

from hosm.experiment.diffusion.headline import diffusion_findings, diffusion_sentence
from hosm.experiment.diffusion.tables import diffusion_tables


def test_tables(results):
    tables = diffusion_tables(results.diffusion)
    gaps, distances = tables["diffusion-gap"], tables["diffusion-distance"]
    assert list(gaps.columns[2:]) == ["5 steps", "10 steps", "25 steps"]
    assert len(gaps) == 12  # of Heun there is no bound
    assert len(distances) == 14
    assert "±" in gaps["5 steps"][0]
    assert len(tables["diffusion-likelihood"]) == 3
    assert set(tables["diffusion-seconds"]["Over a constant’s"]) == {"1.00×"}
    assert "diffusion-gap-whole" in tables


def test_headline(results):
    told = diffusion_sentence(results.diffusion.run)
    assert "A diffusion of 5 steps" in told and "is 0.202 nats" in told and "0.444 away" in told


def test_finding(results):
    (finding,) = diffusion_findings(results.diffusion.run)
    assert "takes 5 steps" in finding.measured and "50 dimensions" in finding.measured
    assert finding.ours == "0.202" and finding.rival.endswith(
        " by the best multiple of the identity"
    )
