r"""The page of `shardc report` in a real browser, by hand:

    python3 -m venv VENV && VENV/bin/pip install playwright
    apt-get install chromium-headless-shell       # or: chromium, which is slower
    npm pack axe-core && tar xzf axe-core-*.tgz   # package/axe.min.js
    SHARDC_CHROMIUM=/usr/bin/chromium-headless-shell \
        SHARDC_AXE=package/axe.min.js \
        VENV/bin/python tests/report/browser_test.py

`SHARDC_SHOTS=DIR` keeps screenshots, to be looked at. Without playwright or a
browser everything is skipped; without axe-core that part is.

It checks that nothing is logged on the console, no request is made, no page is
higher than 3,000 px at a width of 1,200 px (the heights are printed), nothing is
wider than a phone or a sheet of paper, search, filters and folded parts work, the
page can be read without scripts and in print without colours, hostile names run
nothing, and axe-core finds nothing in either theme.
"""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "cli"))

from driver import MODELS, TESTDATA, run  # noqa: E402
from reported import inputs_of_steps  # noqa: E402

try:
    from playwright.sync_api import Error, sync_playwright
except ImportError:
    sync_playwright = None

AXE = os.environ.get("SHARDC_AXE", "")
CHROMIUM = os.environ.get("SHARDC_CHROMIUM", "")
SHOTS = os.environ.get("SHARDC_SHOTS", "")
DESK, PHONE = (1200, 900), (390, 844)
# The height of a page before a reader opens anything, in px.
MOST_HIGH = 3000
PAPER = (718, 1047)  # A4 less margins of 1 cm, at 96 dots per inch
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa",
            "best-practice"]

# The contrast of the text of each node against what is painted behind its
# centre, or null if the node is not painted. A stroke that is painted first
# separates the letters from what is behind them.
CONTRAST = """nodes => nodes.map(name => {
  const node = document.querySelector(name);
  node.scrollIntoView({block: "center", inline: "center"});
  const box = node.getBoundingClientRect();
  if (!box.width || !box.height) return null;
  const parse = text => {
    const found = /rgba?\\(([^)]*)\\)/.exec(text);
    if (!found) return null;
    const [r, g, b, a = 1] = found[1].split(/[ ,/]+/).map(Number);
    return {rgb: [r, g, b], a};
  };
  const look = getComputedStyle(node), drawn = node instanceof SVGElement;
  const ink = parse(drawn ? look.fill : look.color).rgb;
  const layers = [];
  if (drawn && look.paintOrder.startsWith("stroke") && parse(look.stroke)) {
    layers.push(parse(look.stroke));
  }
  const x = box.x + box.width / 2, y = box.y + box.height / 2;
  for (const one of document.elementsFromPoint(x, y)) {
    if (one === node || one.contains(node) && one instanceof SVGElement) continue;
    if (one instanceof SVGTextElement) continue;
    const style = getComputedStyle(one);
    let paint = null;
    if (one instanceof SVGSVGElement || !(one instanceof SVGElement)) {
      paint = parse(style.backgroundColor);
    } else if (one instanceof SVGGeometryElement) {
      paint = parse(style.fill);
      if (paint) paint.a *= Number(style.fillOpacity);
    }
    if (paint && paint.a > 0) layers.push(paint);
    if (paint && paint.a === 1) break;
  }
  let behind = parse(getComputedStyle(document.documentElement)
    .backgroundColor).rgb;
  for (const layer of layers.reverse()) {
    behind = behind.map((c, i) => layer.rgb[i] * layer.a + c * (1 - layer.a));
  }
  const light = rgb => {
    const [r, g, b] = rgb.map(c => c / 255).map(
      c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [low, high] = [light(ink), light(behind)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
})"""

