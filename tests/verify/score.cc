#include "verify/score.h"

#include <algorithm>
#include <vector>

#include "source/wording.h"

namespace shardc::verify {
namespace {

// Appends rows of cells, each column as wide as its widest cell.
void AppendRows(const std::vector<std::vector<std::string>>& rows,
                std::string& out) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      out += row[i];
      if (i + 1 < row.size()) out.append(widths[i] - row[i].size() + 2, ' ');
    }
    out += '\n';
  }
}

}  // namespace

std::string SelfTestText(const SelfTest& result) {
  std::vector<std::vector<std::string>> rows;
  for (const FaultVerdict& f : result.faults) {
    rows.push_back({f.name, !f.sound      ? "fails without the fault"
                            : !f.injected ? "not injected"
                            : f.caught    ? "detected by " + f.by
                                          : "MISSED"});
  }
  std::string out;
  AppendRows(rows, out);
  return out + '\n' + Counted(result.Injected(), "fault") + " injected, " +
         std::to_string(result.Caught()) + " detected\n";
}

std::string SharpnessText(const Sharpness& result) {
  std::string out;
  for (const std::string& what : result.unsound) out += what + '\n';
  for (const std::string& what : result.taken) {
    out += "WRONG OUTPUT ACCEPTED: " + what + '\n';
  }
  const auto taken = static_cast<int64_t>(result.taken.size());
  return out + Counted(result.offered, "wrong output") + " compared in " +
         Counted(result.cases, "case") +
         " (zeros, shifted by one position, one key missing, one element "
         "wrong), " +
         (taken == 0 ? "all" : CountText(result.offered - taken)) +
         " rejected\n";
}

std::string KnownAnswersText(const KnownAnswers& result) {
  std::string out;
  for (const std::string& name : result.wrong) {
    out += "WRONG ANSWER: " + name + '\n';
  }
  const auto wrong = static_cast<int64_t>(result.wrong.size());
  return out + Counted(result.asked, "known answer") + " computed, " +
         (wrong == 0 ? "all" : CountText(result.asked - wrong)) + " correct\n";
}

std::string StepSelfTestText(const StepSelfTest& result) {
  std::vector<std::vector<std::string>> rows;
  for (const StepFaultVerdict& fault : result.faults) {
    std::string verdict = "MISSED";
    if (!fault.injected) {
      verdict = "not injected";
    } else if (fault.caught) {
      verdict = "detected by " + std::string(fault.by);
      if (!fault.at.empty()) verdict += " at " + fault.at;
    }
    rows.push_back({std::string(fault.name), std::move(verdict),
                    std::string(fault.breaks)});
  }
  std::string out;
  AppendRows(rows, out);
  out += "\n";
  for (std::string_view name : result.unsound) {
    out += "fails without a fault: " + std::string(name) + "\n";
  }
  return out + Counted(result.Injected(), "fault") + " injected, " +
         std::to_string(result.Caught()) + " detected; " +
         Counted(result.sound, "sound step") + " " +
         (result.sound == 1 ? "passes" : "pass") + "\n";
}

}  // namespace shardc::verify
