"""``hotview federated``: federated training, with every view at its organization."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from hotview.cli.options import Debug, Force, Json, RandomState, flag, option
from hotview.cli.runner import UsageError, as_usage, check_new_file, print_result

federated = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
_SETTINGS = "Settings, which replace those in pyproject.toml"

App = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder of the federation.", show_default=False)
]


def _setting(text: str, *names: str, **more: Any) -> Any:
    return option(text, *names, rich_help_panel=_SETTINGS, **more)


@federated.command(
    epilog="Examples:\n\n[bold]hotview federated new study --organization clinical --organization "
    "genetic --label-holder clinical[/bold]\n\n[bold]hotview federated new study --sample[/bold]"
)
def new(
    app: App,
    organization: Annotated[
        list[str] | None,
        option("Name of an organization and of its view; repeat it for each.", metavar="NAME"),
    ] = None,
    label_holder: Annotated[
        str | None,
        option("Organization with labels. Default: none, views are encoded.", metavar="NAME"),
    ] = None,
    sample: Annotated[
        bool, flag("--sample", "Write three organizations with tables of digits.")
    ] = False,
    random_state: RandomState = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a federation: a Flower app with a configuration of every organization."""
    if sample and (organization or label_holder):
        raise UsageError("--sample has its own organizations; leave the other options out.")
    if not sample and not organization:
        raise UsageError("Name the organizations, as in --organization clinical, or use --sample.")
    if sample:
        from hotview.cli.demo import SAMPLE_NAMES, write_sample_federation

        names = list(SAMPLE_NAMES)
        write_sample_federation(app, random_state)
    else:
        from hotview.federated.configuration import write_app
        from hotview.federated.settings import Settings

        names = list(organization or ())
        settings = Settings(label_holder=label_holder, random_state=random_state)
        with as_usage():
            write_app(app, names, settings)
    files = sorted(str(path) for path in app.rglob("*") if path.is_file())
    home, first = app / "organizations", "" if sample else "fill in the configurations; then "
    print_result(
        {"app": str(app), "organizations": names, "files": files},
        f"Federation of {', '.join(names)} written to {app}",
        *(f"  {home / f'{name}.toml'}: configuration of {name}" for name in names),
        f"  {app / 'README.md'}: commands of each side, between machines",
        f"Next: {first}hotview federated simulate {shlex.quote(str(app))}",
        as_json=json,
    )


@federated.command(
    epilog="Examples:\n\n[bold]hotview federated simulate study[/bold]\n\n"
    "[bold]hotview federated simulate study --rounds 10 --epsilon 8 --force[/bold]"
)
def simulate(
    app: App,
    rounds: Annotated[int | None, _setting("Number of rounds.")] = None,
    local_steps: Annotated[int | None, _setting("Steps between two rounds.")] = None,
    quantiles: Annotated[int | None, _setting("Quantiles sent per direction.")] = None,
    coupling: Annotated[str | None, _setting("hot-reference, hot-pairwise or none.")] = None,
    view_regularizer: Annotated[str | None, _setting("none or autoencoder.")] = None,
    label_holder: Annotated[str | None, _setting("Organization with labels.")] = None,
    share_labels: Annotated[
        bool | None, _setting("Send the labels of linked rows to all clients.", "--share-labels")
    ] = None,
    share_features: Annotated[
        bool | None,
        _setting("Send features of linked rows to the label holder.", "--share-features"),
    ] = None,
    fusion_fraction: Annotated[float | None, _setting("Held-out share of linked rows.")] = None,
    n_references: Annotated[int | None, _setting("K: number of reference clouds.")] = None,
    n_projections: Annotated[int | None, _setting("M: directions of a step.")] = None,
    batch_size: Annotated[int | None, _setting("Rows of a step.")] = None,
    learning_rate: Annotated[float | None, _setting("Learning rate of Adam.")] = None,
    coupling_weight: Annotated[float | None, _setting("γ: weight of the coupling.")] = None,
    min_clients: Annotated[int | None, _setting("Least number of responses.")] = None,
    random_state: Annotated[int | None, _setting("Seed of the training.")] = None,
    epsilon: Annotated[float | None, option("ε of all rounds of every client together.")] = None,
    delta: Annotated[float | None, option("δ. Default: 1e-5.")] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Describe the tables, and stop.")] = False,
    resume: Annotated[bool, flag("--resume", "Resume after the last complete round.")] = False,
    force: Annotated[bool, flag("--force", "Replace an earlier training.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Train a federation in this process, with the same messages and results as between machines.

    A checkpoint is written after every round. Ctrl-C stops after the current round, and --resume \
continues from there with the same settings.
    """
    given = dict(locals())
    from hotview.cli.federated_jobs import SimulationJob, run_simulation
    from hotview.federated import Privacy
    from hotview.federated.settings import Settings

    if resume and force:
        raise UsageError("--resume continues a training and --force replaces it: give one of them.")
    if delta is not None and epsilon is None:
        raise UsageError("--delta needs --epsilon.")
    privacy = None
    if epsilon is not None:
        with as_usage():
            privacy = Privacy(epsilon) if delta is None else Privacy(epsilon, delta)
    settings = {name: given[name] for name in Settings().to_json() if name in given}
    job = SimulationJob(app, settings, privacy, dry_run, resume, force, json)
    raise typer.Exit(run_simulation(job))


@federated.command(
    epilog="Example:\n\n[bold]hotview federated join study/organizations/*/part.hotview "
    "-o joint.hotview[/bold]"
)
def join(
    parts: Annotated[
        list[Path],
        typer.Argument(
            metavar="PART...",
            help="Partial models of one training (part.hotview), at least two.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, option("File of the joint model (.hotview).", "--out", "-o")],
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Join partial models to one model, which predicts from any of their views."""
    from hotview.federated import join_partial_models
    from hotview.model import check_model_path, load_model

    check_model_path(out)
    check_new_file(out, force=force)
    join_partial_models(parts, out)
    model = load_model(out, device="cpu")
    files = " ".join([shlex.quote(str(out)), *(f"{name}=FILE" for name in model.view_names_)])
    is_classifier = hasattr(model, "classes_")
    command = (
        f"predict {files} -o predictions.csv" if is_classifier else f"transform {files} -o features"
    )
    print_result(
        {"out": str(out), "views": model.view_names_},
        f"Model of {', '.join(model.view_names_)} saved to {out}",
        f"Next: hotview {command}",
        as_json=json,
    )
