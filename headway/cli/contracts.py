"""`headway check`, `diff` and `schema`: contracts for model teams and for CI.

Mounted without a name, so that they stand at the top level. Findings go to stdout: they are the result. Exit codes: 0 accepted, 1 refused,
2 wrong use.
"""

import json
import os
import subprocess
import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import starters
from headway.cli.contract_judges import judges, provable, registries, surroundings
from headway.cli.environment_choice import environment_option, typed
from headway.cli.starters import DEFAULT_FOLDER
from headway.environment.checkout import ENVIRONMENT_VARIABLE
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from headway.contract.explanation import Line
    from headway.contract.model import Model
    from headway.contract.pool import Pool
    from headway.contract.reading.loader import CheckResult, ModelCheck
    from headway.contract.tenant import Tenant
    from headway.problem import Problem

app = typer.Typer(no_args_is_help=True)
app.add_typer(starters.app, name="new")
DIAGNOSIS = "diagnosis"
"""Of the kinds of documents with a schema, the one that is no contract."""


class CheckOutput(StrEnum):
    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


class DiffOutput(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


class SchemaOutput(StrEnum):
    JSON = "json"
    MARKDOWN = "markdown"


@app.command()
def check(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="The folder of all tenants, the folder of one, or one contract.")] = DEFAULT_FOLDER,
    output: Annotated[
        CheckOutput, typer.Option("--output", "-o", help="`text` for people, `json` for programs, `sarif` for code scanning.")
    ] = CheckOutput.TEXT,
    environment: Annotated[
        str | None, environment_option("Also check the files of that environment's layers, and every contract against its GPU pools.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the arithmetic: memory, start-up, room, quota, cost.")] = False,
    registry: Annotated[
        bool, typer.Option("--registry", help="Also ask the model registry that each contract names whether it lists this artifact.")
    ] = False,
) -> None:
    """Check contracts, and show every problem of every file at once, with its consequence and its remedy.

    Exit codes: 0 all accepted (warnings may be there), 1 something is refused, 2 wrong use.
    """
    from headway.cli.contract_verdict import print_result
    from headway.contract.report import as_json, as_sarif

    path = _found(path)
    if environment and typed(context, environment) is None:
        typer.echo(f"for environment {environment}, which {ENVIRONMENT_VARIABLE} names", err=True)
    stacks, pools, pool_findings = _environment(environment, path)
    sums: tuple[Line, ...] = ()
    if environment and not pool_findings:
        sums, pool_findings = _system_room(environment, path)
    result, prefix = _load(path, pools, registries() if registry else None, environment, stacks)
    if output is CheckOutput.JSON:
        from headway.cli.contract_view import environment_record, explained_record

        record = as_json(result, prefix)
        if environment:
            record["environment"] = environment_record(sums, pool_findings)
            record["ok"] = record["ok"] and not _blocked(pool_findings)
        if explain:
            record["explained"] = explained_record(result, pools)
        _write(json.dumps(record, indent=2, ensure_ascii=False))
    elif output is CheckOutput.SARIF:
        from headway import VERSION

        _write(json.dumps(as_sarif(result.findings, VERSION, prefix), indent=2, ensure_ascii=False))
    else:
        print_result(result, prefix, pool_findings, _from_here(stacks) if environment else "")
        if sums:
            from headway.cli.contract_view import print_system_pool

            print_system_pool(sums, explain=explain)
        if explain:
            from headway.cli.contract_view import print_explained

            print_explained(result, pools)
    raise typer.Exit(Exit.OK if result.ok and not _blocked(pool_findings) else Exit.REFUSED)


def _found(path: Path) -> Path:
    """The folder of tenants where no other is named: the one here, else the checkout's. Raises UserError outside of a checkout."""
    from headway.environment.checkout import find

    return path if path != DEFAULT_FOLDER or path.exists() else find() / DEFAULT_FOLDER


def accepted(path: Path, environment: str) -> bool:
    """Check the contracts in `path` against an environment's pools, print what `headway check` prints, and answer its verdict."""
    from headway.cli.contract_verdict import print_result

    stacks, pools, pool_findings = _environment(environment, path)
    result, prefix = _load(path, pools, None, environment, stacks)
    print_result(result, prefix, pool_findings, _from_here(stacks))
    return result.ok and not _blocked(pool_findings)


def _blocked(findings: "tuple[Problem, ...]") -> bool:
    return any(finding.blocking for finding in findings)