# What is cut off or wider than the paper, of what is drawn. Headings that only a
# screen reader reads (`.v`) are cut off on purpose.
CUT = """wide => [...document.querySelectorAll(
  "section *, header *")].filter(one => {
  const style = getComputedStyle(one), box = one.getBoundingClientRect();
  if (!box.width || !box.height || one.closest("svg svg, defs, .v")) return false;
  if (one.clientWidth && one.scrollWidth > one.clientWidth + 1 &&
      style.overflowX !== "visible") return true;
  return box.right > wide + 1;
}).map(one => one.tagName + "." + (one.getAttribute("class") || "")).slice(0, 9)
"""

# The boxes of the treemap that are at least so wide and have room for a label: the
# label, and whether it is inside its box.
LABELS = """least => [...document.querySelectorAll(".map g")].map(group => {
  const box = group.querySelector("rect").getBoundingClientRect();
  if (box.width < least || box.height < 120) return null;
  const seen = [...group.querySelectorAll("text")].map(
    one => [one.textContent, one.getBoundingClientRect()]).filter(
    ([, at]) => at.width && at.height);
  if (!seen.length) return ["", false];
  return [seen[0][0], seen.every(([, at]) => at.left >= box.left - 1 &&
    at.right <= box.right + 1 && at.bottom <= box.bottom + 1)];
}).filter(Boolean)"""

# Selectors of all elements that have text of their own and are painted.
TEXTS = """() => [...document.querySelectorAll("body *")].filter(one => {
  if (["SCRIPT", "STYLE", "TITLE", "title"].includes(one.tagName)) return false;
  const box = one.getBoundingClientRect();
  return box.width && box.height && getComputedStyle(one).visibility ===
    "visible" && [...one.childNodes].some(
      node => node.nodeType === 3 && node.data.trim());
}).slice(0, 400).map((one, i) => {
  one.setAttribute("data-text", i);
  return `[data-text="${i}"]`;
})"""

MESH = ["--mesh", "dp:2,fsdp:8,tp:4", "--processes", "8"]
HOSTILE = ["</script><script>document.title='run'</script>",
           "</style><img src=x onerror=document.title='run'>",
           "\" onmouseover=document.title='run' x=\"", "'&lt;&amp;",
           "a\u202eb\u200bc\u2028d", "n" * 10000, "{0..3}", "`tick`"]


def manifest(name):
    return ["--no-project", "--manifest", os.path.join(MODELS, name)]


def llama(*more):
    return [*manifest("llama-3-8b.hf.manifest.json"), "--rules",
            "builtin:llama", "--model",
            os.path.join(TESTDATA, "configs", "llama-3-8b.config.json"),
            "--batch", "64", "--seq", "8192", "--kv-len", "8192",
            "--remat", "nothing_saveable", *more]


