"""The command `hosm`: from a file to a model, and from a model to Hessians, means and draws.

    hosm fit points.csv -o model.hosm
    hosm hessian model.hosm points.csv -o hessian.csv

The models and the results are those of `hosm.ScoreEstimator`. Results go to files, whose kind is
told by their suffix. A few facts are printed to stdout, as lines or with `--json` as one object,
and the progress, as a bar, and notes, of a line each, to stderr. The exit code is 0 on success; 1,
with one line on stderr, if a file or a value is invalid or the work fails; 2 if the command line
cannot be read.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hosm import __version__
from hosm.progress import print_beside
from hosm.standard_output import a_reader_may_leave

__all__ = ["main", "parser"]

FAILURES = (ValueError, OSError, ImportError, FloatingPointError, MemoryError)
FILES = (
    "a table (.npy, .npz, .csv, .tsv, .txt, .parquet, .xlsx),\n"
    "pictures (.png, .jpg, .tif, .bmp, .webp) or a folder of them"
)
FIT = f"""learn the scores of a data distribution from clean points or pictures

DATA is {FILES}.
Rows of a table are points. From pictures of any sizes a denoiser of pictures is learned; with
--patch the law of their patches, with --whole that of pictures of one size."""
EXAMPLES = {
    "fit": """  hosm fit points.csv -o model.hosm --sigma auto
  hosm fit people.csv -o model.hosm --drop name,town
  hosm fit pictures/ -o pictures.hosm
  hosm fit few/ -o mine.hosm --start photos --steps 500
  hosm fit clean.png -o patches.hosm --sigma 20 --patch 8""",
    "hessian": """  hosm hessian model.hosm points.csv -o hessian.csv
  hosm hessian model.hosm points.csv -o hessian.csv --std  # and how sure each number is
  hosm hessian model.hosm points.npy -o hessian.npz --dense""",
    "denoise": """  hosm denoise noisy.png -o out.png --model photos  # out.mean.png, out.std.png
  hosm denoise noisy.png -o out.png --model photos --map map.png  # a picture of both to look at
  hosm denoise noisy.png -o out.tif --model photos  # fractions: out.mean.tif, out.variance.tif
  hosm denoise pictures.hosm stack.tif -o out.npz --sigma 25
  hosm denoise model.hosm noisy.csv -o out.csv""",
    "sample": "  hosm sample model.hosm -n 100 -o draws.csv --law clean",
    "ood": """  hosm ood model.hosm new.csv -o scores.csv
  hosm ood model.hosm new.csv -o scores.csv --reference held-out.csv""",
    "dimension": """  hosm dimension table.csv
  hosm dimension table.csv -o dimension.csv --neighbours 20 --drop name""",
    "info": "  hosm info model.hosm --json",
}
SCORES = """Without --out they are printed, a line for each point:

  row        label of the row, or its number, from 0; of patches: page, row, column
  deviation  how unusual length, trace and curvature are together: their distance from
             those at training rows, in standard deviations
  tail       share of rows known to follow the law that deviate as much or more: .05 or
             less for one new row in twenty of that law, close to 0 for an outlier
  length     size of the gradient of the log-density (root mean square over the columns);
             it grows with the distance to the data
  trace      mean second derivative over the columns: below 0 amid the data, nearer 0 or
             above it between groups of them
  curvature  size of all second derivatives, as for length; large where data are thin
  implicit   length^2 / 2 + trace: large where the learned density fits badly