def _load(
    path: Path, pools: "tuple[Pool, ...] | None", judge: "ModelCheck | None", environment: str | None, stacks: Path
) -> "tuple[CheckResult, str]":
    """The result for `path`, and what to put before its file names to make them findable from here.

    Of all tenants, those that the environment has; one that is named is judged whether the environment has it or not.
    """
    from dataclasses import replace

    from headway.contract.reading.loader import TENANT_FILE, load_tenant, load_tenants
    from headway.contract.reading.tenants import tenants_of

    judge = judges(judge, provable, *([surroundings(environment, stacks)] if environment is not None else []))

    if not path.exists():
        near = _near(path)
        raise UserError(
            f"There is no {path}.",
            "Nothing was checked.",
            f"Did you mean {near}?" if near else "Name the folder of tenants, the folder of one tenant, or one contract.",
            Exit.USAGE,
        )
    if (path / DEFAULT_FOLDER).is_dir() and (path / "Pulumi.yaml").is_file():
        raise UserError(
            f"{path.absolute()} is a checkout.", "Nothing was checked.", f"Name its contracts: {path / DEFAULT_FOLDER}.", Exit.USAGE
        )

    def beside(folder: Path) -> list[str]:
        """The tenants whose folders stand next to it."""
        return [each.parent.name for each in folder.parent.glob(f"*/{TENANT_FILE}")]

    target = path.absolute()
    if not target.is_dir() and (target.suffix != ".yaml" or not target.is_file()):
        raise UserError(
            f"{path} is neither a folder nor a contract.", "Nothing was checked.", "Contracts are files that end in .yaml.", Exit.USAGE
        )
    if target.is_file():
        result, root = load_tenant(target.parent, pools, judge, beside(target.parent)), target.parent.parent
        own = f"{target.parent.name}/{target.name}"
        result = replace(result, findings=tuple(finding for finding in result.findings if finding.file == own))
    elif (target / TENANT_FILE).exists():
        result, root = load_tenant(target, pools, judge, beside(target)), target.parent
    else:
        only = tenants_of(environment, stacks) if environment is not None else None
        result, root = load_tenants(target, pools, judge, only), target
    return (replace(result, findings=_where_it_is_deployed(result.findings)) if environment is not None else result), _from_here(root)


def _near(path: Path) -> Path | None:
    """What stands in the same folder under a name that is nearly this one."""
    from difflib import get_close_matches

    names = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    return next((path.parent / name for name in get_close_matches(path.name, names, n=1)), None)


def _where_it_is_deployed(findings: "tuple[Problem, ...]") -> "tuple[Problem, ...]":
    """The findings for an environment, whose policies refuse a starter's digests."""
    from dataclasses import replace

    from headway.contract.crosscheck.arithmetic_of_model import DIGEST_IS_REAL
    from headway.problem import ProblemLevel

    return tuple(replace(each, level=ProblemLevel.ERROR) if each.rule == DIGEST_IS_REAL else each for each in findings)


def _from_here(folder: Path) -> str:
    """What to put before a name in the folder, so that it is found from the working folder."""
    prefix = os.path.relpath(folder)
    return "" if prefix == "." else Path(prefix).as_posix() + "/"


def _system_room(environment: str, path: Path) -> "tuple[tuple[Line, ...], tuple[Problem, ...]]":
    from headway.cli.platform_sums import platform_sums
    from headway.environment.checkout import find

    sums = platform_sums(find(path.absolute() if path.is_dir() else path.absolute().parent), environment)
    return sums.lines, sums.problems


def _environment(environment: str | None, path: Path) -> "tuple[Path, tuple[Pool, ...] | None, tuple[Problem, ...]]":
    """The folder of stack files, the environment's pools, and what is wrong with the stack files."""
    if environment is None:
        return path, None, ()
    from headway.contract.reading.pools import pools_of
    from headway.contract.reading.tenants import folder_missing
    from headway.environment.checkout import described, find

    project = find(path.absolute() if path.is_dir() else path.absolute().parent)
    file = described(project, environment)
    folder = file.parent
    try:
        pools, findings = pools_of(file)
    except OSError as error:
        raise UserError(
            f"{file} cannot be read: {error.strerror}.", "Nothing was checked.", "Make it readable; then run the command again.", Exit.USAGE
        ) from None
    return folder, None if _blocked(findings) else pools, (*findings, *folder_missing(environment, folder, project / "tenants"))


def _write(text: str) -> None:
    """To stdout as UTF-8, whatever the locale; a reader that has gone away is no error."""
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Differences ----------------------------------------------------------------------------------------------------------------------


@app.command()
def diff(
    old: Annotated[
        Path | None, typer.Argument(help="The old contract; without a second one: a contract or folder to compare with git.")
    ] = None,
    new: Annotated[Path | None, typer.Argument(help="The new contract.")] = None,
    against: Annotated[str, typer.Option("--against", help="The git revision to compare with.")] = "HEAD",
    output: Annotated[
        DiffOutput, typer.Option("--output", "-o", help="`text` for people, `json` for programs, `markdown` for a comment on a merge.")
    ] = DiffOutput.TEXT,
) -> None:
    """Show what has changed between contracts: each field, the effect of its change, and whether it needs a new release.

    Exit codes: 0 compared, 1 a contract is refused, 2 wrong use.
    """
    from headway.cli.contract_view import difference_record, differences_markdown, print_differences
    from headway.contract.difference import Difference, difference

    if old is not None and new is not None:
        pairs = [
            (new.name, _read(old, old.read_bytes() if old.is_file() else None), _read(new, new.read_bytes() if new.is_file() else None))
        ]
    else:
        pairs = _against_git(_found(old or DEFAULT_FOLDER), against)
    found: list[tuple[str, str, Difference | None]] = []
    for name, before, after in pairs:
        if before is None or after is None:
            found.append((name, "removed" if after is None else "added", None))
        elif type(before) is not type(after):
            raise UserError(
                f"{name}: a tenant and a model have nothing to compare.",
                "Nothing was compared.",
                "Name two contracts of one kind.",
                Exit.USAGE,
            )
        else:
            changes = difference(before, after)
            if changes.changes:
                found.append((name, "changed", changes))
    if output is DiffOutput.MARKDOWN:
        _write(differences_markdown(found))
    elif output is DiffOutput.JSON:
        _write(json.dumps([difference_record(*each) for each in found], indent=2, ensure_ascii=False))
    else:
        print_differences(found)


