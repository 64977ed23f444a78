// Compares all findings of each lint's examples, and of variations of its bad
// example, with testdata/tables/lint_rules.txt: level, code, place, message,
// labels and help. Variations change the sizes of the mesh, the shapes, or the
// sizes of a step, so that both sides of a lint's limits are tested. A false
// finding appears as an additional line.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lint/rules/lint.h"
#include "lint/target.h"
#include "source/wording.h"
#include "tables.h"

namespace shardc {
namespace {

// Returns a place such as "rules.yaml:3:5-12", without the folder of the test's
// own files.
std::string PlaceText(const Place& place) {
  const std::string text = place.ToString();
  if (text.empty()) return "-";
  std::string out(AfterLast(text, '/'));
  if (place.begin != Place::kEntireFile) {
    out += "+" + std::to_string(place.end - place.begin);
  }
  return out;
}

// Returns the finding on one line and, if `all`, its labels and help on further
// lines.
std::string TextOfFinding(const Finding& finding, bool all) {
  std::string out = std::string(LevelName(finding.level)) + " " +
                    finding.code->Id() + " " + PlaceText(finding.place) + ": " +
                    finding.message + "\n";
  if (!all) return out;
  for (const Label& label : finding.labels) {
    out += "  label " + PlaceText(label.place) + ": " + label.text + "\n";
  }
  if (!finding.params.empty()) {
    out += "  of";
    for (const std::string& name : finding.params) out += " " + name;
    out += "\n";
  }
  if (!finding.help.empty()) out += "  help: " + finding.help + "\n";
  return out;
}

std::string FindingsText(const LintExample& example, bool all) {
  std::string errors, out;
  const LintResult result = LintExampleText(example, &errors);
  if (!errors.empty()) return "refused\n";
  for (const Finding& finding : result.findings) {
    out += TextOfFinding(finding, all);
  }
  return out.empty() ? "nothing\n" : out;
}

// Replaces each number that follows a character of `before` by the result of
// `change` for that number.
std::string Renumbered(std::string_view text, std::string_view before,
                       const std::function<int64_t(int64_t)>& change) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const bool number = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
    if (!number || out.empty() ||
        before.find(out.back()) == std::string_view::npos) {
      out += text[i++];
      continue;
    }
    const size_t end = text.find_first_not_of("0123456789", i);
    const std::string digits(text.substr(i, end - i));
    out += std::to_string(change(std::stoll(digits)));
    i += digits.size();
  }
  return out;
}

// Returns the manifest with the numbers in shapes changed.
std::string Reshaped(std::string_view manifest,
                     const std::function<int64_t(int64_t)>& change) {
  std::string out;
  for (size_t i = 0; i < manifest.size();) {
    const size_t begin = manifest.find('[', i);
    const size_t end = std::min(manifest.find(']', begin), manifest.size());
    if (begin == std::string_view::npos) return out += manifest.substr(i);
    out += manifest.substr(i, begin - i);
    out += Renumbered(manifest.substr(begin, end - begin), "[ ", change);
    i = end;
  }
  return out;
}

struct Variation {
  std::string_view name;
  std::function<int64_t(int64_t)> mesh, shape;
  int64_t step_times = 1, step_plus = 0;
};

const std::vector<Variation>& Variations() {
  const auto same = [](int64_t n) { return n; };
  static const std::vector<Variation> kAll = {
      {"axes of twice the size", [](int64_t n) { return 2 * n; }, same},
      {"axes of three times the size", [](int64_t n) { return 3 * n; }, same},
      {"axes of size 1", [](int64_t) { return 1; }, same},
      {"dimensions of one more", same, [](int64_t n) { return n + 1; }},
      {"dimensions of a quarter", same, [](int64_t n) { return (n + 3) / 4; }},
      {"four times the batch, length and memory, and one more", same, same, 4,
       1},
  };
  return kAll;
}

// Returns the findings of a variation that the bad example does not have, and
// the places of those that it no longer has.
std::string Varied(const LintExample& bad, const Variation& variation,
                   const std::set<std::string>& known) {
  const bool one_line = bad.mesh.find('\n') == std::string_view::npos;
  const std::string mesh =
      Renumbered(bad.mesh, one_line ? ":=" : " ", variation.mesh);
  const std::string manifest = Reshaped(bad.manifest, variation.shape);
  LintExample example = bad;
  example.mesh = mesh;
  example.manifest = manifest;
  for (int64_t* size :
       {&example.batch, &example.kv_len, &example.memory_bytes}) {
    if (*size != 0) {
      *size = *size * variation.step_times + variation.step_plus;
    }
  }
  const std::string text = FindingsText(example, false);
  std::set<std::string> gone = known;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) + 1;
    const std::string line = text.substr(at, end - at);
    if (gone.erase(line) == 0) out += line;
    at = end;
  }
  for (const std::string& line : gone) {
    const std::string head = line.substr(0, line.find(": ") + 1);
    if (("\n" + out).find("\n" + head) != std::string::npos) continue;
    out += "not " + head.substr(0, head.size() - 1) + "\n";
  }
  return out.empty() ? "" : "### " + std::string(variation.name) + "\n" + out;
}

std::string Result(const LintExamples& lint) {
  std::string out = "### the bad example\n" + FindingsText(lint.bad, true) +
                    "### the good example\n" +
                    FindingsText(Filled(lint.bad, lint.good), false);
  const std::string bad = FindingsText(lint.bad, false);
  std::set<std::string> known;
  for (size_t at = 0; at < bad.size();) {
    const size_t end = bad.find('\n', at) + 1;
    known.insert(bad.substr(at, end - at));
    at = end;
  }
  for (const Variation& variation : Variations()) {
    out += Varied(lint.bad, variation, known);
  }
  return out;
}

TEST_CASE("what lints report of variations of their examples") {
  std::vector<std::string> names;
  for (const LintExamples& one : AllExamples()) names.emplace_back(one.lint);
  CheckTable(
      "lint_rules.txt",
      [](const TableCase& given) { return Result(ExamplesOf(given.title)); },
      names);
}

}  // namespace
}  // namespace shardc
