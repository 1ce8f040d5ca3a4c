"""``hotview federated``: views that may not leave the organizations that own them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from hotview.cli.options import Debug, Force, Json
from hotview.cli.runner import UsageError, as_usage, check_new_file, print_json

__all__ = ["federated"]

federated = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
_SETTINGS = "Settings, instead of those in pyproject.toml"

App = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder of the federation.", show_default=False)
]


def _flag(text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, show_default=False, rich_help_panel=_SETTINGS, **more)


@federated.command(
    epilog="Examples:\n\n[bold]hotview federated new study --organization clinical --organization "
    "genetic --label-holder clinical[/bold]\n\n[bold]hotview federated new study --sample[/bold]"
)
def new(
    app: App,
    organization: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Who takes part, with a view of this name; once for each.",
            show_default=False,
        ),
    ] = None,
    label_holder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Who has the labels; without, views are encoded.",
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        bool,
        typer.Option("--sample", help="Three organizations that have tables of digits already."),
    ] = False,
    random_state: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Seed of the training, and of the sample.")
    ] = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a federation: a Flower app with a configuration for every organization."""
    if sample and (organization or label_holder):
        raise UsageError("--sample comes with its own organizations; leave the others out.")
    if not sample and not organization:
        raise UsageError("Say who takes part, as in --organization clinical, or use --sample.")
    names = _write_sample(app, random_state) if sample else None
    if names is None:
        from hotview.federated.app_template import write_app
        from hotview.federated.settings import Settings

        names = list(organization or ())
        settings = Settings(label_holder=label_holder, random_state=random_state)
        with as_usage():
            write_app(app, names, settings)
    if json:
        files = sorted(str(path) for path in app.rglob("*") if path.is_file())
        print_json({"app": str(app), "organizations": names, "files": files})
        return
    quoted = shlex.quote(str(app))
    typer.echo(f"Federation of {', '.join(names)} written to {app}")
    for name in names:
        typer.echo(f"  {app / 'organizations' / f'{name}.toml'}: what {name} has, and how")
    typer.echo(f"  {app / 'README.md'}: what each side does, between machines")
    first = "" if sample else "fill in what every organization has; then "
    typer.echo(f"Next: {first}hotview federated simulate {quoted}")


def _write_sample(app: Path, random_state: int) -> list[str]:
    from hotview.cli.federated_jobs import NAMES, write_sample_federation

    write_sample_federation(app, random_state)
    return list(NAMES)


@federated.command(
    epilog="Examples:\n\n[bold]hotview federated simulate study[/bold]\n\n"
    "[bold]hotview federated simulate study --rounds 10 --epsilon 8 --force[/bold]"
)
def simulate(
    app: App,
    rounds: Annotated[int | None, _flag("How often organizations hear of each other.")] = None,
    local_steps: Annotated[int | None, _flag("Steps that each takes in between.")] = None,
    quantiles: Annotated[
        int | None, _flag("Numbers that tell an organization's projections on a direction.")
    ] = None,
    coupling: Annotated[str | None, _flag("hot-reference, hot-pairwise or none.")] = None,
    view_regularizer: Annotated[str | None, _flag("none or autoencoder.")] = None,
    label_holder: Annotated[str | None, _flag("Whose labels teach all.", metavar="NAME")] = None,
    propagate_labels: Annotated[
        bool | None,
        _flag("Send the labels of linked rows to all, who spread them.", "--share-labels"),
    ] = None,
    share_features: Annotated[
        bool | None, _flag("Send the label holder features of linked rows.", "--share-features")
    ] = None,
    fusion_fraction: Annotated[
        float | None, _flag("Share of linked rows that only tell how much each view counts.")
    ] = None,
    n_references: Annotated[int | None, _flag("K, reference clouds.")] = None,
    n_projections: Annotated[int | None, _flag("M, directions of a round.")] = None,
    batch_size: Annotated[int | None, _flag("Rows of a step.")] = None,
    learning_rate: Annotated[float | None, _flag("Of Adam.")] = None,
    coupling_weight: Annotated[float | None, _flag("γ, of the coupling.")] = None,
    min_clients: Annotated[
        int | None, _flag("Answers without which a round does not count.")
    ] = None,
    random_state: Annotated[
        int | None, _flag("Seed; the same gives the same parts.", min=0, max=2**63 - 1)
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="ε: noise at every organization, so that all rounds together are (ε, δ)-private.",
            show_default=False,
        ),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="δ. Default: 1e-5.", show_default=False)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what every organization has, and stop there.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last whole round, if there is one.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Begin anew where an earlier training is.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Train a federation in this process, without a network: the same messages, rounds and parts.

    Its checkpoint is written after every round. Ctrl-C stops after the round that is under way, \
and --resume goes on from there with the same settings.
    """
    given = dict(locals())
    from hotview.cli.federated_jobs import Job, run_simulation
    from hotview.federated import Privacy
    from hotview.federated.settings import Settings

    if resume and force:
        raise UsageError("--resume goes on and --force begins anew: give one of them.")
    if delta is not None and epsilon is None:
        raise UsageError("--delta needs --epsilon.")
    privacy = None
    if epsilon is not None:
        with as_usage():
            privacy = Privacy(epsilon) if delta is None else Privacy(epsilon, delta)
    settings = {name: given[name] for name in Settings().to_json() if name in given}
    raise typer.Exit(run_simulation(Job(app, settings, privacy, dry_run, resume, force, json)))


@federated.command(
    epilog="Example:\n\n[bold]hotview federated join study/organizations/*/part.hotview "
    "-o joint.hotview[/bold]"
)
def join(
    parts: Annotated[
        list[Path],
        typer.Argument(
            metavar="PART...",
            help="Parts of one training, of two organizations or more (part.hotview).",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Where to save the model (.hotview).", show_default=False),
    ],
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Put parts of a model together, which then predicts from any of their views."""
    from hotview.federated import join_partial_models
    from hotview.persistence import check_model_path, load_model

    check_model_path(out)
    check_new_file(out, force=force)
    join_partial_models(parts, out)
    model = load_model(out, device="cpu")
    if json:
        print_json({"out": str(out), "views": model.view_names_})
        return
    typer.echo(f"Model of {', '.join(model.view_names_)} saved to {out}")
    files = " ".join(f"{name}=FILE" for name in model.view_names_)
    if hasattr(model, "classes_"):
        typer.echo(f"Next: hotview predict {shlex.quote(str(out))} {files} -o predictions.csv")
    else:
        typer.echo(f"Next: hotview transform {shlex.quote(str(out))} {files} -o features")
