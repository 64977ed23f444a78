// Cases are run side by side, but those whose copies would fill a memory one
// at a time, their devices side by side. What ran decides which variants and
// stress cases follow:
//
//   keys and values of 8 rows, 4096 tokens, 8 heads of 128: 2^26 numbers,
//   more than 2^24, so alone and on all threads
#include "verify/report.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "comm/collective.h"
#include "exec/machine/thread_pool.h"
#include "source/wording.h"
#include "verify/cases/features.h"
#include "verify/cases/stress_cases.h"
#include "verify/judge/explain.h"
#include "verify/traces/cache_trace.h"
#include "verify/traces/paged_trace.h"

namespace shardc::verify {
namespace {

std::string_view LayoutText(exec::Layout layout) {
  static constexpr std::array<std::string_view, 3> kNames = {"bthd", "bhtd",
                                                             "thd"};
  return kNames[static_cast<size_t>(layout)];
}

// `all_gather 1.5 KiB`, by the device that sends most; "-" for none.
std::string TrafficText(const exec::Ledger& ledger) {
  std::string out;
  for (size_t kind = 0; kind < kCollectiveCount; ++kind) {
    const auto collective = static_cast<Collective>(kind);
    const int64_t bytes = ledger.MostSent(collective);
    if (bytes == 0) continue;
    if (!out.empty()) out += ", ";
    out += std::string(CollectiveName(collective)) + " " + BytesText(bytes);
  }
  return out.empty() ? "-" : out;
}

// `BF16`, or `BF16/I8` with the cache's.
std::string DtypesText(const Case& test) {
  std::string out(DtypeName(test.dtype));
  if (test.kv_dtype && *test.kv_dtype != test.dtype) {
    out += '/';
    out += DtypeName(*test.kv_dtype);
  }
  return out;
}

CaseResult ResultOf(const CacheTraceResult& trace) {
  CaseResult out;
  out.status = trace.status;
  out.failed = trace.failed;
  out.reason = trace.reason;
  if (trace.step >= 0) {
    out.reason += ", at step " + std::to_string(trace.step);
  }
  out.help = trace.help;
  out.axis = trace.axis;
  // The step nearest to its tolerance.
  out.error = trace.error;
  out.unsharded = trace.unsharded;
  out.tolerance = trace.tolerance;
  out.cap = out.tolerance;
  out.device_error = trace.device_error;
  out.ledger = trace.ledger;
  out.remarks = trace.remarks;
  return out;
}

using Row = std::vector<std::string>;

std::string FeaturesText(const Case& test) {
  std::string out;
  for (const std::string_view name : FeatureNames(test)) {
    if (!out.empty()) out += ',';
    out += name;
  }
  return out.empty() ? "-" : out;
}

Row RowOf(const Case& test, const CaseResult& result) {
  const bool ran = result.status != Status::kUnsupported;
  const bool compared = ran && !result.device_error.empty();
  return {std::string(test.operation->name),
          std::string(ModeName(test.mode)),
          std::string(!test.trace         ? LayoutText(test.layout)
                      : test.trace->pages ? "pages"
                                          : "cache"),
          DtypesText(test),
          FeaturesText(test),
          std::string(StatusName(result.status)),
          compared ? ErrorText(result.error.max_abs) : "-",
          compared ? ErrorText(std::min(result.tolerance, result.cap)) : "-",
          ran ? TrafficText(result.ledger) : "-"};
}

std::string SizesText(const Sizes& n) {
  return "batch=" + std::to_string(n.batch) +
         " q_len=" + std::to_string(n.query_length) +
         " kv_len=" + std::to_string(n.key_length) +
         " heads=" + std::to_string(n.heads) +
         " kv_heads=" + std::to_string(n.key_heads) +
         " head_dim=" + std::to_string(n.head_dim);
}

// Reasons, each once. Failures of an operation and mode with the same remedy
// are one, which the first of them tells.
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
             " of it likewise\n";
    }
  }
}

// The run's own, those of cases and what was left unchecked, each once.
std::vector<std::string> Remarks(const Report& report) {
  std::vector<std::string> out = report.remarks;
  const auto add = [&](const Case& test, const std::string& remark) {
    std::string text = std::string(test.operation->name) + ": " + remark;
    if (std::find(out.begin(), out.end(), text) == out.end()) {
      out.push_back(std::move(text));
    }
  };
  for (size_t i = 0; i < report.cases.size(); ++i) {
    const Case& test = report.cases[i];
    for (const std::string& remark : test.remarks) add(test, remark);
    const std::string& unchecked = report.results[i].unchecked;
    if (!unchecked.empty()) add(test, unchecked);
  }
  return out;
}

}  // namespace

int64_t Report::Count(Status status) const {
  return std::count_if(results.begin(), results.end(),
                       [&](const CaseResult& r) { return r.status == status; });
}

Spread SpreadOf(const std::vector<double>& values) {
  Spread out;
  if (values.empty()) return out;
  out.least = out.greatest = values[0];
  for (double v : values) {
    if (!(v >= out.least)) out.least = v;  // a NaN is all three
    if (!(v <= out.greatest)) out.greatest = v;
    out.mean += v;
  }
  out.mean /= static_cast<double>(values.size());
  return out;
}

