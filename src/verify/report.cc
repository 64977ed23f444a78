#include "verify/report.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "source/wording.h"
#include "verify/explain.h"
#include "verify/lifetime.h"

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
  for (size_t kind = 0; kind < exec::kCollectiveCount; ++kind) {
    const auto collective = static_cast<exec::Collective>(kind);
    const int64_t bytes = ledger.MostSent(collective);
    if (bytes == 0) continue;
    if (!out.empty()) out += ", ";
    out +=
        std::string(exec::CollectiveName(collective)) + " " + BytesText(bytes);
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

CaseResult ResultOf(const LifetimeResult& life) {
  CaseResult out;
  out.status = life.status;
  out.failed = life.failed;
  out.reason = life.reason;
  if (life.step >= 0) {
    out.reason += ", at step " + std::to_string(life.step);
  }
  out.error.max_abs = life.max_error;
  // The step nearest to its tolerance.
  out.tolerance = life.worst_ratio > 0 ? life.max_error / life.worst_ratio : 0;
  out.cap = out.tolerance;
  out.ledger = life.ledger;
  return out;
}

using Row = std::array<std::string, 8>;

Row RowOf(const Case& test, const CaseResult& result) {
  const bool ran = result.status != Status::kUnsupported;
  return {std::string(test.operation->name),
          std::string(ModeName(test.mode)),
          std::string(test.life ? "cache" : LayoutText(test.layout)),
          DtypesText(test),
          std::string(StatusName(result.status)),
          ran ? ErrorText(result.error.max_abs) : "-",
          ran ? ErrorText(std::min(result.tolerance, result.cap)) : "-",
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

// Reasons, each once, with the cases that have it.
void AppendReasons(const Report& report, Status status, std::string& out) {
  std::vector<std::string> order;
  std::map<std::string, int64_t> times;
  for (size_t i = 0; i < report.cases.size(); ++i) {
    const CaseResult& r = report.results[i];
    if (r.status != status) continue;
    std::string text(report.cases[i].operation->name);
    text += ' ';
    text += ModeName(report.cases[i].mode);
    text += ": " + r.reason;
    if (!r.axis.empty()) text += " (axis `" + r.axis + "`)";
    if (!r.help.empty()) text += "\n    help: " + r.help;
    if (times[text]++ == 0) order.push_back(text);
  }
  if (order.empty()) return;
  out += '\n';
  for (const std::string& text : order) {
    out += std::string(StatusName(status)) + ": " + text + '\n';
  }
}

}  // namespace

int64_t Report::Count(Status status) const {
  return std::count_if(results.begin(), results.end(),
                       [&](const CaseResult& r) { return r.status == status; });
}

Spread SpreadOf(const std::vector<double>& values) {
  Spread out;
  if (values.empty()) return out;
  out.least = *std::min_element(values.begin(), values.end());
  out.greatest = *std::max_element(values.begin(), values.end());
  for (double v : values) out.mean += v;
  out.mean /= static_cast<double>(values.size());
  return out;
}

std::optional<Case> LongCase(const Request& request, const Matrix& matrix) {
  if (request.full) return std::nullopt;
  for (const Case& test : matrix.cases) {
    if (test.life) continue;
    if (RunCase(test).status == Status::kUnsupported) continue;
    Case out = test;
    out.dtype = Dtype::kBF16;
    // A multiple of the witness length, so that it divides as that does.
    const int64_t times =
        (512 + out.sizes.key_length - 1) / out.sizes.key_length;
    out.sizes.key_length *= times;
    if (out.layout == exec::Layout::kThd) out.features.ragged = false;
    out.settings.blocksize_k =
        std::min<int64_t>(request.settings.blocksize_k, 96);
    out.features.window.reset();
    out.features.ragged = false;
    out.features.causal = false;
    out.seed = test.seed + 1;
    return out;
  }
  return std::nullopt;
}

Report RunMatrix(const Request& request, Matrix matrix, int threads,
                 const Progress& progress, const Keep& keep) {
  Report out;
  out.seed = request.seed;
  out.given = matrix.given;
  out.used = matrix.used;
  out.witness = matrix.witness;
  if (auto longer = LongCase(request, matrix)) {
    matrix.cases.push_back(std::move(*longer));
  }
  matrix.lives.resize(matrix.cases.size());
  out.cases = std::move(matrix.cases);
  out.results.resize(out.cases.size());
  std::atomic<size_t> next{0};
  size_t done = 0;
  std::mutex lock;
  const auto work = [&] {
    while (true) {
      const size_t i = next.fetch_add(1);
      if (i >= out.cases.size()) return;
      CaseTensors tensors;
      out.results[i] =
          matrix.lives[i]
              ? ResultOf(RunLifetime(*matrix.lives[i], {}))
              : RunCase(out.cases[i], {}, keep ? &tensors : nullptr);
      const std::lock_guard<std::mutex> guard(lock);
      if (keep) keep(i, out.cases[i], out.results[i], tensors);
      if (progress) progress(++done, out.cases.size());
    }
  };
  const size_t workers = std::min<size_t>(
      static_cast<size_t>(std::max(threads, 1)), out.cases.size());
  std::vector<std::thread> pool;
  for (size_t i = 1; i < workers; ++i) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  return out;
}

std::string ReportText(const Report& report) {
  std::vector<Row> rows = {{"operation", "mode", "layout", "dtype", "status",
                            "error", "allowed", "sent per device"}};
  for (size_t i = 0; i < report.cases.size(); ++i) {
    rows.push_back(RowOf(report.cases[i], report.results[i]));
  }
  std::array<size_t, 8> width{};
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
  if (report.witness) {
    out += "witness sizes: " + SizesText(report.used) + " for " +
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
