"""Choosing on held-out rows: equal rows together, and clear cases clear."""

import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.covariance import LedoitWolf

from hosm.estimator import choice
from hosm.estimator.choice import Candidate, best_of, choose, deal, warn_of_choice
from hosm.estimator.elliptical_law import SCALES
from hosm.estimator.kernel_correction import KNOTS, bumps_at, quadratic
from hosm.estimator.simple_laws import SimpleLaw
from tests.tolerances import ILL_CONDITIONED

DOUBLE = torch.float64


def _normal(n, dimension, seed=0):
    return torch.randn(n, dimension, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def test_equal_rows_are_in_one_fold_and_folds_are_even():
    x = _normal(100, 2).repeat(10, 1)
    fold = deal(x)
    assert torch.equal(fold[:100], fold[100:200])
    assert torch.bincount(fold).tolist() == [200] * 5


def _candidate(loss, variation, width=None):
    return Candidate(SimpleLaw(1, "shrunk"), width, 0.0, 0, None, 0.1, loss, variation, [])


def test_the_least_varying_of_those_that_may_be_best_is_taken():
    noise = _normal(400, 2)
    best = _candidate(noise[:, 0], 3.0, width=0.5)
    apart = noise[:, 1] - noise[:, 1].mean()  # its mean has a standard error of .05
    near = _candidate(noise[:, 0] + 0.02 + apart, 1.0, width=1.0)
    worse = _candidate(noise[:, 0] + 1, 0.0, width=2.0)
    assert best_of([best, near, worse]) is near
    assert best_of([best, worse]) is best


def test_of_the_penalties_of_the_same_kernels_the_one_of_the_least_loss_is_taken():
    noise = _normal(400, 2)
    narrow = _candidate(noise[:, 0], 3.0, width=0.5)
    apart = noise[:, 1] - noise[:, 1].mean()  # its mean has a standard error of .05
    smooth = _candidate(noise[:, 0] + 0.03 + apart, 1.0, width=1.0)
    bent = _candidate(noise[:, 0] + 0.02 + apart, 2.0, width=1.0)
    elsewhere = replace(bent, sigma=0.2)
    assert best_of([narrow, smooth, bent]) is bent
    assert best_of([narrow, smooth, elsewhere]) is smooth


def test_narrow_kernels_of_columns_are_taken_only_where_no_others_may_be_best():
    noise = _normal(400, 2)
    apart = noise[:, 1] - noise[:, 1].mean()  # its mean has a standard error of .05
    usual = replace(_candidate(noise[:, 0] + 0.02 + apart, 2.0, width=1.0), knots=KNOTS)
    narrow = replace(_candidate(noise[:, 0], 1.0, width=1.0), knots=2 * KNOTS)
    assert best_of([usual, narrow]) is usual
    far = replace(usual, loss=usual.loss + 0.1)
    assert best_of([far, narrow]) is narrow


def test_a_mixture_that_may_be_best_comes_before_kernels_and_a_gaussian_first():
    noise = _normal(400, 2)
    apart = noise[:, 1] - noise[:, 1].mean()  # its mean has a standard error of .05
    two = replace(_candidate(noise[:, 0], 3.0), law=SimpleLaw(2, "full"))
    elliptical = replace(two, law=SimpleLaw(len(SCALES), "multiples"))
    kernels = _candidate(noise[:, 0], 1.0, width=0.5)
    assert best_of([kernels, elliptical, two]) is two
    assert best_of([kernels, elliptical]) is kernels
    gaussian = _candidate(noise[:, 0] + apart + 0.04, 0.0)
    assert best_of([kernels, two, gaussian]) is gaussian
    far = _candidate(noise[:, 0] + apart + 0.06, 0.0)
    assert best_of([kernels, two, far]) is two


def test_a_mean_that_rests_on_one_row_does_not_make_everything_as_good():
    noise = _normal(400, 2)
    gaussian = _candidate(noise[:, 0], 0.0)
    better = replace(_candidate(noise[:, 0] - 1, 1.0), law=SimpleLaw(2, "full"))
    lucky = _candidate(noise[:, 0].clone(), 1e4, width=0.35)
    lucky.loss[7] -= 2000.0  # a mean of -5, with a standard error of 5
    assert best_of([gaussian, better, lucky]) is better
    assert best_of([gaussian, lucky]) is gaussian


def test_kernels_do_not_bend_the_score_at_will_beyond_the_rows(monkeypatch):
    x = _normal(400, 2)
    x[:, 1] = 0.3 * x[:, 1] + x[:, 0].square()
    x = (x - x.mean(0)) / x.std(0)
    beyond = choice._away(x, torch.Generator().manual_seed(9))

    def pull():
        bumps = choose(x, [0.1]).model.bumps
        return float(bumps.score(beyond).square().sum(1).mean())

    held = pull()
    monkeypatch.setattr(choice, "AWAY", 0.0)
    assert held < 0.7 * pull()


def test_clusters_are_found_and_a_gaussian_stays_a_gaussian():
    rng = np.random.default_rng(0)
    two = torch.from_numpy(np.r_[rng.normal(size=(150, 2)), rng.normal(size=(150, 2)) * 0.5 + 4])
    two = (two - two.mean(0)) / two.std(0)
    assert choose(two, [0.1]).chosen.law.terms == 2
    assert choose(_normal(300, 2), [0.1]).constant


def test_narrow_steps_of_columns_are_followed_by_narrow_kernels(monkeypatch):
    monkeypatch.setattr(choice, "WIDTHS", (0.7,))
    generator = torch.Generator().manual_seed(0)
    steps = torch.randint(6, (300, 2), generator=generator)
    x = steps + 0.15 * torch.randn(300, 2, generator=generator, dtype=DOUBLE)
    found = choose((x - x.mean(0)) / x.std(0), [0.05])
    assert found.chosen.knots == max(knots for _, knots in choice.COLUMN_KERNELS)
    assert "by 24 kernels of each single column" in found.words()
    assert found.model.bumps.knots.shape == (2, 24)


def test_of_large_tables_some_rows_choose_and_all_are_fitted(monkeypatch):
    x = _normal(400, 2)
    x = torch.cat([x[:200], 0.5 * x[200:] + 4])
    x = (x - x.mean(0)) / x.std(0)
    said = []
    monkeypatch.setattr(choice, "MOST_SEARCHED", 2 * 200)
    found = choose(x, [0.1], say=said.append)
    assert len(found.chosen.loss) == 200 and found.fold.shape == (400,)
    assert found.law.terms == 2 and "mixtures with full covariances" in said
    whole = found.chosen.law.fit(x)
    assert torch.equal(found.law.means, whole.means)


def test_fewer_different_rows_than_folds_are_dealt_one_by_one():
    four = _normal(4, 3)
    assert sorted(deal(four).tolist()) == [0, 1, 2, 3]
    assert choose(four, [0.1]).constant
    assert len(choose(four.repeat(25, 1), [0.1]).folds) == 4
    with pytest.raises(ValueError, match="X must hold 4 or more different rows .* got 2"):
        deal(four[:2].repeat(50, 1))


def test_of_no_more_rows_than_columns_the_gaussian_alone_is_fitted_at_the_least_sigma():
    x = _normal(20, 40)
    found = choose(x, [0.2, 0.01])
    assert found.chosen.sigma == 0.01
    covariance = LedoitWolf().fit(x.numpy()).covariance_ + 0.01**2 * np.eye(40)
    expected = torch.from_numpy(-np.linalg.inv(covariance)) @ (x - x.mean(0)).mT
    assert torch.allclose(found.model.score(x), expected.mT, **ILL_CONDITIONED)
    assert "Nothing else was tried" in found.words()
    with pytest.warns(UserWarning, match="no more rows than columns") as caught:
        warn_of_choice(found, [0.2, 0.01])
    assert len(caught) == 1
    assert len(choose(_normal(41, 40), [0.1]).judged) > 1


def test_rows_that_fill_no_volume_are_fitted():
    line = _normal(200, 1).repeat(1, 3)
    found = choose(line, [0.1]).model.diagonal(line)
    assert bool(found.isfinite().all())


def test_the_correction_of_all_rows_is_shrunk_by_its_penalty():
    x = torch.cat([_normal(100, 1), 0.3 * _normal(100, 1, 1) + 3])
    rows = choice._Rows(x, deal(x), 0.1, 0.1, 0)
    law = SimpleLaw(1, "shrunk").fit(x)
    weak, strong = (
        choice._fitted_bumps(rows, replace(_candidate(x[:, 0], 1.0, 0.5), penalty=p), law)
        for p in (1e-3, 1e3)
    )
    assert float(strong.weights.norm()) < 0.01 * float(weak.weights.norm())
    loss = quadratic(strong, torch.cat(rows.noisy), law.smoothed(0.1).score(torch.cat(rows.noisy)))
    ridge = 1e3 * float(loss.A.diagonal().mean())  # so large that A hardly counts
    error = (strong.weights + loss.b / ridge).norm()
    assert float(error) < 0.2 * float(strong.weights.norm())


def _fitted_without_each_fold(terms):
    x = torch.cat([_normal(60, 3), _normal(60, 3, 1) + 3])
    fold = deal(x)
    rows, fits = choice._Rows(x, fold, 0.1, 0.1, 0), choice._Fits(x, fold)
    return rows, choice._Base(SimpleLaw(terms, "full"), rows, fits)


def test_b_of_each_fold_is_that_of_the_law_and_the_rows_that_it_says():
    rows, base = _fitted_without_each_fold(2)
    kernels = [bumps_at(rows.x, 0.7, scale) for scale in (0.0, 1.0)]
    for bumps, found in zip(kernels, choice._linear(kernels, base), strict=True):
        for k, (outside, held) in enumerate(found):
            model = base.models[k]
            b = [quadratic(bumps, y, model.score(y)).b for y in rows.noisy]
            torch.testing.assert_close(held, b.pop(k))
            torch.testing.assert_close(outside, torch.stack(b).mean(0))


def test_a_fit_holds_scores_of_one_fold_and_the_products_of_one_factor_at_a_time(monkeypatch):
    alive, most = weakref.WeakSet(), {"scores": 0, "products": 0}
    held, before = weakref.WeakSet(), choice._Base.scores

    class Counted(choice._Correction):
        def __init__(self, rows, width, scale, knots):
            super().__init__(rows, width, scale, knots)
            alive.add(self)
            most["products"] = max(most["products"], sum(bool(each.scale) for each in alive))

    def scores(self, y):
        most["scores"] = max(most["scores"], len(held) + 1)
        found = before(self, y)
        held.add(found)
        return found

    monkeypatch.setattr(choice, "_Correction", Counted)
    monkeypatch.setattr(choice._Base, "scores", scores)
    x = torch.cat([_normal(60, 2), _normal(60, 2, 1) + 3])
    choose(x, [0.05, 0.1])
    assert most == {"scores": 1, "products": 1}
    assert not alive


def test_the_models_of_the_folds_are_those_that_were_judged():
    x = _normal(300, 2)
    x = x / x.norm(dim=1, keepdim=True) + 0.2 * _normal(300, 2, 1)
    found = choose(x, [0.1])
    assert len(found.chosen.kernels) == len(found.folds) == 5
    rows = choice._Rows(x, found.fold, 0.1, 0.1, 0)
    losses = []
    for model, y in zip(found.folds, rows.held, strict=True):
        loss = model.score(y).square().sum(1) / 2 + model.diagonal(y).sum(1)
        losses.append(rows.over_draws([loss.unsqueeze(1)])[:, 0])
    torch.testing.assert_close(torch.cat(losses), found.chosen.loss)
