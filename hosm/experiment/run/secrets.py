"""Secrets are hidden in messages, logs and tags: passwords in addresses, secret variables."""

import os
import re

__all__ = ["masked"]

USER = re.compile(r"(?<=://)[^\s/@]+@")  # user:password@ of an address
SECRET = re.compile(r"SECRET|TOKEN|PASSWORD|CREDENTIAL|API_?KEY|ACCESS_KEY", re.IGNORECASE)
PLACE = re.compile(r"_(PATH|FILE|MODE|URI)$", re.IGNORECASE)  # says where a secret lies
SHORTEST = 8  # characters of a secret; a shorter one could be a common word


def masked(text: str) -> str:
    """Return a text in which secrets are ***.

    Args:
        text: may hold an address with a password, or the value of an environment variable whose
            name says that it is secret, such as AWS_SECRET_ACCESS_KEY.
    """
    shown = USER.sub("***@", text)
    for name, value in os.environ.items():
        if len(value) >= SHORTEST and SECRET.search(name) and not PLACE.search(name):
            shown = shown.replace(value, "***")
    return shown
