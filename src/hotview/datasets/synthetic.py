"""Synthetic unaligned views with known groups of views, latent factors and individuals."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sklearn.utils import Bunch

from hotview._types import Array, IntArray, RandomState
from hotview._validation import check_count, check_share

#: Length of the last latent axis relative to the first, in the first and in the last group.
_LAST_AXIS = (0.25, 0.75)

#: Exponents of the within-class noise, taken in turn by the groups: two-sided, Gaussian, heavy.
_TAILS = (0.4, 1.0, 1.6)

#: Each residual layer z + 0.9 sin(zR + φ) moves points by a map of slope below 1, so it can be
#: undone; two of them bend the cloud clearly.
_LAYERS, _BEND = 2, 0.9

_DESCR = """\
Synthetic unaligned views with known truth: {} views in {} groups that share
latent factors, and {} junk views of pure noise; {} classes; {} linked
individuals, who are in every view, aligned and labeled. Equal entries of individuals are the
same individual.
"""


def make_views(
    n_samples: int | Sequence[int] = 600,
    *,
    n_views: int = 6,
    n_groups: int = 2,
    n_classes: int = 4,
    n_latent: int = 4,
    n_columns: int | Sequence[int] = 20,
    class_weights: npt.ArrayLike | None = None,
    class_sep: float = 3.0,
    noise: float = 0.1,
    nonlinear: bool = False,
    n_junk: int = 0,
    labeled: float = 0.0,
    random_state: RandomState = None,
) -> Bunch:
    """Generate unaligned views of one population, with their true groups, classes and latents.

    View s of group g shows individual i of class k as the row::

        x = √(1 − noise) · A_s z + √(noise · n_latent / D_s) · ε,      ε standard normal
        z = a_g ∘ (μ_gk + σ_gk · e),                                    e_j ∝ ±|n_j|^p_g, n normal

    The latent z of an individual is the same in all views of a group; A_s (D_s × n_latent) has
    random orthonormal columns, so that without noise each view is a rotated copy of the latent
    cloud. Groups differ as distributions, not only in their coordinates: each has its own random
    class centers μ_gk (the closest two are ``class_sep`` apart), within-class spreads σ_gk from
    0.5 to 1, axes a_g (falling geometrically from 1 to 0.25 in the first group, 0.75 in the last)
    and tail p_g (0.4 two-sided, 1 Gaussian, 1.6 heavy, in turn). The latent rows of a group are
    then centered and scaled to unit mean variance over the population, so that groups do not
    differ in scale. Given the class, the factors of different groups are independent.

    Parameters
    ----------
    n_samples : int or sequence of int, default=600
        Rows of every view, or of each view (junk views last).
    n_views : int, default=6
        Number of views, junk views not counted.
    n_groups : int, default=2
        Number of groups of views, of equal sizes and in order.
    n_classes : int, default=4
        Number of classes.
    n_latent : int, default=4
        Number of latent factors of each group.
    n_columns : int or sequence of int, default=20
        Columns of every view, or of each view (junk views last); at least `n_latent`.
    class_weights : None, sequence or matrix of float, default=None
        Shares of the classes: equal, the same in every view, or one row per view (junk views
        last). Counts are not random: they follow the largest remainders. Linked rows use the mean.
    class_sep : float, default=3.0
        Distance of the two closest class centers, in units where the spread within a class is
        from 0.5 to 1 (before the axes decay).
    noise : float, default=0.1
        Share of each view's variance, over the population, that is noise.
    nonlinear : bool, default=False
        Whether each view bends the latent rows by its own smooth, invertible map (two layers
        z + 0.9 sin(zR + φ) with a random rotation R) before A_s.
    n_junk : int, default=0
        Number of additional views that share nothing: independent noise, no latent factors and
        no class information, x = √(n_latent / D_s) · ε.
    labeled : float, default=0.0
        Number of additional individuals who are in every view, aligned and labeled, as a share
        of the rows of the smallest view.
    random_state : int, numpy Generator or None, default=None
        Seed of the random number generator.

    Returns
    -------
    Bunch
        With the fields, dicts keyed by ``view_0``, ``view_1``, …

        views : dict of ndarray of float32
            The unaligned rows, shuffled in every view. With equal sizes and class weights every
            view shows the same population; otherwise a random part of it.
        target : dict of ndarray of int64
            The true class of every row.
        linked, linked_target : dict of ndarray of float32, and ndarray of int64
            The aligned rows (none unless `labeled` is above 0) and their classes.
        view_groups : ndarray of int64, shape (n_views + n_junk,)
            The group of every view, −1 for junk.
        latent, linked_latent : dicts of ndarray of float32
            The latent rows behind the rows of every view, unaligned and aligned; a junk view has
            0 latent columns.
        individuals, linked_individuals : dict of ndarray of int64, and ndarray of int64
            The individual of every row: equal numbers are the same individual.
        view_names : list of str
            The names of the views.
        DESCR : str
            Description of the data.

    Examples
    --------
    >>> from hotview.datasets import make_views
    >>> data = make_views([300, 200, 250], n_views=2, n_junk=1, labeled=0.1, random_state=0)
    >>> {name: X.shape for name, X in data.views.items()}
    {'view_0': (300, 20), 'view_1': (200, 20), 'view_2': (250, 20)}
    >>> data.view_groups
    array([ 0,  1, -1])
    >>> data.linked_target.shape
    (20,)
    """
    check_count("n_groups", n_groups)
    check_count("n_views", n_views, at_least=n_groups)
    n_total = n_views + check_count("n_junk", n_junk, at_least=0)
    check_count("n_classes", n_classes)
    check_count("n_latent", n_latent)
    noise = check_share("noise", noise)
    columns = _per_view("n_columns", n_columns, n_total, at_least=n_latent)
    sizes = _per_view("n_samples", n_samples, n_total)
    shares = _class_shares(class_weights, n_classes, n_total)
    members = np.array([_apportion(n, w) for n, w in zip(sizes, shares, strict=True)])
    n_linked = _count_linked(labeled, min(sizes))

    rng = np.random.default_rng(random_state)
    classes = _draw_classes(members.max(axis=0), rng)
    linked_classes = _draw_classes(_apportion(n_linked, shares.mean(axis=0)), rng)
    all_classes = np.concatenate([classes, linked_classes])
    latents = _draw_latents(all_classes, n_groups, n_classes, n_latent, class_sep, rng)
    linked = np.arange(len(classes), len(all_classes), dtype=np.int64)

    groups = np.full(n_total, -1, dtype=np.int64)
    groups[:n_views] = np.arange(n_views) * n_groups // n_views
    data = Bunch(views={}, target={}, linked={}, latent={}, linked_latent={}, individuals={})
    for s, (group, D) in enumerate(zip(groups, columns, strict=True)):
        X = _observe(latents[group], D, n_latent, noise, nonlinear, rng)
        rows = _draw_members(classes, members[s], rng)
        name, z = f"view_{s}", latents[group]
        data.views[name] = X[rows].astype(np.float32)
        data.linked[name] = X[linked].astype(np.float32)
        data.latent[name] = z[rows].astype(np.float32)
        data.linked_latent[name] = z[linked].astype(np.float32)
        data.target[name] = all_classes[rows]
        data.individuals[name] = rows
    data.update(linked_target=linked_classes, linked_individuals=linked)
    data.update(view_groups=groups, view_names=list(data.views))
    data.DESCR = _DESCR.format(n_views, n_groups, n_junk, n_classes, n_linked)
    return data


def _draw_classes(members: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw the classes of individuals in random order, `members[k]` of them of class k."""
    return rng.permutation(np.repeat(np.arange(len(members), dtype=np.int64), members))