Columns count in units of their standard deviations, so that they can be compared.
The formulas are in `hosm.estimator.out_of_distribution`."""
OUT = "file of the results: .npy, .npz, .csv, .parquet, .tif (float32) or .png (type of the input)"


def _sigma(text: str) -> list[float | str]:
    try:
        return ["auto"] if text == "auto" else [float(each) for each in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"must be numbers with commas between them, or auto, got {text!r}"
        ) from error


def _command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:  # noqa: ANN401
    """Add a subcommand, with the options that all have."""
    about, _, more = text.partition("\n")
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=f"{about[:1].upper()}{about[1:]}.\n{more}",
        epilog=f"for example:\n{EXAMPLES[name]}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--json", action="store_true", help="print one JSON object")
    made.add_argument("--quiet", action="store_true", help="no progress on stderr")
    made.add_argument(
        "--device", default="cpu", help="torch device of the networks (default: cpu)"
    )
    return made


def _add_table(made: argparse.ArgumentParser) -> None:
    """Add the options of how a table is read."""
    add = made.add_argument_group("of tables").add_argument
    add("--columns", metavar="A,B,..", help="take these columns alone, by name or number from 0")
    add("--drop", metavar="A,B,..", help="leave these columns out")
    text = "whether the first line holds names (default: judged by the lines)"
    add("--header", choices=("yes", "no"), help=text)
    text = "decimal sign of numbers in a text (default: judged by the cells)"
    add("--decimal", choices=(".", ","), help=text)
    text = "leave out rows with a missing cell, and say how many; answers to them are empty cells"
    add("--skip-missing", action="store_true", default=None, help=text)


def _add_fit(commands: Any) -> None:  # noqa: ANN401
    made = _command(commands, "fit", FIT)
    add = made.add_argument
    add("data", metavar="DATA")
    _add_table(made)
    add("-o", "--out", required=True, metavar="MODEL", help="file of the model")
    text = "noise scale: for tables in standard deviations of each column, several with commas "
    text += (
        "to choose from, or `auto` (default); for pictures LOW,HIGH in their units (default: 2 "
    )
    text += "to 60 parts in 255 of the largest value)"
    add("--sigma", type=_sigma, metavar="NUMBER[,..]", help=text)
    add("--pictures", action="store_true", help="a .npy or .npz file of DATA holds pictures")
    text = "how the law of a table is learned: in closed form (default), or by networks, to which "
    text += "the options from --target to --steps belong"
    add("--method", choices=("closed-form", "network"), help=text)
    add(
        "--rank",
        type=int,
        help="columns of the low-rank part (default: D, at most 20; 8 for pictures)",
    )
    add("--target", choices=("jacobian", "residual", "moment"))
    text = "one noise scale for all columns, in the data's units"
    add("--no-standardise", dest="standardise", action="store_false", help=text)
    add(
        "--weight-decay",
        type=float,
        help="weight decay; fewer data need more (default: .1)",
    )
    text = "noise scale of the pictures to learn from, in their units, or `auto`, where no clean "
    add("--noise", metavar="NUMBER", help=text + "ones are known (default: they are clean)")
    text = "a second noisy version of each picture, with noise of its own (with --noise)"
    add("--pairs", metavar="PICTURES", help=text)
    text = "model of pictures to go on from: a file, or `photos` for what comes with the package"
    add("--start", metavar="MODEL", help=text)
    text = "training steps (default: at most 3000 for tables, 4000 for pictures)"
    add("--steps", type=int, help=text)
    add("--seed", type=int, default=0, help="seed of all random numbers (default: 0)")
    add(
        "--patch",
        type=int,
        metavar="SIDE",
        help="learn the law of square patches of this side, for `ood` and `hessian`",
    )
    add("--whole", action="store_true", help="each picture is one point; all must have one size")
    add("--points", type=int, help="largest number of patches (default: 50000)")


def _add_denoise(commands: Any) -> None:  # noqa: ANN401
    """Add the subcommand `denoise`."""
    about = "write mean and variance of the clean point or picture given each noisy one"
    more = (
        "\nPATH is the model and the noisy data, or with --model the data alone. Pictures of any"
    )
    more += "\nsize are denoised by a model of pictures, such as `photos`, which comes with hosm."
    made = _command(commands, "denoise", about + more)
    add = made.add_argument
    add("paths", nargs="+", metavar="PATH")
    add("--model", help="file of the model, or photos")
    add("-o", "--out", required=True, help=OUT)
    text = "standard deviation of a picture's noise, in its units, or `auto` (default)"
    add("--sigma", metavar="NUMBER", help=text)
    text = "units of a picture for one count of light, for a noise of variance gain x + sigma^2, "
    text += "or `auto` (default: 0)"
    add("--gain", metavar="NUMBER", help=text)
    text = (
        "flips and quarter turns of a picture that are denoised for their mean, 1 to 8; 8 gains "
    )
    add("--symmetries", type=int, metavar="NUMBER", help=text + ".1 dB in 8 times as long")
    text = "noise that is cut off at the ends of the scale, as by 8 bits: put it back and denoise "
    text += "twice (mend, the default), or leave it (ignore)"
    add("--clipping", choices=("mend", "ignore"), help=text)
    text = "draw the denoised picture beside its predicted standard deviation, with a bar of "
    text += "colours, into this file (.png, .pdf or .svg)"
    add("--map", metavar="FILE", help=text)
    text = "write the central interval of this probability of each pixel too"
    add("--interval", type=float, metavar="LEVEL", help=text)
    text = "part of a picture that --directions and --draws are of"
    add("--window", metavar="ROW,COLUMN,HEIGHT,WIDTH", help=text)
    text = "write so many leading directions of the error, times their standard deviations"
    add("--directions", type=int, metavar="NUMBER", help=text)
    add("--draws", type=int, metavar="NUMBER", help="write so many draws of the clean picture")
    add("--seed", type=int, default=0, help="seed of the draws (default: 0)")
    _add_table(made)


def _add_ood(commands: Any, stride: str) -> None:  # noqa: ANN401
    """Add the subcommand `ood`."""
    about = "score how unlike the training points other points are"
    made = _command(commands, "ood", f"{about}\n{SCORES}")
    for name in ("model", "data"):
        made.add_argument(name, metavar=name.upper())
    made.add_argument("-o", "--out", help=OUT)
    made.add_argument(
        "--reference",
        metavar="DATA",
        help="points of the law that was learned, not used in the fit (default: training rows by "
        "models that have not seen them)",
    )
    made.add_argument(
        "--order",
        type=int,
        default=2,
        choices=(1, 2),
        help="largest order of the scores that are used (default: 2)",
    )
    made.add_argument("--stride", type=int, help=stride)
    _add_table(made)


def _add_dimension(commands: Any) -> None:  # noqa: ANN401
    """Add the subcommand `dimension`."""
    about = "say in how many directions a table varies around each of its rows"
    more = (
        "\nNo model is needed. The method is in `hosm.estimator.local_dimension`. With --out the"
    )
    more += "\ndimension of each row and its standard error are written."
    made = _command(commands, "dimension", about + more)
    made.add_argument("data", metavar="DATA")
    made.add_argument("-o", "--out", help=OUT)
    text = "rows in a ball; where 20 and 40 give more, the rows are few or noisy (default: 10)"
    made.add_argument("--neighbours", type=int, default=10, metavar="K", help=text)
    _add_table(made)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    first = argparse.ArgumentParser(
        prog="hosm",
        description=(__doc__ or "").partition("\n")[0],
        epilog="`hosm COMMAND --help` shows its options and an example.",
    )
    first.add_argument("--version", action="version", version=f"hosm {__version__}")
    commands = first.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_fit(commands)
    stride = "pixels from one patch to the next (default: {})"

    about = "write second derivatives of the log-density at points"
    about += "\nBy default the diagonal is written: the second derivative along each column."
    made = _command(commands, "hessian", about)
    for name in ("model", "data"):
        made.add_argument(name, metavar=name.upper())
    made.add_argument("-o", "--out", required=True, help=OUT)
    text = "write standard errors of the diagonal too, in a column NAME.std beside each NAME; of "
    text += "models in closed form, what `hosm fit` makes"
    made.add_argument("--std", action="store_true", help=text)
    kind = made.add_mutually_exclusive_group()
    text = "write whole matrices, not diagonals, to a .npz or .npy file"
    kind.add_argument("--dense", action="store_true", help=text)
    kind.add_argument(
        "--column", metavar="NAME", help="write one column of each, by name or number"
    )
    made.add_argument("--stride", type=int, help=stride.format("the patch's side"))
    _add_table(made)

    _add_denoise(commands)

    made = _command(
        commands, "sample", "draw points of the law that was learned, or such as imitate the table"
    )
    made.add_argument("model", metavar="MODEL")
    made.add_argument("-n", "--number", type=int, default=1, help="number of draws (default: 1)")
    made.add_argument("-o", "--out", required=True, help=OUT)
    made.add_argument("--law", default="noisy", choices=("noisy", "clean"))
    made.add_argument(
        "--steps", type=int, default=500, help="transitions of each chain (default: 500)"
    )
    made.add_argument(
        "--seed", type=int, default=0, help="seed of all random numbers (default: 0)"
    )

    _add_ood(commands, stride.format("the patch's side"))
    _add_dimension(commands)
    _command(commands, "info", "print what a model is").add_argument("model", metavar="MODEL")
    return first


def _lines(facts: dict[str, Any]) -> str:
    """Return facts as lines, tables of numbers as columns."""
    lines = []
    for name, value in facts.items():
        if name == "scores":
            rows = zip(*value.values(), strict=True)
            lines.append("\t".join(value))
            lines += ["\t".join(map(_text, row)) for row in rows]
        elif name == "contents":
            lines += [f"{file}: {text}" for file, text in value.items()]
        elif isinstance(value, dict):
            lines += [f"{name}.{key}: {_text(inner)}" for key, inner in value.items()]
        else:
            lines.append(f"{name}: {_text(value)}")
    return "\n".join(lines)


def _text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code.

    Args:
        arguments: the words after `hosm`; None for those of the process.
    """
    code = 1
    with a_reader_may_leave():
        options = parser().parse_args(arguments)
        try:
            with _notes(options.command):
                commands = importlib.import_module(
                    "hosm.cli.commands"
                )  # torch takes seconds: not for --help
                facts = getattr(commands, options.command)(options)
        except (*FAILURES, KeyboardInterrupt) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            print(f"hosm {options.command}: error: {reason}", file=sys.stderr)
        else:
            code, found = 0, {"command": options.command, **facts}
            print(json.dumps(found) if options.json else _lines(facts))
    return code


@contextmanager
def _notes(command: str) -> Iterator[None]:
    """Print each warning as one line on stderr, that of many files once, with their number."""
    files: dict[str, set[str]] = {}

    def told(text: str) -> None:
        print_beside(f"hosm {command}: note: {' '.join(text.split())}")

    def show(message: Any, *details: Any, **more: Any) -> None:  # noqa: ANN401
        text, file = getattr(message, "text", None), getattr(message, "path", "")
        if text is None or text not in files:
            told(str(message))
        if text is not None:
            files.setdefault(text, set()).add(file)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield
        finally:
            for text, named in files.items():
                if len(named) > 1:
                    told(f"the same of {len(named) - 1} more files: {text}")


if __name__ == "__main__":
    sys.exit(main())
