"""Run the chapters several at a time, and put their outputs where the build finds them: in Jupyter's cache.

Usage: python tools/run_notebooks.py

The last chapter is the first to run: late chapters take longest, and short ones at the end leave no core idle for long.
The build by itself runs one notebook after the other. What the cache holds already is not run again. A notebook that
fails is left to the build, which runs it once more and says why, and so is one with a cell tagged ``alone``, whose
times another would disturb.
"""

import json
import logging
import multiprocessing
import os
from pathlib import Path

import yaml
from jupyter_cache import get_cache
from jupyter_cache.executors.basic import ExecutionWorkerLocalMProc, ProcessData

ROOT = Path(__file__).resolve().parent.parent
MOST = 4  # at a time: each takes up to a gigabyte


def run(root):
    """Run what waits below ``root / "notebooks"``; return how many there were."""
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["execute"]
    cache = get_cache(str(root / "_build" / ".jupyter_cache"))
    paths = [cache.add_nb_to_project(str(path)).uri for path in sorted((root / "notebooks").glob("*.ipynb"))
             if not is_alone(path)]
    records = sorted(cache.list_unexecuted(filter_uris=paths), key=lambda record: record.uri, reverse=True)
    waiting = [ProcessData(record.pk, record.uri, cache, settings["timeout"], settings["allow_errors"])
               for record in records]
    workers = min(MOST, os.cpu_count(), len(waiting))
    if workers > 1:
        print(f"Running {len(waiting)} notebooks, {workers} at a time", flush=True)
        with multiprocessing.get_context("spawn").Pool(workers, silence) as pool:
            pool.map(ExecutionWorkerLocalMProc(), waiting, chunksize=1)
    cache.db.dispose()
    return len(waiting)


def is_alone(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return any("alone" in cell["metadata"].get("tags", []) for cell in cells)


def silence():
    """Of a notebook that fails the build speaks."""
    multiprocessing.get_logger().setLevel(logging.CRITICAL)


if __name__ == "__main__":
    run(ROOT)
