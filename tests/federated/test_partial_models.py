import json

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from small_federation import CLASSES, HOLDER, NAMES, client_data, organizations, settings, train

import hotview as hv
from hotview._archive import read_archive, write_archive
from hotview.federated import ClientData, Message, join_partial_models
from hotview.federated.partial_models import read_federation, save_partial_model
from hotview.model import save_model
from hotview.model.files import _MODEL


class Trained:
    """A federation at its end, its parts in a folder that stays."""

    def __init__(self, folder, own=None, **more):
        self.clients = organizations(folder, own)
        self.result, self.channel = train(self.clients, settings(**more))
        self.parts = {name: client.model_path for name, client in self.clients.items()}
        self.Xs = {
            name: np.asarray(client.data.table.data)[:12] for name, client in self.clients.items()
        }

    def join(self, out, names=NAMES):
        return join_partial_models([self.parts[name] for name in names], out)

    def features(self, name):
        """Features of one view, by its modules."""
        X = np.asarray(self.clients[name].data.table.data, dtype=np.float64)
        Z = torch.from_numpy((self.Xs[name] - X.mean(0)) / X.std(0)).float()
        with torch.no_grad():
            return self.clients[name].trainer.network.encoders[0](Z)

    def said(self, name):
        """Logarithms of probabilities by the head of one view, from its modules."""
        with torch.no_grad():
            scores = self.clients[name].trainer.network.view_heads[0](self.features(name))
        return log_softmax(scores.double().numpy(), axis=1)

    def pooled(self, names):
        """What views say together, by the weights that the label holder found."""
        pool = self.channel.to(HOLDER)[-1][0].metadata["pool"]
        of_all = len(names) == len(NAMES)
        scale = 1 if of_all else len(names) ** -pool["power"]
        total = 0.0
        for name in names:
            s = pool["names"].index(name)
            weight = pool["complete" if of_all else "partial"][s] * scale
            total = total + weight * pool["single"][s] * self.said(name)
        return softmax(total, axis=1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return Trained(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def sharing(tmp_path_factory):
    return Trained(tmp_path_factory.mktemp("sharing"), share_features=True)


@pytest.fixture(scope="module")
def unlabeled(tmp_path_factory):
    return Trained(tmp_path_factory.mktemp("unlabeled"), label_holder=None)


@pytest.mark.filterwarnings("ignore:Rows of different views may not:UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_each_part_encodes_and_judges_by_its_view_alone(trained, unlabeled, name):
    for given in (trained, unlabeled):
        part, X = hv.load(given.parts[name]), {name: given.Xs[name]}
        F = given.features(name)
        with torch.no_grad():
            latents = given.clients[name].trainer.network.maps[0](F)
        np.testing.assert_allclose(part.transform(X)[name], F, atol=1e-5)
        np.testing.assert_allclose(part.transform(X, space="common")[name], latents, atol=1e-5)
    part, truth = hv.load(trained.parts[name]), np.exp(trained.said(name))
    assert isinstance(part, hv.MultiViewClassifier)
    assert part.view_names_ == [name]
    assert part.classes_.tolist() == CLASSES
    X = {name: trained.Xs[name]}
    np.testing.assert_allclose(part.predict_proba(X), truth, atol=1e-5)
    assert part.predict(X).tolist() == [CLASSES[k] for k in truth.argmax(1)]


def test_without_labels_parts_are_encoders(unlabeled, tmp_path):
    assert isinstance(hv.load(unlabeled.parts["imaging"]), hv.MultiViewEncoder)
    whole = hv.load(unlabeled.join(tmp_path / "whole.hotview"))
    assert isinstance(whole, hv.MultiViewEncoder)
    found = whole.transform(unlabeled.Xs)
    for name in NAMES:
        alone = hv.load(unlabeled.parts[name]).transform({name: unlabeled.Xs[name]})
        np.testing.assert_array_equal(found[name], alone[name])


@pytest.mark.parametrize("names", ((NAMES[1], NAMES[2], NAMES[0]), ("imaging", "clinical")))
def test_joined_in_any_order_they_predict_as_pooled_by_hand(trained, tmp_path, names):
    out, before = tmp_path / "whole.hotview", [path.read_bytes() for path in trained.parts.values()]
    assert trained.join(out, names) == out
    assert [path.read_bytes() for path in trained.parts.values()] == before
    whole, present = hv.load(out), [name for name in NAMES if name in names]
    assert whole.view_names_ == present
    found = whole.predict_proba({name: trained.Xs[name] for name in present})
    np.testing.assert_allclose(found, trained.pooled(present), atol=1e-5)
    assert whole.metadata_["federated"]["joined"] == present == read_federation(whole).joined
    assert whole.metadata_["federated"]["settings"] == settings().to_json()
    if len(names) == 3:
        found = whole.predict_proba({**trained.Xs, "genetic": None})  # any view may be absent
        np.testing.assert_allclose(found, trained.pooled(["clinical", "imaging"]), atol=1e-5)
        np.testing.assert_allclose(whole.plan_.W, trained.result.W, atol=1e-5)
        np.testing.assert_allclose(whole.plan_.C, trained.result.C, rtol=1e-6)
        assert whole.view_similarity_ is whole.view_labels_ is None
    else:
        assert whole.plan_ is None


def test_shared_features_give_a_joint_head(sharing, tmp_path):
    finish = sharing.channel.to(HOLDER)[-1][0]
    pool, head = finish.metadata["pool"], finish.arrays
    F = np.concatenate([sharing.features(name) for name in NAMES], axis=1)
    joint = log_softmax(F @ head["weight"].T + head["bias"], axis=1)
    said = [w * sharing.said(name) for w, name in zip(pool["single"], NAMES, strict=True)]
    said.append(joint)
    truth = softmax(sum(w * x for w, x in zip(pool["complete"], said, strict=True)), axis=1)
    for name in NAMES:
        note = hv.load(sharing.parts[name]).metadata_["federated"]
        assert (note["joint_head"] is not None) == (name == HOLDER)
    # Whichever part comes first, only the label holder's has the head.
    before = torch.get_rng_state()
    for order in (NAMES, NAMES[::-1]):
        whole = hv.load(sharing.join(tmp_path / f"{order[0]}.hotview", order))
        np.testing.assert_allclose(whole.predict_proba(sharing.Xs), truth, atol=1e-4)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.abs(truth - sharing.pooled(NAMES)).max() > 1e-3
    two, some = hv.load(sharing.join(tmp_path / "two.hotview", NAMES[:2])), dict(sharing.Xs)
    del some[NAMES[2]]
    np.testing.assert_allclose(two.predict_proba(some), sharing.pooled(NAMES[:2]), atol=1e-5)


def test_of_somebody_who_was_absent_in_the_end_nothing_is_presumed(sharing, tmp_path):
    """The head is then of fewer views than there are parts, and so are the weights."""
    finish = sharing.channel.to(HOLDER)[-1][0]
    assert finish.metadata["head"] == list(NAMES)
    present = ["clinical", "genetic"]
    facts = {
        **finish.metadata,
        "head": present,
        "pool": {"names": present, "power": 1.0, "complete": [1.0] * 3}
        | dict.fromkeys(("single", "partial"), [1.0] * 2),
    }
    head = {"weight": finish.arrays["weight"][:, :8], "bias": finish.arrays["bias"]}
    paths = []
    for name, client in sharing.clients.items():
        told = Message("finish", facts, head if name == HOLDER else {})
        paths.append(tmp_path / f"{name}.hotview")
        save_partial_model(paths[-1], client.trainer, client.state, told)
    whole = hv.load(join_partial_models(paths, tmp_path / "whole.hotview"))
    mean = sum(sharing.said(name) for name in NAMES) / 3
    np.testing.assert_allclose(whole.predict_proba(sharing.Xs), softmax(mean, axis=1), atol=1e-5)


@pytest.mark.parametrize("names", ((), ("clinical",), ("clinical", "clinical")))
def test_fewer_than_two_organizations_are_refused(trained, tmp_path, names):
    with pytest.raises(ValueError, match="at least two different organizations"):
        trained.join(tmp_path / "a.hotview", names)


def resealed(path, out, **changes):
    """A copy of a part, changed here and there, with a checksum that fits."""
    archive = read_archive(path, _MODEL)
    metadata = json.loads(json.dumps(archive.metadata))
    for where, value in changes.items():
        *parents, key = where.split("__")
        at = metadata
        for parent in parents:
            at = at[parent]
        at[key] = value
    write_archive(out, _MODEL, archive.tensors, metadata)
    return out


NOTE = "model__metadata__federated"


@pytest.mark.parametrize(
    "changes",
    (
        {f"{NOTE}__plan__names": ["clinical", "stranger", "imaging"]},
        {f"{NOTE}__plan__W": [[0.0, 0.0]] * 3},
        {f"{NOTE}__plan__C": [[1e300, 1.0]] * 3},
        {f"{NOTE}__pool__partial": [1.0, -0.1, 1.0]},
        {f"{NOTE}__pool__complete": [1.0, 1.0, 1.0, 1e7]},
        {f"{NOTE}__joint_head": {"names": ["lab"], "weight": [[0.5] * 4] * 3, "bias": [1.0] * 3}},
        {f"{NOTE}__names": ["genetic", "imaging"]},
        {f"{NOTE}__names": ["clinical", "a\x1b[2J"]},
        {f"{NOTE}__session": ["a"]},
        {f"{NOTE}__settings": {"rounds": 10**9}},
        {f"{NOTE}__more": 1},
        {NOTE: 3},
        {"model__metadata__preprocessing": {"views": 3}},
        {"model__trained_on": {"linked": []}},  # a part describes no rows
    ),
)
def test_a_part_with_anything_else_in_it_is_refused_by_name(trained, tmp_path, changes):
    part = resealed(trained.parts["clinical"], tmp_path / "odd.hotview", **changes)
    expected = r"odd\.hotview to be (the part of one organization|a model that hotview saved), but "
    with pytest.raises(ValueError, match=expected):
        join_partial_models([part, trained.parts["genetic"]], tmp_path / "a.hotview")
    assert not (tmp_path / "a.hotview").exists()
    if any(key.startswith((NOTE, "model__trained_on")) for key in changes):
        with pytest.raises(ValueError, match=r"^(it|Expected|unexpected)"):
            read_federation(hv.load(part))


def test_parts_of_different_trainings_are_refused(trained, sharing, tmp_path):
    odd, part = tmp_path / "odd.hotview", trained.parts["clinical"]
    for path, changes in (
        (sharing.parts["clinical"], {}),
        (part, {f"{NOTE}__names": [*NAMES, "lab"]}),
        (part, {f"{NOTE}__settings": settings(rounds=7).to_json()}),
        (part, {"classes": {"dtype": "<U7", "labels": ["a", "b", "c"]}}),
    ):
        one = resealed(path, odd, **changes)
        with pytest.raises(ValueError, match=r"parts of one training, but .* is of another"):
            join_partial_models([one, trained.parts["genetic"]], tmp_path / "a.hotview")
    assert not (tmp_path / "a.hotview").exists()


def test_what_is_no_part_is_refused(trained, tmp_path):
    whole = trained.join(tmp_path / "whole.hotview")
    Xs = {name: np.asarray(own.table.data) for name, own in client_data().items()}
    central = hv.MultiViewEncoder(max_epochs=1, random_state=0).fit(Xs)
    assert read_federation(central) is None
    other, text = save_model(central, tmp_path / "central.hotview"), tmp_path / "text.hotview"
    text.write_text("hello")
    for path, error, problem in (
        (whole, ValueError, r"the part of one organization, but .*part\.hotview"),
        (other, ValueError, r"the part of one organization, but .*part\.hotview"),
        (text, ValueError, r"text\.hotview"),
        (tmp_path / "none.hotview", FileNotFoundError, r"none\.hotview"),
    ):
        with pytest.raises(error, match=problem):
            join_partial_models([trained.parts["genetic"], path], tmp_path / "a.hotview")


def test_every_organization_may_treat_missing_cells_in_its_own_way(tmp_path):
    own, methods = client_data(), {"genetic": "mean", "imaging": "median+indicator"}
    for s, (name, method) in enumerate(methods.items(), start=1):
        X = np.array(own[name].table.data)
        X[3, 1] = np.nan
        own[name] = ClientData.from_table(
            name,
            X,
            ids=[f"patient-{i}" for i in np.random.default_rng(s).permutation(40)],
            linked_ids=[f"patient-{i}" for i in range(20)],
            labels=own[name].labels if name == HOLDER else None,
            impute=method,
        )
    given = Trained(tmp_path, own, rounds=1)
    model = hv.load(given.join(tmp_path / "a.hotview"))
    assert model.impute == {"clinical": None, **methods}
    assert model.model_.views[2].scaler.indicators.tolist() == [1]
    for name in methods:
        part, X = hv.load(given.parts[name]), {name: np.asarray(own[name].table.data)}
        assert part.impute == methods[name]
        np.testing.assert_array_equal(model.transform(X)[name], part.transform(X)[name])
    with pytest.raises(ValueError, match=r"'clinical'.*NaN in 1 entry"):
        model.transform({"clinical": np.where(np.eye(1, 5) > 0, np.nan, 1.0)})