def _draw_members(classes: IntArray, members: IntArray, rng: np.random.Generator) -> IntArray:
    """Pick `members[k]` individuals of each class k, in random order."""
    of_class = [np.flatnonzero(classes == k) for k in range(len(members))]
    picked = [rng.choice(ids, m, replace=False) for ids, m in zip(of_class, members, strict=True)]
    return rng.permutation(np.concatenate(picked))


def _draw_latents(
    classes: IntArray,
    n_groups: int,
    n_classes: int,
    n_latent: int,
    class_sep: float,
    rng: np.random.Generator,
) -> list[Array]:
    """Draw every individual's latent rows z = a ∘ (μ + σ e), one array per group of views."""
    latents = []
    for group, last_axis in enumerate(np.linspace(*_LAST_AXIS, n_groups)):
        mu = _draw_centers(n_classes, n_latent, class_sep, rng)
        sigma = rng.uniform(0.5, 1.0, size=(n_classes, 1))
        e = _draw_noise(_TAILS[group % len(_TAILS)], (len(classes), n_latent), rng)
        a = np.geomspace(1.0, last_axis, n_latent)
        latents.append(_normalize(a * (mu[classes] + sigma[classes] * e)))
    # Index −1, the group of junk views, has no latent factors.
    return [*latents, np.empty((len(classes), 0))]


