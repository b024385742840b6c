"""The site: README, guide, subjects, examples, the report, the reference from the docstrings.

Nothing is written twice: the home page is the README, the page of examples is made of their
docstrings and code, the reference has a page for each section of the library, and the report is
copied as it is. Tutorials are scripts in `docs/tutorials`, which sphinx-gallery runs and shows
with their output; what it made is kept in `docs/gallery` until a script changes.
"""

import ast
import re
import sys
from pathlib import Path

from latex2mathml.converter import convert
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
QUOTED = re.compile(r"(`[^`]*`|\*\*[^*]+\*\*)")
JOINED = re.compile(r"(?<=\w)`(?=\w)")  # `ScoreModel`s
FORMULA = re.compile(r"\$\$(.*?)\$\$", re.DOTALL)
MARKUP = re.compile(
    r"(?<!\\)[*|]|(?<=\w)_(?=\W|$)"
)  # means something to Sphinx, but not in a docstring
SECTIONS = (  # in the order in which they are read
    *("distributions", "noise", "operators", "tweedie", "networks", "autodiff", "scores"),
    *("exact_scores", "objectives", "training", "uncertainty", "samplers", "diffusion", "metrics"),
    *("estimator", "pictures", "inverse", "causal", "plot", "io", "cli", "checks"),
    *("parameters", "progress", "standard_output"),
)
REPORT = {"index": "report", "appendix": "appendix"}  # files in reports/ -> their copies here
CONTENTS = {  # title of a part of the site -> its pages, in the order in which they are read
    "Begin": ("installation", "which-function", "gallery/index", "guide", "glossary"),
    "Subjects": (
        *("tables", "photographs", "uncertainty", "sampling", "diffusion"),
        *("inverse-problems", "dimension", "causal", "targets", "cost"),
    ),
    "Use": (
        *("command-line", "examples", "experiment", "compare-runs", "first-cluster", "cluster"),
        *("scaling", "kubernetes", "security", "troubleshooting"),
    ),
    "Reproduction": ("claims", "negative-results"),
    "Reference": ("formalism", "reference/index", "contributing", "changelog"),
}
sys.path.insert(0, str(ROOT))

project = "hosm"
author = "The hosm developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
extensions += ["sphinx_gallery.gen_gallery"]
sphinx_gallery_conf = {  # the tutorials: scripts that run when the site is built
    "examples_dirs": "tutorials",
    "gallery_dirs": "gallery",
    "filename_pattern": "plot_",
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": ("_repr_html_",),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "write_computation_times": False,
}
html_theme = "furo"
html_title = "hosm"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sourcelink = False
exclude_patterns = ["_build", "tutorials"]
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": False}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
myst_heading_anchors = 3


