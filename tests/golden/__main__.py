"""``python -m tests.golden``: compare small fits with the record of what they computed.

    python -m tests.golden [--jobs 2] [PART OF A NAME ...]
    python -m tests.golden --update "why the numbers moved"

On the machine and with the versions of the record, every stage must have the same bits; elsewhere,
probabilities must agree within 1e-3. With names, only the cases are compared that contain one.
"""

import argparse
import multiprocessing
import os
import sys
import time

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"  # bits depend on the number of threads

from tests.golden.cases import CASES, run_case
from tests.golden.record import RECORD, compare, environment, read, write


def main():
    """Run the cases, and compare or write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="compare only cases that contain one of these")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--update", metavar="REASON", help="write the record, with this reason")
    parser.add_argument("--seconds", action="store_true", help="print the seconds of every case")
    given = parser.parse_args()
    if given.update is not None and (given.names or not given.update.strip()):
        sys.exit(
            "Expected a reason and no names beside --update: the record is written as a whole."
        )
    chosen = [n for n in CASES if not given.names or any(part in n for part in given.names)]
    began, cases = time.perf_counter(), {}
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for name, found, seconds in pool.imap_unordered(run_case, chosen):
            cases[name] = found
            if given.seconds:
                print(f"{seconds:6.2f} s  {name}", flush=True)
        pool.close()
        pool.join()  # else what the workers opened is reported as lost
    cases = {name: cases[name] for name in chosen}
    seconds = f"{len(chosen)} cases, {time.perf_counter() - began:.0f} s"
    if given.update is not None:
        before = compare(read(), cases) if RECORD.exists() else []
        write(cases, given.update)
        print("\n".join([*before, f"golden: written, {len(before)} differed before; {seconds}"]))
        return
    record = read()
    kept = {
        name: case for name, case in record["cases"].items() if not given.names or name in cases
    }
    differences = compare({**record, "cases": kept}, cases)
    bits = environment() == record["environment"]
    how = "equal bits" if bits else "probabilities within 1e-3, not bits: another machine"
    print("\n".join([*differences, f"golden: {len(differences)} differ ({how}); {seconds}"]))
    sys.exit(bool(differences))


if __name__ == "__main__":
    main()
