// Writes the totals of a check: the number of findings by level or by code, and
// the lints that were skipped because an input is missing:
//
//   1 target: 1 error, 0 warnings, 3 notes (--notes shows them)
//   skipped 21 lints without a batch or shapes (--notes lists them)
#include "cli/check_summary.h"

#include <map>
#include <set>

#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct CodeCount {
  const Code* code = nullptr;
  int64_t findings = 0;
  int64_t params = 0;
};

std::map<int, CodeCount> CountByCode(std::span<const Finding> findings) {
  std::map<int, CodeCount> counts;
  for (const Finding& finding : findings) {
    CodeCount& count = counts[finding.code->number];
    count.code = finding.code;
    ++count.findings;
    count.params += static_cast<int64_t>(finding.params.size());
  }
  return counts;
}

}  // namespace

void WriteStatistics(std::span<const Finding> findings, bool as_json,
                     Sink& out) {
  const auto counts = CountByCode(findings);
  if (!as_json) {
    for (const auto& [number, count] : counts) {
      out.Append(
          count.code->Id() + " " + std::string(count.code->name) + ": " +
          Counted(count.findings, "finding") +
          (count.params > 0 ? ", " + Counted(count.params, "parameter") : "") +
          "\n");
    }
    return;
  }
  JsonWriter json(out);
  json.BeginArray(JsonLayout::kLines);
  for (const auto& [number, count] : counts) {
    json.BeginObject();
    json.Member("code", count.code->Id());
    json.Member("name", count.code->name);
    json.Member("findings", count.findings);
    json.Member("params", count.params);
    json.EndObject();
  }
  json.EndArray();
  out.Put('\n');
}

std::string SummaryText(const Findings& findings,
                        const std::vector<CheckedTarget>& targets,
                        int64_t known, bool hides_notes) {
  int64_t counts[3] = {0, 0, 0};
  for (const Finding& finding : findings.all()) {
    ++counts[static_cast<size_t>(finding.level)];
  }
  std::string out = Counted(static_cast<int64_t>(targets.size()), "target") +
                    ": " + Counted(counts[0], "error") + ", " +
                    Counted(counts[1], "warning") + ", " +
                    Counted(counts[2], "note");
  if (hides_notes && counts[2] > 0) out += " (--notes shows them)";
  int64_t ignored = 0;
  // The codes of the lints that were skipped, keyed by the missing input.
  std::map<std::string, std::set<std::string>> skipped;
  std::set<std::string> all_skipped;
  for (const CheckedTarget& target : targets) {
    ignored += target.result.ignored;
    for (const SkippedLint& lint : target.result.skipped) {
      const std::string id = lint.lint->code.Id();
      skipped[lint.missing].insert(id);
      all_skipped.insert(id);
    }
  }
  if (ignored > 0) out += ", " + CountText(ignored) + " ignored by comments";
  if (known > 0) out += ", " + CountText(known) + " in the baseline";
  out += "\n";
  if (skipped.empty()) return out;
  std::string inputs;
  for (const auto& [missing, codes] : skipped) {
    const bool last = missing == skipped.rbegin()->first;
    inputs += (inputs.empty() ? "" : last ? " or " : ", ") + missing;
  }
  out += "skipped " +
         Counted(static_cast<int64_t>(all_skipped.size()), "lint") +
         " without " + inputs;
  if (hides_notes) return out + " (--notes lists them)\n";
  out += ":\n";
  for (const auto& [missing, codes] : skipped) {
    out += "  without " + missing + ":";
    for (const std::string& id : codes) out += " " + id;
    out += "\n";
  }
  return out;
}

}  // namespace shardc::cli