def _as_plain_text(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Have Sphinx read docstrings as plain text with `code`, formulas and indented lines in it."""
    parts = FORMULA.split("\n".join(lines))
    parts[::2] = ["\n".join(_plain(part.split("\n"))) for part in parts[::2]]
    parts[1::2] = [f"\n\n.. raw:: html\n\n   {_mathml(part)}\n\n" for part in parts[1::2]]
    lines[:] = "".join(parts).split("\n")


def _mathml(formula: str) -> str:
    """Return a formula in LaTeX as MathML, which browsers show without any script."""
    return convert(" ".join(formula.split()), display="block")


def _plain(lines: list[str]) -> list[str]:
    """Escape what Sphinx would read as markup, and mark indented lines after a colon as code."""
    lines, block = list(lines), ""  # the indentation of the block that a line belongs to
    for i, line in enumerate(lines):
        indent = line[: len(line) - len(line.lstrip())]
        if block and (not line.strip() or len(indent) >= len(block)):
            continue
        parts = QUOTED.split(line)
        parts[::2] = [MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
        lines[i], block = JOINED.sub(r"`\\ ", "".join(parts)), ""
        after = lines[i + 1 : i + 3]
        if line.endswith(":") and len(after) == 2 and not after[0]:
            below = after[1][: len(after[1]) - len(after[1].lstrip())]
            if len(below) > len(indent):
                lines[i], block = lines[i] + ":", below
    return lines


def _examples() -> str:
    """Return the page of examples in Markdown: what each says of itself, picture, code."""
    parts = [(ROOT / "examples" / "README.md").read_text(encoding="utf-8")]
    for path in sorted((ROOT / "examples").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        first, _, rest = (ast.get_docstring(ast.parse(code)) or "").partition("\n")
        parts += [f"## {path.stem.replace('_', ' ').capitalize()}", f"**{first}**", rest.strip()]
        if (ROOT / "docs" / "pictures" / f"{path.stem}.png").exists():
            parts.append(f"![{first}](pictures/{path.stem}.png)")
        parts.append(f"```{{literalinclude}} ../examples/{path.name}\n:language: python\n```")
    return "\n\n".join(parts) + "\n"


def _reference() -> dict[str, str]:
    """Return the pages of the reference in Markdown: one for each section of the library."""
    about = (
        "Each page is a section of the library, from its docstrings, which give shapes, units, "
    )
    about += "errors and the source of every formula."
    tree = "\n".join(("```{toctree}", ":maxdepth: 2", "", *SECTIONS, "```"))
    pages = {"index": f"# Reference\n\n{about}\n\n{tree}\n"}
    for section in SECTIONS:
        folder = ROOT / "hosm" / section
        modules = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
        parts = [f"# {section}", _automodule(f"hosm.{section}", no_members=bool(modules))]
        for module in modules:
            parts += [f"## {module}", _automodule(f"hosm.{section}.{module}")]
        pages[section] = "\n\n".join(parts) + "\n"
    return pages


def _automodule(name: str, no_members: bool = False) -> str:
    option = "   :no-members:\n" if no_members else ""
    return f"```{{eval-rst}}\n.. automodule:: {name}\n{option}```"


def _home() -> str:
    """Return the home page, the README with its links as they are from here, and the contents."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = text.replace("](reports/figures/", "](../reports/figures/").replace("](docs/", "](")
    text = text.replace("](reports/negative-results.md)", "](negative-results.md)")
    text = text.replace("](CONTRIBUTING.md)", "](contributing.md)")
    text = text.replace("](examples/)", "](examples.md)")
    text = text.replace("](tutorials/)", "](gallery/index.rst)")
    text = text.replace("](reports/index.html)", "](../reports/index.html)")
    trees = [
        "\n".join(("```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```"))
        for title, pages in CONTENTS.items()
    ]
    return "\n\n".join([text, *trees]) + "\n"


def _write_pages(app: Sphinx) -> None:
    pages = {"index": _home(), "examples": _examples()}
    pages |= {f"reference/{name}": text for name, text in _reference().items()}
    (Path(app.srcdir) / "reference").mkdir(exist_ok=True)
    for name, text in pages.items():
        (Path(app.srcdir) / f"{name}.md").write_text(text, encoding="utf-8")


def _link_report(app: Sphinx, name: str, source: list[str]) -> None:
    """Have links to the files of the page, as a clone has them, lead to their copies here."""
    for file, copy in REPORT.items():
        link = rf"\[([^\]]*)\]\(\.\./reports/{file}\.html(#[\w-]+)?\)"
        source[0] = re.sub(link, rf'<a href="{copy}.html\2">\1</a>', source[0])


def _copy_report(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        for name, copy in REPORT.items():
            text = (ROOT / "reports" / f"{name}.html").read_text(encoding="utf-8")
            linked = text.replace('href="index.html', 'href="report.html')  # the site has its own
            (Path(app.outdir) / f"{copy}.html").write_text(linked, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Make the pages that are made of others before, and put the report beside them after."""
    app.connect("autodoc-process-docstring", _as_plain_text, priority=1)  # before Napoleon
    app.connect("builder-inited", _write_pages)
    app.connect("source-read", _link_report)
    app.connect("build-finished", _copy_report)