namespace {

// Keys and values of a case whose copies would fill a memory if several ran
// at a time.
constexpr int64_t kHeavy = int64_t{1} << 24;

bool IsHeavy(const Case& test) {
  const Sizes& n = test.sizes;
  return n.batch * n.key_length * n.key_heads * (n.head_dim + n.ValueDim()) >
         kHeavy;
}

// Runs cases of a report and tells of them.
class Runner {
 public:
  Runner(const Matrix& matrix, const Progress& progress, const Keep& keep,
         Report& out)
      : matrix_(matrix), progress_(progress), keep_(keep), out_(out) {}

  // Cases [begin, all): light ones side by side, heavy ones one at a time,
  // their devices side by side.
  void From(size_t begin, int threads) {
    out_.results.resize(out_.cases.size());
    std::vector<size_t> light, heavy;
    for (size_t i = begin; i < out_.cases.size(); ++i) {
      (IsHeavy(out_.cases[i]) ? heavy : light).push_back(i);
    }
    done_ = begin;
    const auto tasks = static_cast<int64_t>(light.size());
    exec::ThreadPool pool(static_cast<int>(
        std::clamp<int64_t>(threads, 1, std::max<int64_t>(1, tasks))));
    pool.Run(tasks, [&](int64_t task, int) {
      Run(light[static_cast<size_t>(task)], 1);
    });
    for (const size_t i : heavy) Run(i, threads);
  }

 private:
  void Run(size_t i, int threads) {
    RunOptions options;
    options.threads = threads;
    CaseTensors tensors;
    const Trace none,
        &trace = i < matrix_.traces.size() ? matrix_.traces[i] : none;
    if (const auto* decoding = std::get_if<CacheTrace>(&trace)) {
      out_.results[i] = ResultOf(RunCacheTrace(*decoding, options));
    } else if (const auto* pages = std::get_if<PagedTrace>(&trace)) {
      out_.results[i] = ResultOf(RunPagedTrace(*pages, options));
      out_.results[i].exact = out_.results[i].status == Status::kPass;
    } else {
      out_.results[i] =
          RunCase(out_.cases[i], options, keep_ ? &tensors : nullptr);
    }
    CaseResult& result = out_.results[i];
    result.remarks.insert(result.remarks.end(), out_.cases[i].remarks.begin(),
                          out_.cases[i].remarks.end());
    const std::lock_guard<std::mutex> guard(lock_);
    if (keep_) keep_(i, out_.cases[i], out_.results[i], tensors);
    if (progress_) progress_(++done_, out_.cases.size());
  }

  const Matrix& matrix_;
  const Progress& progress_;
  const Keep& keep_;
  Report& out_;
  size_t done_ = 0;
  std::mutex lock_;
};

// What is small with --full as well.
void RemarkOnSizes(bool stress_cases, Report& out) {
  if (stress_cases) {
    out.remarks.emplace_back(
        "the long cases and those of large logits beside the full ones have "
        "reduced sizes");
  }
  for (const Case& test : out.cases) {
    if (!test.trace || !test.trace->pages) continue;
    out.remarks.push_back("the traces of pages have " +
                          std::to_string(test.trace->slots) +
                          " tokens a request at most");
    return;
  }
}

}  // namespace

Report RunMatrix(const Request& request, Matrix matrix, int threads,
                 const Progress& progress, const Keep& keep) {
  Report out;
  out.seed = request.seed;
  out.given = matrix.given;
  out.used = matrix.used;
  out.reduced = matrix.reduced;
  out.remarks = request.remarks;
  out.cases = std::move(matrix.cases);
  Runner runner(matrix, progress, keep, out);
  runner.From(0, threads);
  const size_t begin = out.cases.size();
  std::vector<Case> stress_cases =
      StressCases(request, matrix.least, out.cases, out.results);
  if (request.full) {
    RemarkOnSizes(!stress_cases.empty() && !(matrix.least == matrix.used), out);
  }
  for (Matrix::Variant& variant : matrix.variants) {
    if (request.named ||
        out.results[variant.of].status != Status::kUnsupported) {
      out.cases.push_back(std::move(variant.test));
    }
  }
  std::move(stress_cases.begin(), stress_cases.end(),
            std::back_inserter(out.cases));
  runner.From(begin, threads);
  return out;
}

std::string ReportText(const Report& report) {
  std::vector<Row> rows = {{"operation", "mode", "layout", "dtype", "features",
                            "status", "error", "allowed", "sent per device"}};
  for (size_t i = 0; i < report.cases.size(); ++i) {
    rows.push_back(RowOf(report.cases[i], report.results[i]));
  }
  // The column of features only where one says something.
  const bool plain =
      std::all_of(report.cases.begin(), report.cases.end(),
                  [](const Case& test) { return FeatureNames(test).empty(); });
  if (plain) {
    for (Row& row : rows) row.erase(row.begin() + 4);
  }
  std::vector<size_t> width(rows[0].size(), 0);
  for (const Row& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      width[c] = std::max(width[c], row[c].size());
    }
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      line += row[c];
      if (c + 1 < row.size()) line.append(width[c] - row[c].size() + 2, ' ');
    }
    out += line + '\n';
  }
  AppendReasons(report, Status::kFail, out);
  AppendReasons(report, Status::kUnsupported, out);
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

}  // namespace shardc::verify
