"""Sections of params.yaml that hold the settings of several models, each of them written once.

The settings of one data set's model are laid over one another: those of `common`, then those of
the section that lists the data set under `datasets`, then those of the section of its name. A
data set has settings if such a list or such a section names it.
"""

from typing import Any, NamedTuple

from hosm.experiment.settings.model import SettingsError

__all__ = ["Layers"]

Settings = dict[str, Any]
COMMON = "common"


def mapping(value: Any, where: str) -> Settings:  # noqa: ANN401
    """Return the mapping of params.yaml at `where`, which may be empty.

    Raises:
        SettingsError: it is something else.
    """
    if value is not None and not isinstance(value, dict):
        raise SettingsError(f"params.yaml: {where} must be a mapping of settings, got {value!r}")
    return value or {}


class Layers(NamedTuple):
    """The sections of models within one section of params.yaml.

    `where` is its name, `sections` holds the settings by the name of their section, and `group`
    the name of the section that lists a data set, by data set.
    """

    where: str
    sections: dict[str, Settings]
    group: dict[str, str]

    @classmethod
    def read(cls, where: str, section: Settings) -> "Layers":
        """Return the layers of a section, all of whose values are sections of models.

        Raises:
            SettingsError: a value is no mapping, or a data set is listed twice.
        """
        sections = {name: mapping(own, f"{where}.{name}") for name, own in section.items()}
        group: dict[str, str] = {}
        for name, own in sections.items():
            listed = own.get("datasets", [])
            if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
                raise SettingsError(
                    f"params.yaml: {where}.{name}.datasets must be a list of names, got {listed!r}"
                )
            for each in listed:
                if each in group:
                    raise SettingsError(
                        f"params.yaml: {where} must list {each} once, got it in {group[each]} and "
                        f"in {name}"
                    )
                group[each] = name
        return cls(where, sections, group)

    def names(self) -> list[str]:
        """Return the data sets that have settings."""
        own = [n for n, each in self.sections.items() if n != COMMON and "datasets" not in each]
        return sorted({*self.group, *own})

    def _of(self, name: str) -> list[str]:
        """Return the sections that hold settings of a data set, the last of which prevails."""
        of = [COMMON, self.group.get(name, COMMON), name]
        return [each for each in dict.fromkeys(of) if each in self.sections]

    def settings(self, name: str) -> Settings:
        """Return the settings of a data set's model."""
        merged: Settings = {}
        for each in self._of(name):
            merged |= self.sections[each]
        return {key: value for key, value in merged.items() if key != "datasets"}

    def source(self, name: str, key: str, kinds: tuple[str, ...] = ()) -> str:
        """Return the place in params.yaml that a data set's setting is written at.

        Args:
            name: the data set.
            key: the setting; where no section holds it, the narrowest section is returned.
            kinds: keys of mappings whose settings prevail over the section's own, the last first.
        """
        sections = [self.where + "." + each for each in self._of(name)]
        held = [self.sections[each] for each in self._of(name)]
        for kind in reversed(kinds):
            of_kind = [(at, own) for at, own in zip(sections, held, strict=True) if kind in own]
            if of_kind and key in (of_kind[-1][1][kind] or {}):
                return f"{of_kind[-1][0]}.{kind}"
        holding = [at for at, own in zip(sections, held, strict=True) if key in own]
        return (holding or sections)[-1]
