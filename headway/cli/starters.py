"""`headway new`: commented starters of contracts, and the stack file by which an environment has a tenant."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.completion import tenants
from headway.cli.environment_choice import environment_option
from headway.environment.checkout import SANDBOX
from headway.problem import Exit, UserError

app = typer.Typer(no_args_is_help=True, help="Write a commented starter that passes `headway check`.")

DEFAULT_FOLDER = Path("tenants")


class StarterRuntime(StrEnum):
    TRITON = "triton"
    VLLM = "vllm"
    CONTAINER = "container"


_Folder = Annotated[Path, typer.Option("--folder", help="The folder of all tenants.")]


@app.command("tenant")
def new_tenant(
    name: Annotated[str, typer.Argument(help="The tenant's name.")],
    environment: Annotated[str, environment_option("The first environment that has it.")] = SANDBOX,
    folder: _Folder = DEFAULT_FOLDER,
) -> None:
    """Write the contract of a new tenant to tenants/NAME/tenant.yaml, and the stack file by which an environment has it."""
    from headway.contract.reading.tenants import LAYERS, stack_file
    from headway.contract.starter import stack_starter, tenant_starter
    from headway.contract.tenant import RESERVED_NAMES, TAKEN
    from headway.environment.checkout import described

    _legal(name)
    if name in LAYERS:
        raise UserError(
            f"A tenant cannot be named {name}.", f"Its stack would be that of the {name} layer.", "Choose another name.", Exit.USAGE
        )
    if name.startswith(RESERVED_NAMES):
        raise UserError(
            f"A tenant cannot be named {name}: it begins like a namespace of the platform.",
            "`headway check` would refuse it.",
            f"Choose a name that begins with none of {', '.join(RESERVED_NAMES)}.",
            Exit.USAGE,
        )
    if name in TAKEN:
        raise UserError(
            f"A tenant cannot be named {name}: the platform calls something of its own so.",
            "`headway check` would refuse it.",
            "Choose another name.",
            Exit.USAGE,
        )
    stacks = folder.absolute().parent / "stacks"
    if stacks.is_dir():
        described(stacks.parent, environment)
    file, stack = folder / name / "tenant.yaml", stacks / stack_file(environment, name)
    _create(file, tenant_starter(name))
    typer.echo(str(file))
    if stacks.is_dir() and not stack.exists():
        _create(stack, stack_starter(name))
        typer.echo(os.path.relpath(stack))
    typer.echo(f"  Fill in what is marked `# replace`, then run: headway new model {name} NAME")


@app.command("model")
def new_model(
    tenant: Annotated[str, typer.Argument(autocompletion=tenants, help="The tenant that the model belongs to.")],
    name: Annotated[str, typer.Argument(help="The model's name.")],
    runtime: Annotated[StarterRuntime, typer.Option("--runtime", "-r", help="The server that runs the model.")] = StarterRuntime.TRITON,
    folder: _Folder = DEFAULT_FOLDER,
) -> None:
    """Write the contract of a new model to tenants/TENANT/NAME.yaml."""
    from headway.contract.runtime import Engine
    from headway.contract.starter import model_starter

    _legal(tenant)
    _legal(name)
    if name == "tenant":
        raise UserError(
            "A model cannot be named tenant.", "Its file would be the tenant's own contract.", "Choose another name.", Exit.USAGE
        )
    if not (folder / tenant / "tenant.yaml").is_file():
        raise UserError(
            f"There is no tenant {tenant} in {folder}.",
            "A model without a tenant has no quota and no owner.",
            f"Write its contract first: `headway new tenant {tenant}`.",
            Exit.USAGE,
        )
    file = folder / tenant / f"{name}.yaml"
    _create(file, model_starter(tenant, name, Engine(runtime.value)))
    typer.echo(f"{file}\n  Fill in what is marked `# replace`, then run: headway check {folder / tenant}")


def _legal(name: str) -> None:
    from pydantic import TypeAdapter, ValidationError

    from headway.contract.part import Name

    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        raise UserError(
            f"{name!r} is not a legal name.",
            "It becomes part of the names of Kubernetes objects.",
            "Use lower-case letters, digits and inner hyphens, starting with a letter, at most 40 characters.",
            Exit.USAGE,
        ) from None


def _create(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise UserError(f"{file} exists already.", "It was not touched.", "Choose another name, or edit it.", Exit.USAGE) from None
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}.", "Nothing was created.", "Make the folder writable.") from None
