"""Threads: one for a small table, those of before afterwards, also after an error."""

import importlib

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import hosm
from hosm.estimator import score_estimator
from hosm.estimator.closed_form import ClosedFormModel
from hosm.estimator.threads import MANY_COLUMNS, MANY_NUMBERS, threads_that_pay

ROWS = np.random.default_rng(0).normal(size=(30, 2))


@pytest.fixture
def several():
    """Three threads for each library, whatever the machine has."""
    importlib.import_module("sklearn.mixture")  # so that its libraries are there
    before = torch.get_num_threads()
    with threadpool_limits(3):
        torch.set_num_threads(3)
        yield
        torch.set_num_threads(before)


def threads():
    """The numbers of threads of all libraries."""
    return {torch.get_num_threads(), *(each["num_threads"] for each in threadpool_info())}


def test_a_small_table_has_one_thread_and_a_large_one_keeps_its_own(several):
    with threads_that_pay(500, 4):
        assert threads() == {1}
    assert threads() == {3}
    for shape in ((MANY_NUMBERS // 4, 4), (200, MANY_COLUMNS)):
        with threads_that_pay(*shape):
            assert threads() == {3}


def test_threads_come_back_after_an_error(several):
    with pytest.raises(KeyError), threads_that_pay(500, 4):
        raise KeyError
    assert threads() == {3}


def test_fits_and_answers_in_closed_form_have_one_thread_and_give_it_back(several, monkeypatch):
    seen, diagonal, chosen = [], ClosedFormModel.diagonal, score_estimator.choose

    def noted(function):
        def answer(*args, **options):
            seen.append(threads() if function is chosen else {torch.get_num_threads()})
            return function(*args, **options)

        return answer

    monkeypatch.setattr(ClosedFormModel, "diagonal", noted(diagonal))
    monkeypatch.setattr(score_estimator, "choose", noted(chosen))
    estimator = hosm.ScoreEstimator(0.1, random_state=0).fit(ROWS)
    assert seen and all(each == {1} for each in seen) and threads() == {3}
    seen.clear()
    estimator.hessian_diag(ROWS, return_std=True)
    assert seen and all(each == {1} for each in seen) and threads() == {3}
