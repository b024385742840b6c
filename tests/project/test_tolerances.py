"""Tolerances: each one in a test is named in tests/tolerances.py or says why beside it."""

import ast
import io
import itertools
import tokenize
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
NAMED = TESTS / "tolerances.py"
KEYWORDS = {"rtol", "atol", "rel", "abs", "rel_tol", "abs_tol"}
SMALL = 0.01  # a float below this that bounds something in an assertion is a tolerance too
ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
FILES = [path for path in sorted(TESTS.glob("**/*.py")) if path != NAMED]


def names():
    """What tests/tolerances.py offers: name -> its statement."""
    found = {}
    for node in ast.parse(NAMED.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found[node.targets[0].id] = node
    return found


def comment_lines(source):
    """Numbers of the lines that hold a comment in words, not a directive to a tool."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    return {
        token.start[0]
        for token in comments
        if not token.string.startswith(("# fmt:", "# noqa", "# type:"))
    }


def is_small(node):
    value = getattr(node, "value", None)
    return isinstance(value, float) and 0 < value < SMALL


def bounds(assertion):
    """The two sides of each <, <=, > and >= in an assertion; what is to be equal is no bound."""
    for node in ast.walk(assertion):
        if isinstance(node, ast.Compare):
            pairs = itertools.pairwise([node.left, *node.comparators])
            for order, pair in zip(node.ops, pairs, strict=True):
                yield from pair if isinstance(order, ORDERS) else ()


def tolerances(tree):
    """The values that bound an error: of keywords, of dictionaries, and in assertions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in KEYWORDS:
            yield node.value
        elif isinstance(node, ast.Dict):
            keys = [getattr(key, "value", None) for key in node.keys]
            yield from (v for k, v in zip(keys, node.values, strict=True) if k in ("rtol", "atol"))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "approx":
            yield from node.args[1:]
        elif isinstance(node, ast.Assert):
            yield from (side for side in bounds(node) if any(map(is_small, ast.walk(side))))


def statements(tree):
    """For each node within a statement of its own, that statement."""
    owners = {}
    for statement in ast.walk(tree):
        if isinstance(statement, ast.stmt) and not hasattr(statement, "body"):
            owners |= dict.fromkeys(ast.walk(statement), statement)
    return owners


def unreasoned(source):
    """Line numbers of tolerances that are neither named nor explained."""
    tree, comments, known = ast.parse(source), comment_lines(source), names()
    owners, found = statements(tree), []
    for value in tolerances(tree):
        owner = owners.get(value, value)
        beside = {owner.lineno - 1, owner.end_lineno}
        lines = {*range(value.lineno - 1, value.end_lineno + 1)} | beside
        used = {getattr(node, "id", None) for node in ast.walk(value)}
        is_zero = isinstance(value, ast.Constant) and value.value == 0
        if not (is_zero or used & set(known) or lines & comments):
            found.append(value.lineno)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(TESTS).as_posix())
def test_each_tolerance_is_named_or_says_why(path):
    assert unreasoned(path.read_text()) == []


def test_each_named_tolerance_has_a_reason_and_a_use():
    comments = comment_lines(NAMED.read_text())
    texts = [path.read_text() for path in TESTS.glob("**/test_*.py")]
    for name, node in names().items():
        assert (
            ast.get_docstring(node)
            if isinstance(node, ast.FunctionDef)
            else (node.lineno - 1 in comments)
        ), name
        assert any(name in text for text in texts), f"{name} is not used"


@pytest.mark.parametrize(
    "source",
    [
        "close(a, b, rtol=1e-3)",
        "options = {'atol': 1e-3}",
        "close(a, b, rtol=bound)",
        "close(a, b, rtol=1e-3)  # noqa: E731",
        "assert error < 1e-6",
        "assert (error <= 1e-6 * scale).all()",
        "assert error == pytest.approx(0, 1e-3)",
        "assert (1 - 1e-6) * least < found",
        "# a reason too far\n\nclose(a, b, rtol=1e-3)",
    ],
)
def test_a_bare_tolerance_is_found(source):
    assert unreasoned(source) == [source.count("\n") + 1]


@pytest.mark.parametrize(
    "source",
    [
        "close(a, b, rtol=FLOAT64['rtol'], atol=0)",
        "close(a, b, **FLOAT64)",
        "close(a, b, rtol=1e-3)  # of 40 draws",
        "# of 40 draws\nclose(\n    a, b, rtol=1e-3\n)",
        "assert error < 3",
        "assert latency == 3e-6",
        "step(rate=1e-3)",
    ],
)
def test_a_tolerance_with_a_reason_is_left_alone(source):
    assert unreasoned(source) == []
