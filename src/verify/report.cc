// Runs the cases of a report in parallel, or one after the other if several
// ranks (processes) hold the devices. A case that needs much memory runs alone,
// with its devices in parallel. For example, the keys and values of 8 rows,
// 4096 tokens and 8 heads of 128 are 2^26 numbers. The limit is 2^24, so such a
// case runs alone. Variants and stress cases run after the cases from which
// they are derived.
#include "verify/report.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

#include "source/list.h"
#include "source/process.h"
#include "source/size.h"
#include "source/wording.h"
#include "verify/cases/matrix.h"
#include "verify/judge/explain.h"
#include "verify/traces/cache_trace.h"

namespace shardc::verify {
namespace {

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
  // Error and tolerance are those of the step with the largest ratio of error
  // to tolerance.
  out.error = trace.error;
  out.unsharded = trace.unsharded;
  out.tolerance = trace.tolerance;
  out.cap = out.tolerance;
  out.device_error = trace.device_error;
  out.ledger = trace.ledger;
  out.remarks = trace.remarks;
  return out;
}

}  // namespace

int64_t Report::Count(Status status) const {
  return std::count_if(results.begin(), results.end(),
                       [&](const CaseResult& r) { return r.status == status; });
}

bool Report::NothingRan() const {
  return Count(Status::kUnsupported) == static_cast<int64_t>(results.size());
}

namespace {

// A case with more elements of keys and values than this number runs alone,
// because several such cases could fill the memory.
constexpr int64_t kHeavy = int64_t{1} << 24;

bool IsHeavy(const Case& test) {
  const Sizes& n = test.sizes;
  return n.batch * n.key_length * n.key_heads * (n.head_dim + n.ValueDim()) >
         kHeavy;
}

class Runner {
 public:
  Runner(const Matrix& matrix, const Progress& progress, const Keep& keep,
         exec::Transport* transport, Report& out)
      : matrix_(matrix),
        progress_(progress),
        keep_(keep),
        transport_(transport),
        out_(out) {}

  // Runs cases [begin, all). Light cases run in parallel. Heavy cases, which
  // need much memory, run one at a time with their devices in parallel.
  void From(size_t begin, int threads) {
    out_.results.resize(out_.cases.size());
    std::vector<size_t> light, heavy;
    for (size_t i = begin; i < out_.cases.size(); ++i) {
      (IsHeavy(out_.cases[i]) ? heavy : light).push_back(i);
    }
    done_ = begin;
    const auto tasks = static_cast<int64_t>(light.size());
    // Ranks communicate in each case, so all ranks must run the same case.
    if (transport_ != nullptr) {
      for (const size_t i : light) Run(i, 1);
    } else {
      ParallelFor(tasks, threads,
                  [&](int64_t task) { Run(light[AsIndex(task)], 1); });
    }
    for (const size_t i : heavy) Run(i, threads);
  }

 private:
  static const Trace& TraceOf(const std::vector<Trace>& traces, size_t i) {
    static const Trace kNone;
    return i < traces.size() ? traces[i] : kNone;
  }

  // If the operation cannot run at the sizes that the user gave, returns the
  // result that reports this. Otherwise returns nullopt.
  std::optional<CaseResult> Refused(size_t i) const {
    const Case& test = out_.cases[i];
    if (!test.given) return std::nullopt;
    if (!test.trace) return RefusalAt(*test.given);
    const auto* decoding =
        std::get_if<CacheTrace>(&TraceOf(matrix_.given_traces, i));
    if (decoding == nullptr) return std::nullopt;
    const auto why = TraceRefusal(*decoding);
    if (!why) return std::nullopt;
    CaseResult out;
    out.status = Status::kUnsupported;
    out.failed = Check::kUnsupported;
    out.reason = why->message;
    out.axis = why->axis;
    out.help = why->help;
    return out;
  }

  std::optional<exec::SentBytes> GivenSent(size_t i) const {
    const Case& test = out_.cases[i];
    if (!test.given) return std::nullopt;
    if (!test.trace) return SentAt(*test.given);
    const auto* decoding =
        std::get_if<CacheTrace>(&TraceOf(matrix_.given_traces, i));
    if (decoding == nullptr)
      return exec::SentBytes{};  // a trace on pages sends nothing
    return TraceBytes(*decoding);
  }

