"""The line of progress: on a terminal, and on nothing else."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from driver import BIN, ROOT, Case, run

ERASE = "\r\x1b[K"
CONFIG = os.path.join(ROOT, "testdata", "configs", "llama-3-8b.config.json")
LARGE = os.path.join(ROOT, "testdata", "configs", "deepseek-v3.config.json")
# Takes several seconds on any machine.
SEARCH = ["search", "--no-project", "--devices", "512", "--profile", "h100-sxm",
          "--model", LARGE, "--batch", "2048", "--seq", "4096", "--threads", "1"]
# Takes much longer than a test lets it run.
ENDLESS = ["2048" if word == "512" else word for word in SEARCH]


def on_terminal(*command, columns=80, env=None, most=None,
                stdin=subprocess.DEVNULL):
    """(what a run writes to stderr on a terminal, to stdout on a pipe, status).
    Ends the run by SIGINT after `most` seconds."""
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ,
                struct.pack("HHHH", 24, columns, 0, 0))
    with tempfile.TemporaryFile() as out:
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=stdin, stdout=out,
            stderr=terminal, env={**os.environ, "TERM": "xterm", **(env or {})})
        os.close(terminal)
        text = b""
        start = time.monotonic()
        while True:
            if most is not None and time.monotonic() - start > most:
                process.send_signal(2)
                most = None
            if not select.select([reader], [], [], 0.1)[0]:
                continue
            try:
                more = os.read(reader, 65536)
            except OSError:  # the other side is closed
                break
            if not more:
                break
            text += more
        os.close(reader)
        status = process.wait()
        out.seek(0)
        return text.decode(), out.read().decode(), status


def frames(text):
    return [frame for frame in text.split(ERASE) if frame]


class Progress(Case):
    def test_a_search_counts_what_it_did_and_erases_its_line(self):
        err, out, status = on_terminal(BIN, *SEARCH)
        self.assertIn(status, (0, 1))
        self.assertIn("winner", out)
        shown = frames(err)
        counts = [list(map(int, found.groups())) for found in (
            re.search(r"\[[# ]{30}\] (\d+)/(\d+) shardings", frame)
            for frame in shown) if found]
        self.assertGreater(len(counts), 2, shown)
        self.assertEqual(counts, sorted(counts))
        self.assertTrue(all(done <= every for done, every in counts))
        seconds = [int(frame.split(", ")[-1][:-2]) for frame in shown]
        self.assertEqual(seconds, sorted(seconds))
        self.assertGreaterEqual(seconds[0], 1)
        # Nothing is left on the screen.
        self.assertTrue(err.endswith(ERASE), err[-80:])

    def test_a_pipe_gets_nothing(self):
        done = run(*SEARCH, "--seconds", "3")
        self.assertNotIn("\x1b", done.err + done.out)
        self.assertNotIn("shardings,", done.err)

    def test_quiet_and_dumb_terminals_get_nothing(self):
        for options, env in ((["-q"], {}), ([], {"TERM": "dumb"})):
            err, _, status = on_terminal(BIN, *ENDLESS, *options, env=env,
                                         most=2)
            self.assertEqual((err, status), ("", -2))

    def test_a_run_of_less_than_a_second_draws_nothing(self):
        err, _, status = on_terminal(
            BIN, "cost", "--no-project", "--mesh", "fsdp:4,tp:2", "--rules",
            "auto", "--model", CONFIG, "--batch", "8", "--seq", "128")
        self.assertEqual((err, status), ("", 0))

    def test_a_narrow_terminal_gets_one_line(self):
        err, _, _ = on_terminal(BIN, *ENDLESS, columns=40, most=4)
        self.assertTrue(frames(err))
        for frame in frames(err):
            self.assertLess(len(frame), 40, frame)

    def test_an_interrupt_erases_the_line(self):
        # Between two seconds, when no frame is drawn.
        err, _, status = on_terminal(BIN, *ENDLESS, most=4.5)
        self.assertEqual(status, -2)
        self.assertTrue(frames(err))
        self.assertTrue(err.endswith(ERASE), err[-80:])

    def test_every_long_command_shows_that_it_runs(self):
        """A manifest that comes slowly makes each command long. On a busy machine
        the line may be drawn late, so the seconds that it shows are not fixed."""
        manifest = json.dumps({"schema": "shardc.manifest/v1", "params": [{
            "name": "model.layers.0.self_attn.q_proj.weight",
            "shape": [64, 64], "dtype": "BF16"}]})
        for words in (["cost", "--model", CONFIG], ["suggest"], ["plan"],
                      ["report", "--format", "json"], ["check"],
                      ["verify", "step"], ["search", "--all"]):
            rules = [] if words[0] == "suggest" else ["--rules", "auto"]
            # pylint: disable-next=consider-using-with
            slow = subprocess.Popen(
                [sys.executable, "-c", "import sys, time\ntime.sleep(4)\n"
                 f"sys.stdout.write({manifest!r})"], stdout=subprocess.PIPE)
            err, _, _ = on_terminal(BIN, *words, "--no-project", "--mesh",
                                    "fsdp:4", *rules, "--manifest", "-",
                                    stdin=slow.stdout)
            slow.stdout.close()
            slow.wait()
            self.assertIn(f"shardc {words[0]}", frames(err)[0])
            self.assertRegex(frames(err)[0], r", [1-9]\d* s$")

    def test_python_shows_what_is_traced(self):
        code = ("import time\nfrom shardc import progress\n"
                "with progress.line('tracing a.b:step'):\n"
                "    time.sleep(3)\n")
        env = {"PYTHONPATH": os.path.join(ROOT, "python")}
        err, _, status = on_terminal(sys.executable, "-c", code, env=env)
        self.assertEqual(status, 0)
        self.assertRegex(frames(err)[0], r"^tracing a\.b:step, [1-9]\d* s$")
        self.assertTrue(err.endswith(ERASE))
        done = subprocess.run([sys.executable, "-c", code], check=True,
                              env={**os.environ, **env}, capture_output=True)
        self.assertEqual((done.stdout, done.stderr), (b"", b""))


if __name__ == "__main__":
    unittest.main()
