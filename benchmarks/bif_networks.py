"""All marginals of Bayesian networks without evidence: ours beside pyAgrum's LazyPropagation.

Each run is a process of its own, taking turns; reading the file is not counted. log Z must be 0
and the marginals of the two must agree.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import deltaai
from measure import child, header, load_ours, ratios, spread, work

NETWORKS = [
    *("asia", "cancer", "earthquake", "survey", "sachs", "child", "alarm", "hepar2", "water"),
    *("pathfinder", "pigs", "mildew", "diabetes", "munin1", "link"),
]


def ours(path, memory_limit):
    model = deltaai.read(path)
    load_ours()

    def run():
        engine = deltaai.exact(model, memory_limit=memory_limit)
        log_partition = engine.log_partition()
        rows = engine.marginals()
        return log_partition, {name: row.tolist() for name, row in rows.items()}, engine.cost.width

    return run


def pyagrum(path, memory_limit):
    import pyagrum as gum

    network = deltaai.to_pyagrum(deltaai.read(path))  # its own reader refuses child.bif
    names = {node: network.variable(node).name() for node in network.nodes()}

    def run():
        engine = gum.LazyPropagation(network)
        engine.makeInference()
        rows = {name: engine.posterior(node).toarray().tolist() for node, name in names.items()}
        return 0.0, rows, None

    return run


CONTENDERS = {"deltaai": ours, "pyAgrum": pyagrum}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder that holds bif/")
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--memory-limit", type=float, default=8, help="GiB, for ours")
    parser.add_argument(
        "--alone", nargs="*", default=["link"], help="networks without pyAgrum: it needs 16 GB here"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    limit = int(options.memory_limit * 2**30)
    if options.child:
        name, path = options.child
        work(lambda: CONTENDERS[name](path, limit))
        return
    header("Marginals of Bayesian networks, no evidence")
    print(
        "| network | width | deltaai, s | pyAgrum, s | pyAgrum/deltaai | deltaai, MB | "
        "pyAgrum, MB | log Z | largest difference |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for network in options.networks:
        path = options.data_dir / "bif" / f"{network}.bif.gz"
        runs = {name: [] for name in CONTENDERS}
        for _ in range(options.repeats):
            for name in CONTENDERS:
                base = ["--data-dir", str(options.data_dir)]
                base += ["--memory-limit", str(options.memory_limit)]
                if name != "deltaai" and network in options.alone:
                    runs[name].append(None)
                    continue
                runs[name].append(child([*base, "--child", name, str(path)]))
        if any(row is None for row in runs["deltaai"]):
            print(f"| {network} | | failed | | | | | | |", flush=True)
            continue
        a = [row["wall"] for row in runs["deltaai"]]
        log_z, rows, width = runs["deltaai"][0]["result"]
        mine = statistics.median(row["memory"] for row in runs["deltaai"]) / 1e6
        if any(row is None for row in runs["pyAgrum"]):
            mine = f"{spread(a)} | not run | | {mine:.0f} | | {log_z:.1e}"
            print(f"| {network} | {width} | {mine} | |", flush=True)
            continue
        b = [row["wall"] for row in runs["pyAgrum"]]
        theirs = statistics.median(row["memory"] for row in runs["pyAgrum"]) / 1e6
        peer = runs["pyAgrum"][0]["result"][1]
        worst = max(
            abs(p - q) for name, row in rows.items() for p, q in zip(row, peer[name], strict=True)
        )
        print(
            f"| {network} | {width} | {spread(a)} | {spread(b)} | {spread(ratios(b, a), 'x')} | "
            f"{mine:.0f} | {theirs:.0f} | {log_z:.1e} | {worst:.1e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