  CaseResult Ran(size_t i, const RunOptions& options, CaseTensors& tensors) {
    if (auto refused = Refused(i)) return std::move(*refused);
    CaseResult out;
    const Trace& trace = TraceOf(matrix_.traces, i);
    if (const auto* decoding = std::get_if<CacheTrace>(&trace)) {
      out = ResultOf(RunCacheTrace(*decoding, options));
    } else if (const auto* pages = std::get_if<PagedTrace>(&trace)) {
      out = ResultOf(RunPagedTrace(*pages, options));
      out.exact = out.status == Status::kPass;
    } else {
      out = RunCase(out_.cases[i], options, keep_ ? &tensors : nullptr);
    }
    if (out.status != Status::kUnsupported) out.given_sent = GivenSent(i);
    if (out.status == Status::kFail && out_.cases[i].given) {
      out.reason += ", at the reduced sizes";
    }
    return out;
  }

  void Run(size_t i, int threads) {
    RunOptions options;
    options.threads = threads;
    options.transport = transport_;
    // Only a case that runs alone reports its stages.
    if (progress_ && IsHeavy(out_.cases[i])) {
      options.stage = [&](const std::string& what) {
        progress_(done_, out_.cases.size(),
                  std::string(out_.cases[i].operation->name) + ": " + what);
      };
    }
    CaseTensors tensors;
    if (keep_ && transport_ == nullptr) options.record = &tensors.trace;
    out_.results[i] = Ran(i, options, tensors);
    CaseResult& result = out_.results[i];
    result.remarks.insert(result.remarks.end(), out_.cases[i].remarks.begin(),
                          out_.cases[i].remarks.end());
    const std::lock_guard<std::mutex> guard(lock_);
    if (keep_) keep_(i, out_.cases[i], out_.results[i], tensors);
    ++done_;
    if (progress_) progress_(done_, out_.cases.size(), "");
  }

  const Matrix& matrix_;
  const Progress& progress_;
  const Keep& keep_;
  exec::Transport* transport_;
  Report& out_;
  size_t done_ = 0;
  std::mutex lock_;
};

// Adds a remark if long cases in bfloat16 were added although the request has
// only other dtypes.
void RemarkOnDtype(const Request& request,
                   const std::vector<Case>& stress_cases, Report& out) {
  const auto& dtypes = request.dtypes;
  const auto added = std::count_if(
      stress_cases.begin(), stress_cases.end(),
      [&](const Case& test) { return !IsAmong(test.dtype, dtypes); });
  if (added == 0) return;
  out.remarks.push_back(
      "added " + Counted(added, "case") +
      " of about 512 keys in bfloat16, one for each operation: short sums do "
      "not show an accumulator of too few bits");
}

// Adds remarks on cases that run at reduced sizes in spite of --full.
void RemarkOnSizes(bool stress_cases, Report& out) {
  if (stress_cases) {
    out.remarks.emplace_back(
        "the long cases and those of large logits that are added to the full "
        "ones have reduced sizes");
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
                 const Progress& progress, const Keep& keep,
                 exec::Transport* transport) {
  Report out;
  out.seed = request.seed;
  out.given = matrix.given;
  out.used = matrix.used;
  out.reduced = matrix.reduced;
  out.remarks = request.remarks;
  if (matrix.used_mesh.devices < matrix.given_mesh.devices) {
    out.remarks.push_back("reduced mesh: " + MeshText(matrix.used_mesh) +
                          " for " + MeshText(matrix.given_mesh) +
                          " (--full runs it)");
  }
  out.cases = std::move(matrix.cases);
  Runner runner(matrix, progress, keep, transport, out);
  runner.From(0, threads);
  const size_t begin = out.cases.size();
  std::vector<Case> stress_cases =
      StressCases(request, matrix.least, out.cases, out.results);
  RemarkOnDtype(request, stress_cases, out);
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
  if (out.NothingRan()) {
    out.remarks.emplace_back("nothing could run, so nothing is verified");
  }
  return out;
}

}  // namespace shardc::verify
