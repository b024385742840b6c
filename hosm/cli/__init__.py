"""The command `hosm`: `arguments` reads the command line, `commands` does the work."""

from hosm.cli.arguments import main, parser

__all__ = [
    "main",
    "parser",
]