@unittest.skipUnless(sync_playwright, "no playwright")
class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.pages = {}
        cls.make_pages()
        cls.playwright = sync_playwright().start()
        try:
            cls.browser = cls.playwright.chromium.launch(
                executable_path=CHROMIUM or None,
                args=["--no-sandbox"] if os.geteuid() == 0 else [])
        except Error as error:
            cls.playwright.stop()
            raise unittest.SkipTest(f"no browser: {error}") from error

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def write(cls, name, text):
        with open(cls.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return cls.path(name)

    @classmethod
    def report(cls, name, *arguments):
        out = cls.path(name + ".html")
        done = run("report", *arguments, "-o", out)
        assert done.rc in (0, 1), done
        assert os.path.exists(out), done
        cls.pages[name] = out

    @classmethod
    def make_pages(cls):
        base = cls.path("base.plan.json")
        rules = cls.write("base.yaml", "\n".join([
            "version: 1", "extends: [builtin:llama]", "rules:",
            "  - {match: 'lm_head', spec: [TP, null]}",
            "  - match: 'o_proj'", "    spec: [FSDP, TP]",
            "    modes: {decode: [null, TP]}",
            "  - {match: 'gone', spec: [TP]}", ""]))
        now = llama("--memory", "16GiB", *MESH)
        run("plan", *manifest("llama-3-8b.hf.manifest.json"), *MESH, "--rules",
            "builtin:llama", "-q", "-o", base)
        changed = [rules if one == "builtin:llama" else one for one in now]
        cls.report("llama", *changed, "--base", base)
        cls.report("over", *llama("--memory", "1GiB", "--mesh", "fsdp:2,tp:2"))
        cls.report("plan", "--plan", base)
        timed = cls.write("mesh.yaml", "axes: {dp: 4, fsdp: 4, tp: 4}\n"
                          "processes: 8\ndevice: h100-80gb\n")
        cls.report("timed", *llama("--mesh", timed), "--base", base)
        cls.report(
            "deepseek", "--no-project", "--mesh", "dp:4,fsdp:8,ep:64",
            "--processes", "256", "--rules", "auto", "--memory", "80GiB",
            "--manifest", os.path.join(TESTDATA, "corpus", "manifests",
                                       "deepseek-v3.hf.manifest.json.gz"))
        hostile = cls.write("m.json", json.dumps({
            "schema": "shardc.manifest/v1", "separator": ".", "params": [
                {"name": name, "shape": [8, 8], "dtype": "F32"}
                for name in HOSTILE]}))
        loud = cls.write("r.yaml", "version: 1\nseparator: '.'\nrules:\n"
                         "  - {match: '<script>', spec: [tp, null]}\n"
                         "  - {match: '.*', spec: [null, tp]}\n")
        cls.report("hostile", "--no-project", "--mesh", "tp:2", "--rules",
                   loud, "--manifest", hostile)
        staged = cls.write("p.yaml", "version: 1\nextends: [builtin:llama]\n"
                           "stages: {axis: pp, schedule: 1f1b, "
                           "microbatches: 8}\n")
        cls.report("pipeline", *["dp:2,pp:4,tp:8" if one == MESH[1] else
                                 staged if one == "builtin:llama" else one
                                 for one in llama(*MESH, "--profile",
                                                  "h100-sxm")])
        searched = run(
            "search", *manifest("llama-3-8b.hf.manifest.json"), "--model",
            os.path.join(TESTDATA, "configs", "llama-3-8b.config.json"),
            "--devices", "64", "--batch", "64", "--seq", "8192", "--profile",
            "h100-sxm", "--format", "html")
        assert searched.rc == 0, searched
        cls.pages["search"] = cls.write("search.html", searched.out)
        inputs, step = inputs_of_steps(cls.folder.name)
        cls.report("program", *inputs, "--profile", "h100-sxm", "--step", step,
                   "--compiled", os.path.join(
                       TESTDATA, "audit", "steps",
                       "llama_dp2_fsdp2_tp2_activations_free.after_spmd"
                       ".hlo.txt.gz"))

    def setUp(self):
        self.contexts = []
        self.addCleanup(self.close)

    def close(self):
        """Closes the pages that are open: a browser holds few at once."""
        while self.contexts:
            self.contexts.pop().close()

    def open(self, name, size=DESK, dark=False, scripts=True):
        """The page, with its console messages and requests."""
        context = self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts)
        self.contexts.append(context)
        page = context.new_page()
        events = []
        page.on("console", lambda message: events.append(message.text))
        page.on("pageerror", lambda error: events.append(str(error)))
        page.on("request", lambda request: events.append(request.url)
                if not request.url.startswith("file:") else None)
        page.goto("file://" + self.pages[name])
        return page, events

    def unfold(self, page):
        page.evaluate("document.querySelectorAll('details').forEach("
                      "one => one.open = true)")

    def test_a_page_begins_with_its_answers_and_is_not_high(self):
        """The first screen of a desk has the verdict and what needs a reader."""
        rows = []
        for name in self.pages:
            heights = []
            for size in (PHONE, DESK):
                self.close()
                page, _ = self.open(name, size)
                heights.append(page.evaluate(
                    "document.documentElement.scrollHeight"))
                first = page.locator("dl.strip").first.bounding_box()
                self.assertLess(first["y"] + first["height"], size[1], name)
            rows.append(f"{name}: {heights[0]} px high on a phone, "
                        f"{heights[1]} px on a desk")
            if name != "hostile":  # names of 10,000 letters
                self.assertLessEqual(heights[1], MOST_HIGH, name)
        print("\n".join(rows))

    def test_a_link_opens_what_is_folded(self):
        page, _ = self.open("llama")
        self.assertFalse(page.locator("#rows").is_visible())
        page.click("nav a[href='#parameters']")
        page.locator("#rows").wait_for(state="visible", timeout=5000)
        page.click("#all")
        self.assertEqual(page.locator(".fold>details:not([open])").count(), 0)
        page.click("#all")
        self.assertEqual(page.locator(".fold>details[open]").count(), 0)

    def every(self, check):
        """Calls the check with each page, at each size and in each theme."""
        for name in self.pages:
            for size in (DESK, PHONE):
                for dark in (False, True):
                    with self.subTest(name, size=size, dark=dark):
                        check(name, size, dark)
                    self.close()

    def test_nothing_is_logged_and_nothing_is_requested(self):
        def check(name, size, dark):
            page, events = self.open(name, size, dark)
            if SHOTS:
                look = "dark" if dark else "light"
                page.screenshot(full_page=True, path=os.path.join(
                    SHOTS, f"{name}-{size[0]}-{look}.png"))
            page.mouse.wheel(0, 5000)
            self.assertEqual(events, [])

        self.every(check)

    def test_no_page_is_wider_than_the_screen(self):
        def check(name, size, dark):
            page, _ = self.open(name, size, dark)
            self.unfold(page)
            if SHOTS and not dark:
                page.screenshot(full_page=True, path=os.path.join(
                    SHOTS, f"{name}-{size[0]}-open.png"))
            wide = page.evaluate("document.documentElement.scrollWidth")
            self.assertLessEqual(wide, size[0])
            cut = page.evaluate(
                "[...document.querySelectorAll('.s,.draw,nav ul')].filter("
                "one => one.scrollWidth > one.clientWidth + 1).map(one => "
                "one.getAttribute('aria-label') || one.className)")
            if name != "hostile":  # one word of 400 letters
                self.assertEqual(cut, [])

        self.every(check)

    def test_a_timeline_and_a_change_of_the_mesh_are_drawn(self):
        page, _ = self.open("timed")
        self.unfold(page)
        self.assertGreater(page.locator("#time .bars svg").count(), 5)
        self.assertGreater(page.locator("#communication .devices").count(), 1)
        changes = page.inner_text("#changes")
        self.assertIn("more parts", changes)
        self.assertIn("0 changes of parameters’ specs, 226 of shards alone",
                      changes)

    def test_boxes_of_the_map_have_labels_that_fit(self):
        """Also on a phone and on paper, where they run downwards."""
        for name in self.pages:
            self.close()
            for page, least in ((self.open(name)[0], 24),
                                (self.open(name, PHONE)[0], 24),
                                (self.printed(name, False), 36)):
                boxes = page.evaluate(LABELS, least)
                # A search draws no map.
                self.assertTrue(boxes or name in ("hostile", "search"), name)
                for label, fits in boxes if name != "hostile" else ():
                    self.assertTrue(fits, (name, label))

    def test_names_of_tasks_fit_in_their_bars(self):
        """On a desk most tasks of a timeline have a name, on a phone few."""
        counts = []
        for page in (self.open("pipeline")[0], self.open("pipeline", PHONE)[0],
                     self.printed("pipeline", False)):
            self.unfold(page)
            wide = page.evaluate(
                "[...document.querySelectorAll('.timeline text.mid')].map("
                "one => [one, one.previousElementSibling].map("
                "node => node.getBoundingClientRect().width))")
            shown = [(name, bar) for name, bar in wide if name]
            self.assertEqual([one for one in shown if one[0] > one[1]], [])
            counts.append(len(shown))
        self.assertGreater(counts[0], 50)
        self.assertGreaterEqual(counts[0], counts[2])
        self.assertGreaterEqual(counts[2], counts[1])

    def shown(self, page):
        return page.locator("#rows tr:visible").count()

    def test_search_and_filters(self):
        page, events = self.open("llama")
        self.unfold(page)
        rows = self.shown(page)
        self.assertGreater(rows, 8)
        page.fill("#find", "mlp down")
        self.assertEqual(self.shown(page), 1)
        self.assertIn("1 of", page.text_content("#found"))
        page.fill("#find", "nothing like it")
        self.assertEqual(self.shown(page), 0)
        page.fill("#find", "")
        self.assertEqual(self.shown(page), rows)
        for label, some in (("replicated", 3), ("changed", 2)):
            page.click(f"fieldset label:has-text('{label}')")
            self.assertEqual(self.shown(page), some, label)
        page.click("fieldset label:has-text('all')")
        self.assertEqual(self.shown(page), rows)
        self.assertEqual(events, [])

    def test_what_a_program_sends_is_filtered_and_sorted(self):
        page, events = self.open("program")
        self.unfold(page)
        rows = page.locator("#sent tr:visible")
        count = rows.count()
        self.assertGreater(count, 20)
        page.fill("#find-sent", "all_gather model")
        self.assertLess(rows.count(), count)
        self.assertIn(f"{rows.count()} of {count} rows",
                      page.inner_text("#program"))
        page.fill("#find-sent", "")
        self.assertEqual(rows.count(), count)

        def column(at):
            return page.evaluate(
                "at => [...document.querySelectorAll('#sent tr')].map(row => "
                "Number(row.cells[at].dataset.v) || row.cells[at].innerText)",
                at)

        def head(name):
            return page.locator("#program table >> nth=0").locator(
                "th", has_text=name).first

        times = column(5)
        head("Times").locator("button").click()
        self.assertEqual(column(5), sorted(times, reverse=True))
        self.assertEqual(head("Times").get_attribute("aria-sort"), "descending")
        # By keyboard, and back.
        head("Times").locator("button").focus()
        page.keyboard.press("Enter")
        self.assertEqual(column(5), sorted(times))
        head("Collective").locator("button").click()
        self.assertEqual(column(1), sorted(column(1)))
        self.assertIsNone(head("Times").get_attribute("aria-sort"))
        self.assertEqual(events, [])

    def test_modes_and_folded_parts(self):
        page, _ = self.open("llama")
        page.click("#parameters summary")
        row = page.locator("#rows tr", has_text="o_proj")
        self.assertIn("fsdp", row.locator("td").nth(2).inner_text())
        page.click("nav label:has-text('decode')")
        self.assertNotIn("fsdp", row.locator("td").nth(2).inner_text())
        details = page.locator("#memory details")
        self.assertFalse(details.locator("table").is_visible())
        details.locator("summary").click()
        self.assertTrue(details.locator("table").is_visible())

    def test_a_spec_leads_to_its_picture_and_tiles_say_what_they_are(self):
        page, _ = self.open("llama")
        page.click("#parameters summary")
        page.locator("#rows tr", has_text="up_proj").locator("a:visible").click()
        figure = page.locator("figure:target")
        self.assertTrue(figure.is_visible())
        figure.locator(".draw").focus()
        page.keyboard.press("ArrowRight")
        self.assertIn("device", figure.locator(".selected").inner_text())
        self.assertGreater(page.locator(".lit").count(), 1)

    def test_everything_is_there_without_scripts(self):
        page, _ = self.open("llama", scripts=False)
        page.click("#parameters summary")
        self.assertGreater(self.shown(page), 8)
        self.assertFalse(page.locator("#find").is_visible())
        page, _ = self.open("program", scripts=False)
        self.assertGreater(page.locator("#sent tr").count(), 20)
        self.assertFalse(page.locator("#find-sent").is_visible())
        self.assertEqual(page.locator("#program button").count(), 0)
        page, _ = self.open("llama", scripts=False)
        page.click("nav label:has-text('decode')")
        self.assertTrue(page.locator("h2:text('Layouts')").is_visible())

    def test_hostile_names_run_nothing(self):
        page, events = self.open("hostile")
        self.unfold(page)
        page.mouse.move(400, 400)
        page.hover("#rows tr >> nth=0")
        self.assertNotEqual(page.title(), "run")
        self.assertEqual(page.locator("img").count(), 0)
        self.assertEqual(page.locator("script").count(), 1)
        self.assertIn("</script>", page.inner_text("#rows"))
        self.assertEqual(events, [])

    def printed(self, name, dark):
        """The page as it is printed on A4 with margins of 1 cm."""
        page, _ = self.open(name, PAPER, dark)
        page.emulate_media(media="print",
                           color_scheme="dark" if dark else "light")
        return page

    def test_print(self):
        """On white paper in both themes, and nothing is wider than it."""
        for name in self.pages:
            for dark in (False, True):
                with self.subTest(name, dark=dark):
                    self.close()
                    page = self.printed(name, dark)
                    ground = page.evaluate(
                        "getComputedStyle(document.documentElement)"
                        ".backgroundColor")
                    self.assertEqual(ground, "rgb(255, 255, 255)")
                    wide = page.evaluate(
                        "document.documentElement.scrollWidth")
                    self.assertLessEqual(wide, PAPER[0])
                    cut = page.evaluate(CUT, PAPER[0])
                    if name != "hostile":  # one word of 400 letters
                        self.assertEqual(cut, [])
                    look = "dark" if dark else "light"
                    path = os.path.join(SHOTS or self.folder.name,
                                        f"{name}-print-{look}")
                    page.pdf(path=path + ".pdf", format="A4")
                    self.assertGreater(os.path.getsize(path + ".pdf"), 10000)
                    if SHOTS:
                        page.screenshot(full_page=True, path=path + ".png")

    def test_print_has_what_is_folded_and_no_control(self):
        for name in self.pages:
            self.close()
            page = self.printed(name, False)
            screen, _ = self.open(name)
            self.unfold(screen)
            self.assertEqual(self.shown(page), self.shown(screen))
            for part in ("h2", "h3", "th", "figure"):
                self.assertEqual(page.locator(f"{part}:visible").count(),
                                 screen.locator(f"{part}:visible").count(),
                                 (name, part))
            for control in ("nav", ".tools", "input"):
                self.assertEqual(
                    page.locator(f"{control}:visible").count(), 0,
                    (name, control))

    def test_print_is_read_without_colours(self):
        """Contrasts are of lightness, so that they hold in greys too."""
        for name in self.pages:
            for dark in (False, True):
                self.close()
                page = self.printed(name, dark)
                nodes = page.evaluate(TEXTS)
                low = [(node, ratio) for node, ratio in zip(
                    nodes, page.evaluate(CONTRAST, nodes))
                    if ratio is not None and ratio < 4.5]
                self.assertEqual(low, [], (name, dark))

    @unittest.skipUnless(AXE, "SHARDC_AXE names no axe.min.js")
    def test_axe_finds_nothing(self):
        with open(AXE, encoding="utf-8") as file:
            axe = file.read()
        ratios = []

        def check(name, size, dark):
            page, _ = self.open(name, size, dark)
            page.evaluate(axe)
            result = page.evaluate(
                "tags => axe.run({runOnly: {type: 'tag', values: tags}})",
                AXE_TAGS)
            found = [(one["id"], one["nodes"][0]["html"][:200])
                     for one in result["violations"]]
            self.assertEqual(found, [])
            # axe-core does not decide the contrast of text in drawings.
            nodes = [node["target"][-1] for one in result["incomplete"]
                     if one["id"] == "color-contrast" for node in one["nodes"]]
            found = page.evaluate(CONTRAST, nodes)
            ratios.extend(found)
            self.assertEqual([(node, ratio) for node, ratio in zip(nodes, found)
                              if ratio is not None and ratio < 4.5], [])

        self.every(check)
        print(f"axe-core: {len(self.pages)} pages, {len(ratios)} nodes whose "
              f"contrast was computed here, {ratios.count(None)} not painted")


if __name__ == "__main__":
    unittest.main()
