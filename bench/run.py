"""Measures side by side in one run and writes ratios.

Each round times every row's two sides one after the other, the machine's
floors among them, so that what disturbs one disturbs both. A row's ratio is
that of the medians over the rounds; over 1 is in our favour, and against a
floor it is the share of it that is reached. What is not installed is
reported as absent.
"""

import argparse
import json
import os
import platform
import statistics
import sys

import attn
import audit_suite
import compile_suite
import fit_suite
import lsp_suite
import match_suite
import split_suite

SUITES = {"attn": attn, "audit": audit_suite, "compile": compile_suite,
          "fit": fit_suite, "lsp": lsp_suite, "match": match_suite,
          "split": split_suite}


def machine():
    about = {"system": platform.system(), "arch": platform.machine(),
             "cores": os.cpu_count()}
    try:
        with open("/proc/cpuinfo") as info:
            for line in info:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    about["processor"] = value.strip()
                elif key.strip() == "flags":
                    flags = value.split()
                    about["vectors"] = next(
                        (f for f in ("avx512f", "avx2", "sse4_1")
                         if f in flags), "")
                    break
    except OSError:
        pass
    return about


def row_of(spec, rounds):
    row = {"name": spec["name"], "against": spec["against"]}
    absent = next((r["absent"] for r in rounds if "absent" in r), None)
    if absent is not None:
        return dict(row, absent=absent)
    ours = statistics.median(r["ours"] for r in rounds)
    theirs = statistics.median(r["against"] for r in rounds)
    row["ratio"] = round(ours / theirs if spec["rate"] else theirs / ours, 4)
    if "target" in spec:
        row["target"] = spec["target"]
    row["unit"] = spec["unit"]
    row["rounds"] = rounds
    return row


def moved(rows):
    """Whether a floor, which should be constant, moved by over a quarter."""
    worst = 0
    for row in rows:
        if "floor" in row["against"] and "rounds" in row:
            seen = sorted(r["against"] for r in row["rounds"])
            middle = seen[len(seen) // 4: -(len(seen) // 4) or None]
            worst = max(worst, middle[-1] / middle[0] - 1)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", choices=sorted(SUITES), required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--build", default=os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "..", "build"))
    parser.add_argument("--only", default="", help="rows whose name has this")
    parser.add_argument("-o", dest="output", default="-")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    suite = SUITES[args.suite]
    with suite.Suite(os.path.abspath(args.build)) as measure:
        specs = [s for s in measure.rows() if args.only in s["name"]]
        taken = [[] for _ in specs]
        for number in range(args.rounds):
            for spec, rounds in zip(specs, taken):
                rounds.append(measure.round(spec))
            print("round %d of %d" % (number + 1, args.rounds),
                  file=sys.stderr)
    rows = [row_of(s, r) for s, r in zip(specs, taken)]
    result = {"suite": args.suite, "machine": machine(), "rows": rows}
    drift = moved(rows)
    if drift > 0.25:
        result["remark"] = ("the machine's floors moved by %d%% within the "
                            "run: repeat it" % round(100 * drift))
    text = json.dumps(result, indent=1) + "\n"
    if args.output == "-":
        sys.stdout.write(text)
    else:
        with open(args.output, "w") as out:
            out.write(text)
    for row in rows:
        print("%-34s %-26s %s" % (
            row["name"], row["against"],
            "absent: " + row["absent"] if "absent" in row
            else "%.3f" % row["ratio"]), file=sys.stderr)
    if "remark" in result:
        print(result["remark"], file=sys.stderr)


if __name__ == "__main__":
    main()
