"""One pass over a factor: its products and their gradients, against plain tensors."""

import pytest
import torch

from hosm.operators import factor_image, factor_products

DOUBLE = torch.float64


def parts(k, m, signs, batch=(3,), size=7):
    generator = torch.Generator().manual_seed(0)
    shapes = ((*batch, size, k), (*batch, m, size))
    factor, vectors = (
        torch.randn(shape, generator=generator, dtype=DOUBLE).requires_grad_() for shape in shapes
    )
    return factor, vectors, None if signs is None else torch.tensor(signs, dtype=DOUBLE)


def plain(factor, vectors, signs):
    signed = factor.square() if signs is None else factor.square() * signs
    return signed.sum(-1), factor.mT @ vectors.mT, factor.mT @ factor


CASES = [(3, 2, None), (3, 2, [1, -1, 1]), (1, 3, [-1]), (0, 2, [])]


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize(("k", "m", "signs"), CASES)
def test_products_and_gradients_are_those_of_plain_tensors(k, m, signs, batch):
    given = parts(k, m, signs, batch)
    found, expected = factor_products(*given), plain(*given)
    weights = [torch.randn_like(part) for part in expected]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    totals = [
        sum((w * p).sum() for w, p in zip(weights, products, strict=True))
        for products in (found, expected)
    ]
    gradients = [torch.autograd.grad(total, given[:2]) for total in totals]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_have_gradients():
    factor, vectors, signs = parts(2, 1, [1, -1], (2,), 4)
    products = lambda U, W: tuple(factor_products(U, W, signs))  # noqa: E731
    assert torch.autograd.gradcheck(products, (factor, vectors))
    assert torch.autograd.gradgradcheck(products, (factor, vectors))


def test_a_part_without_gradient_gets_none():
    factor, vectors, signs = parts(2, 1, [1, 1])
    total = factor_products(factor, vectors.detach(), signs).images.sum()
    assert torch.autograd.grad(total, factor)[0].shape == factor.shape
    total = factor_products(factor.detach(), vectors, signs).images.sum()
    assert torch.autograd.grad(total, vectors)[0].shape == vectors.shape


def test_products_under_vmap_are_those_of_each():
    factor, vectors, signs = (part.detach() for part in parts(3, 2, [1, 1, -1], (4,)))
    each = torch.func.vmap(lambda U, W: tuple(factor_products(U, W, signs)))(factor, vectors)
    for one, other in zip(each, plain(factor, vectors, signs), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize(("k", "m", "signs"), CASES)
def test_the_image_and_its_gradients_are_those_of_plain_tensors(k, m, signs, batch):
    factor, vectors, signs = parts(k, 1, signs, batch)
    v = vectors.squeeze(-2)
    signed = factor if signs is None else factor * signs
    expected = (signed @ (factor.mT @ v.unsqueeze(-1))).squeeze(-1)
    found = factor_image(factor, v, signs)
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(expected)
    pairs = [torch.autograd.grad((weight * y).sum(), (factor, v)) for y in (found, expected)]
    for one, other in zip(*pairs, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_of_the_image_have_gradients():
    factor, vectors, signs = parts(2, 1, [1, -1], (2,), 4)
    image = lambda U, v: factor_image(U, v, signs)  # noqa: E731
    given = (factor, vectors.squeeze(-2).detach().requires_grad_())
    assert torch.autograd.gradcheck(image, given)
    assert torch.autograd.gradgradcheck(image, given)
