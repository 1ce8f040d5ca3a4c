"""Searches on many machines, here two processes of this one, through joblib and dask.

Run ``python examples/many_machines.py``, or ``--scheduler tcp://host:8786`` for an existing
cluster. It needs dask: ``pip install distributed``. On processors of the same type, the scores are
those of a search in one process, to the last bit.
"""

import argparse
from contextlib import ExitStack

import joblib

from hotview import MultiViewClassifier, __version__
from hotview.datasets import load_handwritten, unalign
from hotview.model_selection import GridSearch

try:
    from dask.distributed import Client, LocalCluster
except ImportError as error:
    raise SystemExit("This example needs dask: pip install distributed") from error


def find_version() -> str:
    """Return the version of hotview on a worker; raises early if it has none."""
    import hotview

    return hotview.__version__


def search(data, model, folds, place):
    """Fit all combinations, print the scores and return them."""
    grid = {"coupling": ["none", "hot-reference"]}
    found = GridSearch(model, grid, cv=folds, scoring="neg_log_loss", random_state=0, refit=False)
    found.fit(data.linked, data.target, unaligned=data.unaligned)
    scores = found.cv_results_["mean_test_score"].tolist()
    print(f"{place}: {dict(zip(grid['coupling'], scores, strict=True))}")
    return scores


def main() -> None:
    """Search in this process, then on the cluster, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scheduler", help="address of a cluster; default: two processes here")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--max-epochs", type=int, default=20)
    parser.add_argument("--views", nargs="+", default=["pix", "fou", "mor"])
    options = parser.parse_args()
    digits = load_handwritten()
    views = {name: digits.views[name] for name in options.views}
    data = unalign(views, digits.target, random_state=0)
    # Where a machine has no GPU and another has one, scores would differ: so all use the CPU.
    model = MultiViewClassifier(max_epochs=options.max_epochs, random_state=0, device="cpu")
    here = search(data, model, options.folds, "in this process")
    with ExitStack() as stack:
        own = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1"}
        cluster = options.scheduler or stack.enter_context(
            LocalCluster(**own, dashboard_address=None)
        )
        client = stack.enter_context(Client(cluster))
        versions = set(client.run(find_version).values())
        if versions != {__version__}:
            raise SystemExit(f"Expected hotview {__version__} on all workers, but found {versions}")
        with joblib.parallel_config("dask"):
            there = search(data, model, options.folds, "on the cluster")
    print("the same to the last bit" if here == there else "not the same")


if __name__ == "__main__":  # workers import this file, and are not to search themselves
    main()
