"""Serve a saved classifier over HTTP with FastAPI.

Run ``python examples/serve_model.py model.hotview``, or ``--demo`` to fit a small model first. Then
ask for its views and classes, and for predictions::

    curl 127.0.0.1:8000/model
    curl 127.0.0.1:8000/predict --json '{"views": {"view_0": [[0.1, 2, -3, 0.4]], "view_1": null}}'

Columns are in the order of ``fit``. A view that is null or left out is absent, as is a row of a
view whose values are all null; other nulls are missing values. Bad input is answered by status 422
with the message of the error.

``/predict`` is a plain function: FastAPI runs it in a thread and accepts other requests meanwhile.
One row takes milliseconds, most of them in Python, which runs one thread at a time: predictions of
one row in several threads at once are correct, but took twice the processor time on two cores. A
lock therefore lets one run at a time, on one thread of torch. For more cores, start more servers.

Needs ``pip install fastapi uvicorn``. There is no encryption, no authentication and no limit on the
bytes of a request: a server that others can reach needs a proxy that has these.
"""

import argparse
import math
import threading
from typing import Annotated

import torch

import hotview
from hotview import MultiViewClassifier
from hotview.datasets import make_views

try:
    import uvicorn
    from fastapi import FastAPI, HTTPException, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from pydantic import BaseModel, ConfigDict, Field
except ImportError as error:
    raise SystemExit("This example needs FastAPI: pip install fastapi uvicorn") from error

Rows = Annotated[list[list[float | None]], Field(max_length=1000)]  # of one request


class Query(BaseModel):
    """Rows to predict, by view; row i is the same individual in all views."""

    model_config = ConfigDict(strict=True, extra="forbid")  # strict: text is no number
    views: dict[str, Rows | None]


def make_app(model: MultiViewClassifier) -> FastAPI:
    """Return the application that answers with a fitted classifier."""
    app = FastAPI(title="hotview", version=hotview.__version__)
    lock = threading.Lock()

    @app.exception_handler(RequestValidationError)
    async def refuse(request: Request, error: RequestValidationError) -> JSONResponse:
        """Return the first error; FastAPI's own handler repeats the input of all errors."""
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        return JSONResponse({"detail": f"{place}: {first['msg']}"}, status_code=422)

    @app.get("/model")
    async def describe() -> dict:
        """Return the number of columns of every view, and the classes."""
        return {"views": model.n_features_per_view_, "classes": model.classes_.tolist()}

    @app.post("/predict")
    def predict(query: Query) -> dict:
        """Predict rows; each has a list of probabilities, in the order of the classes."""
        views = {
            name: rows and [[math.nan if x is None else x for x in row] for row in rows]
            for name, rows in query.views.items()
        }
        torch.set_num_threads(1)  # a setting of this thread
        try:
            with lock:
                proba = model.predict_proba(views)
                disagreement = model.predict_disagreement(views)
        except (TypeError, ValueError) as error:
            raise HTTPException(422, str(error)) from error
        return {
            "classes": model.classes_.tolist(),
            "predicted": model.classes_[proba.argmax(1)].tolist(),
            "probabilities": proba.tolist(),
            "disagreement": disagreement.tolist(),
        }

    return app


def fit_demo() -> MultiViewClassifier:
    """Return a classifier of synthetic rows of two views with four columns each."""
    data = make_views(100, n_views=2, n_groups=1, n_columns=4, labeled=0.4, random_state=0)
    model = MultiViewClassifier(max_epochs=10, random_state=0, device="cpu")
    return model.fit(data.linked, data.linked_target, unaligned=data.views)


def main() -> None:
    """Load or fit a model once, and serve it."""
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("model", nargs="?", help="a .hotview file of a classifier")
    source.add_argument("--demo", action="store_true", help="fit a small model instead")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    try:
        model = fit_demo() if options.demo else hotview.load(options.model, device="cpu")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if not isinstance(model, MultiViewClassifier):
        parser.error(f"{options.model} holds a {type(model).__name__}, which predicts no classes.")
    uvicorn.run(make_app(model), host=options.host, port=options.port, ws="none")


if __name__ == "__main__":
    main()
