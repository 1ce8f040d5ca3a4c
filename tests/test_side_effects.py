import json
import subprocess
import sys

# What a process has set, by name; hotview and its own imports are loaded before the first look.
SCRIPT = """
import json, locale, logging, os, random, signal, sys, threading, warnings
from pathlib import Path
import matplotlib, numpy as np, sklearn, torch
import hotview as hv
from hotview.datasets import make_views

hv.MultiViewClassifier, hv.load
if torch.__version__ < "2.5":
    import sympy  # adds a filter of warnings; this torch imports it for layers without memory
if torch.cuda.is_available():
    torch.cuda.init()  # tells the driver how to load modules, in the environment
os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)  # of the process that has started this one
views = make_views(60, n_views=3, random_state=0).views
torch.set_num_threads(2)
cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn


def umask():
    mask = os.umask(0o77)
    os.umask(mask)
    return mask


def state():
    return {name: repr(value) for name, value in {
        "environment": sorted(os.environ.items()),
        "warnings": [*warnings.filters, warnings.showwarning],
        "random": hash(random.getstate()),
        "numpy.random": hash(str(np.random.get_state(legacy=False)["state"]["key"].tolist())),
        "torch.random": hash(tuple(torch.get_rng_state().tolist())),
        "torch dtype, device": [torch.get_default_dtype(), torch.get_default_device()],
        "torch threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "torch gradients": [torch.is_grad_enabled(), torch.is_inference_mode_enabled()],
        "torch deterministic": [
            torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark
        ],
        "torch precision": [torch.get_float32_matmul_precision(), cuda.allow_tf32],
        "numpy": [np.geterr(), np.get_printoptions()],
        "sklearn": sklearn.get_config(),
        "matplotlib": sorted(dict.items(matplotlib.rcParams), key=str),
        "signals": [signal.getsignal(s) for s in sorted(signal.valid_signals())],
        "logging": [[logging.root.level, *logging.root.handlers],
                    [logging.getLogger("hotview").level, *logging.getLogger("hotview").handlers]],
        "locale": locale.setlocale(locale.LC_ALL),
        "folder, umask": [os.getcwd(), umask()],
        "sys": [sys.path, sys.excepthook, sys.displayhook, sys.stdout, sys.stderr, sys.argv],
        "threads": threading.enumerate(),
        "files": sorted(path.name for path in Path.cwd().iterdir()),
    }.items()}


def changed(before):
    return [name for name, value in state().items() if before[name] != value]


def work():
    model = hv.MultiViewClassifier(random_state=0, n_estimators=2, max_epochs=1)
    model.fit(views, np.arange(60) % 3)
    model.predict_proba(views)
    model.transform(views)
    model.score(views, np.arange(60) % 3)
    model.save("model.hotview")
    hv.load("model.hotview").predict(views)
    Path("model.hotview").unlink()


before = state()
work()
found = {"work": changed(before)}
os.environ["TORCHINDUCTOR_CACHE_DIR"] = "a"
found["control"] = changed(before)
print(json.dumps(found))
"""


def test_a_fit_and_what_follows_leave_nothing_behind_in_the_process(tmp_path):
    command = [sys.executable, "-c", SCRIPT]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == {"work": [], "control": ["environment"]}
