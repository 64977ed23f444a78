"""The playground in headless Chromium: what it shows is what the native program
prints for the same inputs, its console stays empty and nothing is requested
after its own files. `tests/bootstrap playground` builds the page and runs this.

SHARDC_CHROMIUM names the browser, SHARDC_AXE axe-core's `axe.min.js` (without
it that part is skipped), SHARDC_SHOTS a folder for screenshots.
"""

import functools
import http.server
import json
import os
import pathlib
import shutil
import tempfile
import threading
import time
import unittest

from native import OUT, MODELS, PACKS, Folder, arguments, inputs

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    sync_playwright = None

CHROMIUM = os.environ.get("SHARDC_CHROMIUM") or shutil.which("chromium")
AXE = os.environ.get("SHARDC_AXE", "")
SHOTS = os.environ.get("SHARDC_SHOTS", "")
SITE = os.path.abspath(os.path.join(OUT, "site"))
DESK, PHONE = (1280, 900), (390, 844)
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa",
            "best-practice"]
MESH = "dp:2,fsdp:8,tp:4"
TABS = ["findings", "drawings", "plan", "explain", "resolve", "grid",
        "command"]
RULES = PACKS["builtin:llama/hf"]


class Server:
    """Serves the site and records what is requested."""

    def __init__(self):
        self.requested = requested = []

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, form, *values):
                requested.append(self.path)

        handler = functools.partial(Handler, directory=SITE)
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/index.html"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@unittest.skipUnless(sync_playwright and CHROMIUM, "no playwright or browser")
class Browser(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox"] if os.geteuid() == 0 else [])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        cls.server.http.shutdown()

    def open(self, url=None, size=DESK, dark=False):
        context = self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light")
        self.addCleanup(context.close)
        page = context.new_page()
        self.logged = []
        self.requests = []
        page.on("console", lambda message: self.logged.append(message.text))
        page.on("pageerror", lambda error: self.logged.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(url or self.server.url)
        self.settle(page)
        return page

    def wait(self, page, condition):
        """Playwright's own way evaluates text in the page, which its policy
        forbids."""
        end = time.monotonic() + 60
        while not page.evaluate(condition):
            self.assertLess(time.monotonic(), end, condition)
            time.sleep(0.02)

    def settle(self, page):
        """Waits until the results are those of the inputs."""
        self.wait(page, "document.body.dataset.state === 'ready' && "
                  "document.body.dataset.loadMs !== undefined")
        self.assertEqual([], self.logged)

    def change(self, page, field, text):
        page.fill(field, text)
        self.settle(page)

    def text(self, page, element):
        return page.eval_on_selector(element, "one => one.textContent")

    def same_plan(self, page, files, mesh):
        folder = Folder(self, files)
        status, plan, printed = folder.native(
            "plan", *arguments(files, mesh), "--keep-going")
        self.assertEqual(plan, self.text(page, "#plan-json"))
        self.assertEqual(printed, self.text(page, "#plan-text"))
        return status

    def same_findings(self, page, files, mesh, *more):
        _, found, _ = Folder(self, files).native(
            "check", *arguments(files, mesh), "--format", "json", *more)
        found = json.loads(found)
        items = page.eval_on_selector_all(
            "#finding-list li", "all => all.map(one => one.textContent)")
        self.assertEqual(len(found), len(items))
        for finding, item in zip(found, items):
            for part in (finding["level"], finding["code"], finding["message"],
                         finding["help"] or ""):
                self.assertIn(part, item)
        return found

    def test_the_first_plan_is_that_of_the_program(self):
        page = self.open()
        self.assertEqual("Up to date.", self.text(page, "#status"))
        self.assertEqual(0, self.same_plan(page, inputs(), MESH))
        self.same_findings(page, inputs(), MESH)

    def test_another_mesh_gives_the_program_s_other_plan(self):
        page = self.open()
        before = self.text(page, "#plan-json")
        for mesh in ("fsdp:16,tp:8", "tp:2"):
            self.change(page, "#mesh", mesh)
            self.assertEqual(0, self.same_plan(page, inputs(), mesh))
            self.assertNotEqual(before, self.text(page, "#plan-json"))

    def test_a_mesh_that_cannot_be_read_is_reported(self):
        page = self.open()
        self.change(page, "#mesh", "tp:x")
        found = self.same_findings(page, inputs(), "tp:x")
        self.assertEqual("--mesh", found[0]["file"])
        self.assertEqual("failed", page.get_attribute("#verdict", "class"))

    def test_a_broken_rule_shows_its_findings_at_its_line(self):
        page = self.open()
        broken = RULES.replace(r"mlp\.down_proj\.weight",
                               r"mlp\.dwn_proj\.weight", 1)
        self.assertNotEqual(RULES, broken)
        self.change(page, "#rules", broken)
        files = inputs(rules=broken)
        found = self.same_findings(page, files, MESH)
        self.assertIn("SHD104", [one["code"] for one in found])
        self.assertEqual(1, self.same_plan(page, files, MESH))
        self.assertRegex(self.text(page, "#verdict"), "1 error")
        line = broken[:broken.index("dwn_proj")].count("\n") + 1
        self.assertIn(f"▲ {line}\n", self.text(page, "#lines"))
        page.click(f"#finding-list button:has-text('line {line}')")
        chosen = page.eval_on_selector(
            "#rules", "one => one.value.slice(one.selectionStart, "
            "one.selectionEnd)")
        self.assertIn("dwn_proj", chosen)

    def test_rules_that_are_no_yaml_are_reported(self):
        page = self.open()
        self.change(page, "#rules", "version: 1\nrules: [\n")
        self.same_findings(page, inputs(rules="version: 1\nrules: [\n"), MESH)

    def test_a_link_holds_the_state(self):
        page = self.open()
        edited = RULES.replace("Replicated", "[]") + "# é\n"
        self.change(page, "#rules", edited)
        self.change(page, "#mesh", "fsdp:4,tp:2")
        page.click("#tab-resolve")
        page.fill("#axes", "[HEAD]")
        self.settle(page)
        page.click("#copy-link")
        self.wait(page, "location.hash.startsWith('#v1=')")
        link = page.evaluate("location.href")
        plan = self.text(page, "#plan-json")
        again = self.open(link)
        self.assertEqual(edited, again.input_value("#rules"))
        self.assertEqual("fsdp:4,tp:2", again.input_value("#mesh"))
        self.assertEqual("[HEAD]", again.input_value("#axes"))
        self.assertTrue(again.is_visible("#resolve"))
        self.assertEqual(plan, self.text(again, "#plan-json"))
        self.same_plan(again, inputs(rules=edited), "fsdp:4,tp:2")

    def test_a_damaged_link_starts_with_the_defaults(self):
        page = self.open(self.server.url + "#v1=AAAA")
        self.assertEqual(MESH, page.input_value("#mesh"))
        self.same_plan(page, inputs(), MESH)

    def test_every_tab_shows_what_its_command_prints(self):
        page = self.open()
        files = inputs()
        folder = Folder(self, files)
        all_inputs = arguments(files, MESH)
        place = all_inputs[:4] + ["--no-project"]
        layer = "model.layers.0.mlp.up_proj.weight"
        for tab, element, command in (
                ("explain", "#explain-text", ["explain", layer, *all_inputs]),
                ("explain", "#layout-text",
                 ["show", "layout", layer, *all_inputs]),
                ("resolve", "#resolve-text",
                 ["resolve", "[BATCH, [FSDP, SP], _]", "--mode", "train",
                  *place]),
                ("grid", "#mesh-text", ["show", "mesh", *place])):
            page.click(f"#tab-{tab}")
            self.settle(page)
            status, out, _ = folder.native(*command)
            self.assertEqual(0, status)
            self.assertEqual(out, self.text(page, element))
        page.click("#tab-command")
        page.fill("#line", "shardc resolve '[HEAD, _]' --mode decode")
        page.press("#line", "Enter")
        self.wait(page, "document.querySelector('#command-text')"
                  ".textContent !== ''")
        self.assertEqual(
            folder.native("resolve", "[HEAD, _]", "--mode", "decode")[1],
            self.text(page, "#command-text"))

    def test_the_drawings_are_the_program_s_report(self):
        page = self.open()
        page.click("#tab-drawings")
        self.settle(page)
        files = inputs()
        _, report, _ = Folder(self, files).native(
            "report", *arguments(files, MESH))
        self.assertEqual(report, page.eval_on_selector(
            "#report", "one => one.srcdoc"))
        frame = page.frame_locator("#report")
        self.assertIn("64 devices", frame.locator("body").inner_text())
        self.assertEqual([], self.logged)
        # Without a plan there are no drawings.
        self.change(page, "#mesh", "tp:x")
        self.assertFalse(page.is_visible("#report"))
        self.assertIn("no drawings", page.inner_text("#drawings-note"))

    def test_another_model_has_its_own_rules_and_sizes(self):
        page = self.open()
        page.select_option("#model", "mixtral-8x7b.flax")
        self.settle(page)
        self.same_plan(page, inputs("mixtral-8x7b.flax"), MESH)
        # Rules that were edited stay.
        self.change(page, "#rules", RULES + "# mine\n")
        page.select_option("#model", "llama-3-8b.hf")
        self.settle(page)
        self.assertEqual(RULES + "# mine\n", page.input_value("#rules"))

    def test_suggested_rules_are_those_of_the_program(self):
        page = self.open()
        page.click("#use-suggested")
        self.wait(page, "document.querySelector('#rules').value.startsWith("
                  "'# Rules suggested')")
        self.settle(page)
        files = inputs()
        _, rules, _ = Folder(self, files).native(
            "suggest", "--mesh", MESH, "--manifest", "model.json.gz",
            "--model", "config.json", "--no-project")
        self.assertEqual(rules, page.input_value("#rules"))
        self.same_plan(page, inputs(rules=rules), MESH)

    def test_a_manifest_of_one_s_own_and_a_link_to_it(self):
        page = self.open()
        manifest = json.dumps({
            "schema": "shardc.manifest/v1", "separator": ".", "params": [
                {"name": "<b>w</b>", "shape": [64, 8], "dtype": "F32"}]})
        rules = "version: 1\nseparator: '.'\nrules:\n  - match: w\n" \
                "    spec: [TP, null]\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "own.json")
            path.write_text(manifest, encoding="utf-8")
            page.set_input_files("#own", path)
            self.wait(page, "document.querySelector('#model-note')"
                      ".textContent.startsWith('own.json')")
        self.change(page, "#rules", rules)
        plan = json.loads(self.text(page, "#plan-json"))
        self.assertEqual(["<b>w</b>"], list(plan["params"]))
        page.click("#copy-link")
        self.wait(page, "location.hash.startsWith('#v1=')")
        again = self.open(page.evaluate("location.href"))
        self.assertEqual(plan, json.loads(self.text(again, "#plan-json")))
        self.assertEqual("", again.input_value("#config"))

    def test_the_built_in_rules_for_a_manifest_of_one_s_own(self):
        page = self.open()
        content = inputs("gpt2.hf")["model.json.gz"]
        page.set_input_files("#own", {
            "name": "x.json.gz", "mimeType": "application/gzip",
            "buffer": content})
        self.wait(page, "document.querySelector('#model-note')"
                  ".textContent.startsWith('x.json.gz')")
        page.click("#use-pack")
        self.wait(
            page, "document.querySelector('#rules').value.includes('builtin:')")
        self.settle(page)
        rules = "version: 1\nextends: [builtin:gpt2/hf]\n"
        self.assertEqual(rules, page.input_value("#rules"))
        files = inputs("gpt2.hf", rules, config=False)
        self.assertEqual(0, self.same_plan(page, files, MESH))

    def test_nothing_is_sent(self):
        self.server.requested.clear()
        page = self.open()
        self.assertEqual(
            {"index.html", "style.css", "module.js", "models.js", "wasi.js",
             "engine.js", "state.js", "results.js", "page.js"},
            {url.rsplit("/", 1)[1] for url in self.requests
             if url.startswith("http")})
        loaded = len(self.requests), len(self.server.requested)
        for tab in TABS:
            page.click(f"#tab-{tab}")
            self.settle(page)
        self.change(page, "#mesh", "tp:8")
        page.click("#copy-link")
        self.assertEqual([], [url for url in self.requests[loaded[0]:]
                              if not url.startswith(("about:", "data:"))])
        self.assertEqual(loaded[1], len(self.server.requested))

    def test_the_policy_stops_every_kind_of_connection(self):
        page = self.open()
        before = len(self.server.requested)
        tried = page.evaluate("""async () => {
          const refused = [];
          const url = location.origin + '/secret';
          document.addEventListener(
              'securitypolicyviolation',
              (event) => refused.push(event.effectiveDirective));
          await fetch(url).catch(() => {});
          await new Promise((done) => {
            const image = new Image();
            image.onerror = done;
            image.src = url + '.png';
          });
          await new Promise((done) => {
            const script = document.createElement('script');
            script.onerror = done;
            script.src = 'https://127.0.0.1:9/x.js';
            document.head.append(script);
          });
          navigator.sendBeacon(url, 'x');
          try { new WebSocket('ws://127.0.0.1:9'); } catch (error) {}
          try { new EventSource(url); } catch (error) {}
          await new Promise((done) => setTimeout(done, 300));
          return refused;
        }""")
        self.assertIn("connect-src", tried)
        self.assertIn("img-src", tried)
        self.assertIn("script-src-elem", tried)
        self.assertEqual(before, len(self.server.requested))

    def test_the_page_opens_from_a_file(self):
        page = self.open(pathlib.Path(SITE, "index.html").as_uri())
        self.same_plan(page, inputs(), MESH)
        page.click("#tab-drawings")
        self.settle(page)
        frame = page.frame_locator("#report")
        self.assertIn("64 devices", frame.locator("body").inner_text())

    def test_tabs_work_by_keyboard(self):
        page = self.open()
        page.focus("#tab-findings")
        page.keyboard.press("ArrowRight")
        self.assertTrue(page.is_visible("#drawings"))
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        self.assertTrue(page.is_visible("#command"))
        self.settle(page)
        # The editor can be left: Escape, then Tab.
        page.focus("#rules")
        page.keyboard.press("Escape")
        page.keyboard.press("Tab")
        self.assertNotEqual("rules", page.evaluate("document.activeElement.id"))

    def test_nothing_is_wider_than_a_phone(self):
        for dark in (False, True):
            page = self.open(size=PHONE, dark=dark)
            for tab in TABS:
                page.click(f"#tab-{tab}")
                self.settle(page)
                self.assertLessEqual(
                    page.evaluate("document.documentElement.scrollWidth"),
                    PHONE[0], tab)
                self.shot(page, f"phone-{tab}-{dark}")

    def shot(self, page, name):
        if SHOTS:
            page.screenshot(path=os.path.join(SHOTS, f"{name}.png"),
                            full_page=True)

    @unittest.skipUnless(AXE, "no axe-core")
    def test_axe_finds_nothing(self):
        for dark in (False, True):
            for size in (DESK, PHONE):
                page = self.open(size=size, dark=dark)
                page.evaluate(pathlib.Path(AXE).read_text(encoding="utf-8"))
                for tab in TABS:
                    page.click(f"#tab-{tab}")
                    self.settle(page)
                    self.shot(page, f"{tab}-{dark}-{size[0]}")
                    found = page.evaluate(
                        "tags => axe.run({exclude: ['iframe']}, {runOnly: tags,"
                        " resultTypes: ['violations']})", AXE_TAGS)
                    self.assertEqual([], [
                        (one["id"], [node["html"] for node in one["nodes"]])
                        for one in found["violations"]], tab)

    def test_loading_takes_seconds_at_most(self):
        page = self.open()
        load = int(page.evaluate("document.body.dataset.loadMs"))
        print(f"the module was inflated and compiled in {load} ms")
        self.assertLess(load, 20000)

    def test_every_bundled_model_can_be_chosen(self):
        page = self.open()
        offered = page.eval_on_selector_all(
            "#model option", "all => all.map(one => one.value)")
        self.assertEqual(list(MODELS), offered)


if __name__ == "__main__":
    unittest.main()
