"""Measures side by side in one run and writes ratios.

`--suite all` takes the suites one after the other. `--before BUILD` times a
build of an earlier commit in the same rounds, each row against its peer, so
that a table shows what a change gained. `--table FILE` writes the table.

Each round times every row's two sides one after the other, the machine's
floors among them, so that what disturbs one disturbs both. A row's ratio is
that of the medians over the rounds; over 1 is in our favour, and against a
floor it is the share of it that is reached. What is not installed is
reported as absent.
"""

import argparse
import contextlib
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
import program_suite
import split_suite

SUITES = {"attn": attn, "audit": audit_suite, "compile": compile_suite,
          "fit": fit_suite, "lsp": lsp_suite, "match": match_suite,
          "program": program_suite, "split": split_suite}


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


def measure(suite, build, before, rounds, only):
    """The rows of a suite; with the earlier build's ratio as `before`."""
    with contextlib.ExitStack() as stack:
        builds = [stack.enter_context(suite.Suite(os.path.abspath(one)))
                  for one in (build, before) if one]
        specs = [s for s in builds[0].rows() if only in s["name"]]
        taken = [[[] for _ in specs] for _ in builds]
        for number in range(rounds):
            for i, spec in enumerate(specs):
                for one, rows in zip(builds, taken):
                    rows[i].append(one.round(spec))
            print("round %d of %d" % (number + 1, rounds), file=sys.stderr)
    rows = [row_of(s, r) for s, r in zip(specs, taken[0])]
    if before:
        for row, spec, earlier in zip(rows, specs, taken[1]):
            row["before"] = row_of(spec, earlier).get("ratio")
    return rows


def table(results, about):
    """The results as Markdown."""
    def text(number):
        return "" if number is None else "%.2f" % number

    earlier = any("before" in row for result in results
                  for row in result["rows"])
    lines = ["%s, %s cores, %s." % (about.get("processor", "?"),
                                    about["cores"], about.get("vectors", "?")),
             "",
             "| case | against | %sratio | target |" % (
                 "before | " if earlier else ""),
             "|---|---|%s---|---|" % ("---|" if earlier else "")]
    for result in results:
        for row in result["rows"]:
            ratio = text(row.get("ratio")) or "absent: " + row["absent"]
            lines.append("| %s | %s | %s%s | %s |" % (
                row["name"], row["against"],
                text(row.get("before")) + " | " if earlier else "", ratio,
                text(row.get("target"))))
    return "\n".join(lines) + "\n"


def flags():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", choices=sorted(SUITES) + ["all"],
                        required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--build", default=os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "..", "build"))
    parser.add_argument("--before", default="",
                        help="the build of an earlier commit")
    parser.add_argument("--only", default="", help="rows whose name has this")
    parser.add_argument("--table", default="", help="a file for the table")
    parser.add_argument("-o", dest="output", default="-")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    return args


def write(path, text):
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)


def text_of(results, args):
    """The results as JSON: a list, or the one suite that is measured."""
    return json.dumps(results if args.suite == "all" else results[0],
                      indent=1) + "\n"


def main():
    """Writes the files after each suite, so that a run that is stopped leaves
    those that have ended."""
    args = flags()
    results = []
    for name in sorted(SUITES) if args.suite == "all" else [args.suite]:
        print("suite " + name, file=sys.stderr)
        rows = measure(SUITES[name], args.build, args.before, args.rounds,
                       args.only)
        result = {"suite": name, "machine": machine(), "rows": rows}
        drift = moved(rows)
        if drift > 0.25:
            result["remark"] = ("the machine's floors moved by %d%% within "
                                "the run: repeat it" % round(100 * drift))
        results.append(result)
        if args.output != "-":
            write(args.output, text_of(results, args))
        if args.table:
            write(args.table, table(results, machine()))
    if args.output == "-":
        sys.stdout.write(text_of(results, args))
    print(table(results, machine()), file=sys.stderr)
    for result in results:
        if "remark" in result:
            print(result["suite"] + ": " + result["remark"], file=sys.stderr)


if __name__ == "__main__":
    main()