def _read(path: Path, raw: bytes | None) -> "Model | Tenant":
    """The contract in `raw`; raises UserError with the first findings when it is refused."""
    from headway.contract.model import Model
    from headway.contract.reading.document import read
    from headway.contract.reading.validation import contract_from
    from headway.contract.tenant import Tenant

    if raw is None:
        raise UserError(
            f"There is no file {path}.",
            "Nothing was compared.",
            "Name two contracts that exist; or name one, which is then compared with git.",
            Exit.USAGE,
        )
    document = read(raw, str(path))
    kind = Tenant if isinstance(document.data, dict) and document.data.get("contract") == "tenant/v1" else Model
    contract, findings = contract_from(document, kind)
    if contract is None:
        first = next(iter((*document.findings, *findings)))
        raise UserError(
            ": ".join(filter(None, (first.place, first.dotted, f"{first.fact}."))),
            "A refused contract cannot be compared.",
            "Run `headway check` on it.",
            Exit.REFUSED,
        )
    return contract


def _against_git(path: Path, revision: str) -> "list[tuple[str, Model | Tenant | None, Model | Tenant | None]]":
    """Pairs of contracts at `revision` and now, for the files that differ."""
    if not path.exists():
        raise UserError(f"There is no {path}.", "Nothing was compared.", "Name a contract or a folder of them.", Exit.USAGE)
    base = path if path.is_dir() else path.parent
    top = Path(_git(base, "rev-parse", "--show-toplevel", fails=f"{base} is in no git repository").decode().strip())
    asked = ("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    commit = _git(base, *asked, fails=f"git knows no revision {revision}").decode().strip()
    listed = _git(base, "ls-tree", "-r", "-z", "--name-only", "--full-name", commit, "--", str(path.absolute()))
    names = {name for name in listed.decode().split("\0") if name.endswith(".yaml")}
    here = {file.absolute().relative_to(top).as_posix() for file in (path.rglob("*.yaml") if path.is_dir() else [path])}
    pairs: list[tuple[str, Model | Tenant | None, Model | Tenant | None]] = []
    for name in sorted(names | here):
        now = (top / name).read_bytes() if name in here else None
        then = _git(base, "show", f"{commit}:{name}") if name in names else None
        if now != then:
            pairs.append(
                (
                    name,
                    _read(Path(f"{revision}:{name}"), then) if then is not None else None,
                    _read(Path(name), now) if now is not None else None,
                )
            )
    return pairs


def _git(folder: Path, *arguments: str, fails: str = "") -> bytes:
    try:
        with tempfile.TemporaryFile() as complaint:
            return subprocess.run(
                ["git", "-C", str(folder.absolute()), *arguments], check=True, stdout=subprocess.PIPE, stderr=complaint, timeout=60
            ).stdout
    except FileNotFoundError:
        raise UserError("git is not installed.", "There is nothing to compare with.", "Install git, or name two files.") from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        raise UserError(
            f"{fails or f'git {arguments[0]} failed in {folder}'}.",
            "There is nothing to compare with.",
            "Run it inside the checkout, with an existing revision after --against, or name two files.",
            Exit.USAGE,
        ) from None


@app.command()
def schema(
    kind: Annotated[str, typer.Argument(help="`model`, `tenant`, `pool`, `system_pool` or `diagnosis`.")] = "model",
    output: Annotated[
        SchemaOutput, typer.Option("--output", "-o", help="`json` for editors; `markdown` for docs/reference/contract.md.")
    ] = SchemaOutput.JSON,
) -> None:
    """Print the JSON Schema of a contract or of `diagnose --output json`, or the reference page of all contracts."""
    from headway.contract.reference import KINDS, markdown
    from headway.contract.reference import schema as schema_of
    from headway.diagnosis import record

    if output is SchemaOutput.MARKDOWN:
        _write(markdown().rstrip("\n"))
        return
    if kind not in (*KINDS, DIAGNOSIS):
        raise UserError(
            f"There is no schema of {kind}.", "Nothing was printed.", f"Use one of {', '.join((*KINDS, DIAGNOSIS))}.", Exit.USAGE
        )
    _write(json.dumps(record.schema() if kind == DIAGNOSIS else schema_of(kind), indent=2))
