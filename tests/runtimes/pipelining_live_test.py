"""torch makes its schedules as in the record, and its runtime reads the tables
that shardc writes as CSV."""

import os
import subprocess
import tempfile
import unittest

from torch.distributed.pipelining import schedules

import pipelining_answers
import pipelining_steps
import records

BIN = os.environ.get("SHARDC_BIN", "shardc")
EVERY = 7  # of the recorded cases
# A name of ours, virtual stages; what torch's loader cannot place is left out.
WRITTEN = [("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("looped-bfs", 2),
           ("zb-h1", 1), ("zb-h2", 1), ("interleaved-zb", 2), ("zbv", 2),
           ("dualpipev", 2)]


def csv_of(name, ranks, virtual, microbatches):
    return subprocess.run(
        [BIN, "schedule", name, "--ranks", str(ranks), "--virtual",
         str(virtual), "--microbatches", str(microbatches), "--csv"],
        check=True, capture_output=True, text=True).stdout


def runtime(ranks, virtual, microbatches):
    """An object that loads tables, without stages to run."""
    made = pipelining_answers.made("Interleaved1F1B", ranks, 2, ranks)
    made._num_stages, made._n_microbatches = ranks * virtual, microbatches
    made.pipeline_order, made.pipeline_order_with_comms = {}, {}
    return made


class Pipelining(unittest.TestCase):
    def test_the_record_is_what_torch_makes(self):
        cases = records.load("pipelining/torch")["cases"]
        self.assertEqual(len(cases), 630)
        names = {ours: theirs
                 for ours, theirs, _ in pipelining_answers.SCHEDULES}
        for case in cases[::EVERY]:
            sizes = {key: case[key] for key in
                     ("schedule", "ranks", "virtual", "microbatches")}
            with self.subTest(**sizes):
                now = pipelining_answers.answer(
                    names[case["schedule"]], case["ranks"], case["virtual"],
                    case["microbatches"])
                self.assertEqual({**sizes, **now}, case)

    def test_torch_reads_written_tables_with_their_placement(self):
        tables = 0
        for name, virtual in WRITTEN:
            for ranks in (2, 4):
                for microbatches in (2 * ranks, 3 * ranks):
                    text = csv_of(name, ranks, virtual, microbatches)
                    with self.subTest(name, ranks=ranks), \
                            tempfile.NamedTemporaryFile("w") as file:
                        file.write(text)
                        file.flush()
                        made = runtime(ranks, virtual, microbatches)
                        schedules.PipelineScheduleMulti._load_csv(
                            made, file.name)
                        again = "".join(
                            ",".join(map(str, made.pipeline_order[rank]))
                            + "\n" for rank in range(ranks))
                        self.assertEqual(again, text)
                        shape = ((lambda s: s) if virtual == 1 else
                                 (lambda s: min(s, 2 * ranks - 1 - s))
                                 if name in ("zbv", "dualpipev") else
                                 (lambda s: s % ranks))
                        self.assertEqual(
                            made.stage_index_to_group_rank,
                            {s: shape(s) for s in range(ranks * virtual)})
                        tables += 1
        self.assertEqual(tables, 36)
        print(f"{tables} tables read by torch")

    def test_two_processes_compute_the_step_of_one(self):
        for name, virtual in pipelining_steps.CASES:
            with self.subTest(name, virtual=virtual):
                self.assertLess(pipelining_steps.run(name, virtual), 1e-14)
        print(f"{len(pipelining_steps.CASES)} tables: loss and gradients of "
              "one process")


if __name__ == "__main__":
    unittest.main()
