"""How a command's answer is printed: the one choice that every command offers in the same words."""

from enum import StrEnum
from typing import Annotated

import typer


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="`text` for people, `json` for programs.")]
