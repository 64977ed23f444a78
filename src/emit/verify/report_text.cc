// Prints the results of `shardc verify` as a table with one row per case.
// Columns are as wide as their widest cell. The column of features, such as
// `bias` or `dropout`, is printed only if a case has features. The reasons of
// failures follow the table. Failures of the same operation and mode with the
// same help text share one reason. It has the message of the first of these
// failures and the number of the others. For example, four cases share this
// reason:
//
//   fail: vanilla decode: ...
//       help: set kv_head to ...
//       and 3 more cases with the same remedy
#include "emit/verify/verify_json.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "comm/collective.h"
#include "emit/emit.h"
#include "source/list.h"
#include "source/wording.h"
#include "verify/cases/case.h"
#include "verify/judge/explain.h"

namespace shardc {
namespace {

using verify::Case;
using verify::CaseResult;
using verify::FeatureNames;
using verify::Report;
using verify::Sizes;
using verify::Status;

// Returns `all_gather 1.5 KiB`: for each kind of collective, the bytes of the
// device that sends most. Returns "-" if no bytes are sent.
std::string TrafficText(const exec::SentBytes& sent) {
  std::string out;
  for (size_t kind = 0; kind < kCollectiveCount; ++kind) {
    const auto collective = static_cast<Collective>(kind);
    const int64_t bytes = sent.Most(collective);
    if (bytes == 0) continue;
    AppendItem(
        out, ", ",
        std::string(CollectiveName(collective)) + " " + BytesText(bytes));
  }
  return out.empty() ? "-" : out;
}

// Returns the dtype of a case, `BF16`. If the cache has another dtype, it is
// added: `BF16/I8`.
std::string DtypesText(const Case& test) {
  std::string out(DtypeName(test.dtype));
  if (test.kv_dtype && *test.kv_dtype != test.dtype) {
    out += '/';
    out += DtypeName(*test.kv_dtype);
  }
  return out;
}

using Row = std::vector<std::string>;

std::string FeaturesText(const Case& test) {
  std::string out;
  for (const std::string_view name : FeatureNames(test)) {
    AppendItem(out, ",", name);
  }
  return out.empty() ? "-" : out;
}

Row RowOf(const Case& test, const CaseResult& result) {
  const bool ran = result.status != Status::kUnsupported;
  const bool compared = ran && !result.device_error.empty();
  return {std::string(test.operation->name),
          std::string(ModeName(test.mode)),
          std::string(!test.trace         ? LayoutName(test.layout)
                      : test.trace->pages ? "pages"
                                          : "cache"),
          DtypesText(test),
          FeaturesText(test),
          std::string(StatusName(result.status)),
          compared ? verify::ErrorText(result.error.max_abs) : "-",
          compared ? verify::ErrorText(std::min(result.tolerance, result.cap))
                   : "-",
          ran ? TrafficText(result.ledger.Sent()) : "-",
          ran && result.given_sent ? TrafficText(*result.given_sent) : "-"};
}

std::string SizesText(const Sizes& n) {
  return "batch=" + std::to_string(n.batch) +
         " q_len=" + std::to_string(n.query_length) +
         " kv_len=" + std::to_string(n.key_length) +
         " heads=" + std::to_string(n.heads) +
         " kv_heads=" + std::to_string(n.key_heads) +
         " head_dim=" + std::to_string(n.head_dim);
}

// Appends each reason once. Failures of one operation and mode with the same
// remedy share the message of the first failure.
void AppendReasons(const Report& report, Status status, std::string& out) {
  struct Reason {
    std::string text;
    int64_t times = 0;
  };
  std::vector<std::string> order;
  std::map<std::string, Reason> reasons;
  for (size_t i = 0; i < report.cases.size(); ++i) {
    const CaseResult& r = report.results[i];
    if (r.status != status) continue;
    std::string head(report.cases[i].operation->name);
    head += ' ';
    head += ModeName(report.cases[i].mode);
    std::string tail;
    if (!r.axis.empty()) tail += " (axis `" + r.axis + "`)";
    if (!r.help.empty()) tail += "\n    help: " + r.help;
    const std::string text = head + ": " + r.reason + tail;
    const bool alike = status == Status::kFail && !r.help.empty();
    const std::string key = alike ? head + tail : text;
    Reason& reason = reasons[key];
    if (reason.times++ > 0) continue;
    reason.text = text;
    order.push_back(key);
  }
  if (order.empty()) return;
  out += '\n';
  for (const std::string& key : order) {
    const Reason& reason = reasons[key];
    out += std::string(StatusName(status)) + ": " + reason.text + '\n';
    if (status == Status::kFail && reason.times > 1) {
      out += "    and " + Counted(reason.times - 1, "more case") +
             " with the same remedy\n";
    }
  }
}

// Appends `projections: 3 of 4 shard heads as the axis rules do`, and a line
// for each projection that shards its heads differently from the axis rules.
void AppendProjections(const Report& report, std::string& out) {
  int64_t compared = 0, agree = 0;
  std::string failed;
  for (const verify::Projection& one : report.projections) {
    if (one.status == Status::kUnsupported) continue;
    ++compared;
    if (one.status == Status::kPass) {
      ++agree;
      continue;
    }
    failed += "fail: `" + one.parameter + "`";
    if (one.count > 1) failed += " (" + Counted(one.count, "parameter") + ")";
    if (!one.place.empty()) failed += ", " + one.place;
    failed +=
        ", in " + ListInWords(one.modes, ModeName) + ": " + one.reason + '\n';
    if (!one.help.empty()) failed += "    help: " + one.help + '\n';
  }
  if (compared == 0) return;
  out += "\nprojections: " + std::to_string(agree) + " of " +
         std::to_string(compared) + " shard heads as the axis rules do\n" +
         failed;
}

// Returns the remarks of the run and of its cases, without repetitions.
std::vector<std::string> Remarks(const Report& report) {
  std::vector<std::string> out = report.remarks;
  const auto add = [&](const Case& test, const std::string& remark) {
    std::string text = std::string(test.operation->name) + ": " + remark;
    AddOnce(out, std::move(text));
  };
  for (size_t i = 0; i < report.cases.size(); ++i) {
    const Case& test = report.cases[i];
    for (const std::string& remark : report.results[i].remarks) {
      add(test, remark);
    }
  }
  return out;
}

}  // namespace

std::string ReportText(const Report& report) {
  std::vector<Row> rows = {{"operation", "mode", "layout", "dtype", "features",
                            "status", "error", "tolerance", "sent per device",
                            "full size"}};
  for (size_t i = 0; i < report.cases.size(); ++i) {
    rows.push_back(RowOf(report.cases[i], report.results[i]));
  }
  // Remove the column of features if no case has features.
  const bool plain =
      std::all_of(report.cases.begin(), report.cases.end(),
                  [](const Case& test) { return FeatureNames(test).empty(); });
  if (plain) {
    for (Row& row : rows) row.erase(row.begin() + 4);
  }
  // If the cases ran with smaller inputs than the given ones, the last column
  // has the bytes that would be sent at the given sizes. A formula computes
  // these bytes. Otherwise the column is removed.
  if (!report.reduced) {
    for (Row& row : rows) row.pop_back();
  }
  Columns table;
  for (Row& row : rows) table.Row(std::move(row));
  std::string out = table.Text();
  AppendReasons(report, Status::kFail, out);
  AppendReasons(report, Status::kUnsupported, out);
  AppendProjections(report, out);
  out += '\n';
  for (const std::string& remark : Remarks(report)) {
    out += "note: " + remark + '\n';
  }
  if (report.reduced) {
    out += "reduced sizes: " + SizesText(report.used) + " for " +
           SizesText(report.given) + " (--full runs these)\n";
  } else {
    out += "sizes: " + SizesText(report.used) + '\n';
  }
  out += std::to_string(report.Count(Status::kPass)) + " pass, " +
         std::to_string(report.Count(Status::kFail)) + " fail, " +
         std::to_string(report.Count(Status::kUnsupported)) +
         " unsupported, seed " + std::to_string(report.seed) + '\n';
  return out;
}

}  // namespace shardc