def _draw_centers(
    n_classes: int, n_latent: int, class_sep: float, rng: np.random.Generator
) -> Array:
    """Draw class centers whose closest pair is `class_sep` apart."""
    if not 0 <= class_sep < math.inf:
        raise ValueError(
            f"Expected class_sep to be a distance, finite and at least 0, but it is {class_sep!r}. "
            "Classes overlap at 1 and hardly do at 5."
        )
    # Keep the most even of 32 draws: with a single draw two classes can nearly coincide, and
    # scaling them apart would move all others far away.
    draws = rng.standard_normal((32, n_classes, n_latent))
    first, second = np.triu_indices(n_classes, k=1)
    if len(first) == 0:
        return np.zeros((n_classes, n_latent))
    closest = np.linalg.norm(draws[:, first] - draws[:, second], axis=2).min(axis=1)
    best = np.argmax(closest / draws.std(axis=(1, 2)))
    centers: Array = draws[best] * (class_sep / closest[best])
    return centers


def _draw_noise(tail: float, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Draw e = sign(n) |n|^tail of unit variance, n standard normal."""
    n = rng.standard_normal(shape)
    variance = 2**tail * math.gamma(tail + 0.5) / math.sqrt(math.pi)  # E |n|^(2 tail)
    e: Array = np.sign(n) * np.abs(n) ** tail / math.sqrt(variance)
    return e


def _observe(
    z: Array,
    n_columns: int,
    n_latent: int,
    noise: float,
    nonlinear: bool,
    rng: np.random.Generator,
) -> Array:
    """Return the rows of one view: x = √(1 − noise) A z + √(noise n_latent / D) ε."""
    epsilon = rng.standard_normal((len(z), n_columns)) * math.sqrt(n_latent / n_columns)
    if z.shape[1] == 0:  # a junk view
        return epsilon
    if nonlinear:
        for _ in range(_LAYERS):
            R = _draw_orthonormal(n_latent, n_latent, rng)
            z = z + _BEND * np.sin(z @ R + rng.uniform(0, 2 * np.pi, size=n_latent))
        z = _normalize(z)
    A = _draw_orthonormal(n_columns, n_latent, rng)
    return math.sqrt(1 - noise) * z @ A.T + math.sqrt(noise) * epsilon


def _draw_orthonormal(n_rows: int, n_columns: int, rng: np.random.Generator) -> Array:
    """Draw a matrix with orthonormal columns, uniformly."""
    Q, R = np.linalg.qr(rng.standard_normal((n_rows, n_columns)))
    # LAPACK fixes the signs by its own rule; the diagonal of R makes the draw uniform.
    return Q * np.sign(np.diag(R))


def _normalize(z: Array) -> Array:
    """Center the rows and scale them to a mean column variance of 1."""
    centered = z - z.mean(axis=0)
    spread = math.sqrt(np.mean(centered**2))
    return np.asarray(centered / spread) if spread > 0 else centered


def _apportion(n: int, shares: Array) -> IntArray:
    """Divide n among classes in proportion to `shares`, by largest remainder."""
    exact = n * shares
    counts: IntArray = np.floor(exact).astype(np.int64)
    # Rounding makes equal remainders tie, so that the lowest class wins, not the last bit.
    order = np.argsort(-np.round(exact - counts, 9), kind="stable")
    counts[order[: n - counts.sum()]] += 1
    return counts


def _class_shares(class_weights: npt.ArrayLike | None, n_classes: int, n_total: int) -> Array:
    """Turn class weights into one row of shares per view."""
    weights = np.asarray(np.ones(n_classes) if class_weights is None else class_weights, float)
    if weights.shape not in ((n_classes,), (n_total, n_classes)):
        raise ValueError(
            f"Expected class_weights of shape ({n_classes},), or ({n_total}, {n_classes}) with one "
            f"row per view, but the shape is {weights.shape}. Give one weight per class."
        )
    if not np.all((weights >= 0) & np.isfinite(weights)) or np.any(weights.sum(axis=-1) == 0):
        raise ValueError(
            "Expected class_weights of at least 0, finite and not all 0, but they are "
            f"{weights.tolist()}. Write 0 only for a class that a view does not have."
        )
    return np.broadcast_to(weights / weights.sum(axis=-1, keepdims=True), (n_total, n_classes))


def _count_linked(labeled: float, smallest: int) -> int:
    n_linked = round(check_share("labeled", labeled) * smallest)
    if labeled > 0 and n_linked == 0:
        raise ValueError(
            f"Expected labeled to give at least one linked row, but {labeled} of the smallest "
            f"view's {smallest} rows is none. Use labeled=0.0 or a larger share."
        )
    return n_linked


def _per_view(
    name: str, value: int | Sequence[int], n_total: int, *, at_least: int = 1
) -> list[int]:
    """Repeat one number for every view, or check that there is one for each."""
    values = list(value) if isinstance(value, Sequence | np.ndarray) else [value] * n_total
    if len(values) != n_total:
        raise ValueError(
            f"Expected {name} to be one number, or one for each of the {n_total} views (junk views "
            f"last), but it holds {len(values)}. Give {n_total} numbers."
        )
    return [check_count(name, item, at_least=at_least) for item in values]
