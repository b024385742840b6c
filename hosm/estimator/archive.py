"""A fitted estimator as one file: tensors as safetensors, all else as JSON in the file's header.

The file is written beside its place and moved there when complete, so that it is whole or not
there at all; what stood there before stays until then. Nothing in it is executed when it is read.
"""

from __future__ import annotations

import json
import os
import tempfile
from numbers import Integral
from pathlib import Path
from typing import Any, Self

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hosm import __version__
from hosm.estimator.answers import Fitted
from hosm.estimator.arrays import Scaling
from hosm.estimator.frozen_denoiser import frozen_model
from hosm.estimator.recipe import first_model, with_head

__all__ = ["Stored", "read_archive", "write_archive"]

KEY = "hosm"  # of the JSON text among the header's entries
PARTS = ("backbone", "head", "denoiser")  # parameters that no file holds


def write_archive(path: str | os.PathLike[str], tensors: dict[str, Tensor], card: Any) -> None:  # noqa: ANN401
    """Write tensors and a card into one file, whole or not at all.

    Args:
        path: the file; its folder must exist.
        tensors: by name, of any shape.
        card: whatever JSON can say: finite numbers, texts, lists, dictionaries, None.

    Raises:
        OSError: the folder is missing or cannot be written to.
        TypeError: the card holds what JSON cannot say.
        ValueError: the card holds a number that is not finite.
    """
    place = Path(path)
    text = json.dumps(card, allow_nan=False)
    held = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    data = save(held, metadata={KEY: text})
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-") as folder:
        staged = Path(folder) / place.name
        with staged.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(staged, place)


def read_archive(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], Any]:
    """Return the tensors and the card of a file that `write_archive` wrote.

    Args:
        path: the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged or of another kind.
    """
    try:
        with safe_open(path, "pt") as stream:
            text = (stream.metadata() or {}).get(KEY)
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or no safetensors file: {error}") from error
    if text is None:
        raise ValueError(f"{path} has no card of hosm in its header; legal are files of `save`")
    return tensors, json.loads(text)


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return a parameter as JSON can say it: NumPy's numbers and arrays as Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


class Stored(Fitted):
    """An estimator that can be saved and loaded.

    Its parameters include those of `PARTS`, `device`, `random_state` and `callback`.
    """

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator into one file, whole or not at all.

        Left out are modules and a denoiser that were given, a callback, and a random_state that
        is no integer.

        Args:
            path: the file; what stood there is replaced.

        Raises:
            ValueError: before `fit`.
            OSError: the folder is missing or cannot be written to.
        """
        self._check_fitted()
        parameters = self.get_params()
        given = [name for name in PARTS if parameters.pop(name) is not None]
        del parameters["callback"], parameters["device"]
        if not isinstance(parameters["random_state"], Integral):
            del parameters["random_state"]
        model, scaling = self.model_, self.scaling_
        card = {
            "version": __version__,
            "parameters": {name: _plain(value) for name, value in parameters.items()},
            "given": given,
            "model": {"sigma": model.sigma, "rank": model.rank, "data_std": model.data_std},
            "sigma": self.sigma_,
            "names": [*getattr(self, "feature_names_in_", [])],
            "search": [*self.search_.items()],
            "history": self.history_,
        }
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        own = {"mean": scaling.mean, "scale": scaling.scale, "starts": self.starts_}
        write_archive(path, {**tensors, **own}, card)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        device: str = "cpu",
        **parts: Any,  # noqa: ANN401
    ) -> Self:
        """Return an estimator that `save` wrote; nothing in the file is executed.

        Args:
            path: the file.
            device: where the networks are to be.
            parts: backbone, head and denoiser, each if and as it was given to the constructor;
                the file holds the weights of the first two.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is damaged or of another kind, or does not fit the parts.
        """
        tensors, card = read_archive(path)
        given = [name for name in PARTS if parts.get(name) is not None]
        if given != card["given"] or not {*parts} <= {*PARTS}:
            raise ValueError(f"{path} is to be loaded with {card['given']}, got {[*parts]}")
        parameters: dict[str, Any] = {**card["parameters"], **parts, "device": device}
        estimator = cls(**parameters)
        scaling = Scaling(tensors.pop("mean"), tensors.pop("scale"))
        starts, facts = tensors.pop("starts"), card["model"]
        dimension = len(scaling.mean)
        if parts.get("denoiser") is None:
            first = first_model(dimension, facts["sigma"], parts.get("backbone"), 0)
        else:
            shape, std = (dimension,), facts["data_std"]
            first = frozen_model(parts["denoiser"], shape, facts["sigma"], std)
        model = with_head(first, parts.get("head"), facts["rank"], 0)
        try:
            model.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items()})
        except RuntimeError as error:
            raise ValueError(f"{path} does not fit the modules: {error}") from error
        model = model.eval().requires_grad_(False).to(device)
        estimator._take(model, scaling, starts.to(device), card["sigma"], card["names"])
        estimator.search_, estimator.history_ = dict(card["search"]), card["history"]
        return estimator
