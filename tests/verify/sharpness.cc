// Tests that tolerances are tight: each case that passes is checked again with
// wrong outputs, which must be rejected. For example, for the case `sdpa train
// bthd BF16` with a matmul in 4 bits, an output of zeros and an output with
// shifted tokens must be rejected.
//
// The cases have small sizes and a mesh that shards batch, length and heads.
// The first run has all operations and features, and no narrow rounding. Each
// kind of narrow rounding (a matmul in 8 or 4 bits, a softmax in 16 bits, an
// int8 cache) then gets a run of its own. That run has only the operations that
// support the rounding, and no features.
#include "verify/sharpness.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dense/attention.h"
#include "dense/narrow.h"
#include "model/rules.h"
#include "resolve/resolve.h"
#include "source/process.h"
#include "source/size.h"
#include "verify/cases/matrix.h"
#include "verify/cases/problem_data.h"
#include "verify/judge/placed.h"
#include "verify/traces/cache_trace.h"

namespace shardc::verify {
namespace {

// The settings of one run over the cases: which numbers are rounded to few
// bits, and whether the cases have features such as a sliding window.
struct Rounding {
  std::string_view name;
  int64_t dot_bits = 0;
  Dtype softmax = Dtype::kF32;
  std::optional<Dtype> kv_dtype = {};
  bool features = false;
};
constexpr Rounding kRoundings[] = {
    {.name = "", .features = true},
    {.name = ", 8 bits", .dot_bits = 8},
    {.name = ", 4 bits", .dot_bits = 4},
    {.name = ", softmax BF16", .softmax = Dtype::kBF16},
    {.name = ", softmax F16", .softmax = Dtype::kF16},
    {.name = ", 4 bits, softmax BF16", .dot_bits = 4, .softmax = Dtype::kBF16},
    {.name = ", int8 cache", .kv_dtype = Dtype::kI8},
};

bool Takes(const exec::Operation& operation, const Rounding& rounding) {
  if (rounding.dot_bits > 0 && !operation.Takes(Setting::kDotBits)) {
    return false;
  }
  if (rounding.softmax != Dtype::kF32 && !operation.narrow_softmax) {
    return false;
  }
  return !rounding.kv_dtype || operation.trace != exec::StateTrace::kNone;
}

Mesh MeshOfThree() {
  Mesh mesh;
  for (const char* name : {"dp", "sp", "tp"}) {
    mesh.axes.push_back({name, 2, AxisType::kAuto});
    mesh.devices *= 2;
  }
  return mesh;
}

Request RequestOf(const Rounding& rounding) {
  Request request;
  request.sizes = {4, 32, 32, 8, 4, 16, 0};
  for (const exec::Operation* operation : exec::Operations()) {
    if (!Takes(*operation, rounding)) continue;
    request.operations.push_back(operation);
    SettingsRecord record;
    if (rounding.dot_bits > 0) record.dot_bits = rounding.dot_bits;
    if (rounding.softmax != Dtype::kF32) {
      record.softmax_dtype = rounding.softmax;
    }
    request.records.emplace_back(operation->name, std::move(record));
  }
  request.modes.assign(kAllModes.begin(), kAllModes.end());
  request.layouts.assign(kAllLayouts.begin(), kAllLayouts.end());
  request.dtypes = {Dtype::kF32, Dtype::kBF16, Dtype::kF16};
  request.kv_dtype = rounding.kv_dtype;
  if (rounding.features) {
    const auto all = AllFeatures();
    request.more.assign(all.begin(), all.end());
  }
  return request;
}

std::string NameOf(const Case& test, const Rounding& rounding) {
  std::string out(test.operation->name);
  out += ' ';
  out += ModeName(test.mode);
  out += ' ';
  out += test.trace ? "cache" : LayoutName(test.layout);
  out += ' ';
  out += DtypeName(test.dtype);
  out += rounding.name;
  for (const std::string_view feature : FeatureNames(test)) {
    out += ", ";
    out += feature;
  }
  return out;
}

// The result of one case, and the wrong outputs that passed its check.
struct CaseOutcome {
  CaseResult result;
  WrongOutputs wrong;
};

CaseOutcome OfferTo(const Case& test, const Trace& trace) {
  CaseOutcome out;
  RunOptions options;
  options.passed = [&out](const PassedOutput& passed) {
    OfferWrong(passed, out.wrong);
  };
  if (const auto* decoding = std::get_if<CacheTrace>(&trace)) {
    const CacheTraceResult ran = RunCacheTrace(*decoding, options);
    out.result.status = ran.status;
    out.result.reason = ran.reason;
  } else {
    out.result = RunCase(test, options);
  }
  return out;
}

// Runs cases in parallel and adds their results to `out`, in the order of the
// cases.
class CaseRunner {
 public:
  CaseRunner(const Rounding& rounding, int threads, Sharpness& out)
      : rounding_(rounding), threads_(threads), out_(out) {}

  // Runs the cases. Traces of pages are compared in bits, so they have no
  // tolerance to test and are skipped.
  std::vector<CaseResult> Run(const std::vector<Case>& cases,
                              const std::vector<Trace>& traces) {
    std::vector<CaseOutcome> outcomes(cases.size());
    const Trace none;
    ParallelFor(static_cast<int64_t>(cases.size()), threads_, [&](int64_t i) {
      const auto at = AsIndex(i);
      const Trace& trace = at < traces.size() ? traces[at] : none;
      if (!std::holds_alternative<PagedTrace>(trace)) {
        outcomes[at] = OfferTo(cases[at], trace);
      }
    });
    std::vector<CaseResult> results;
    for (size_t i = 0; i < cases.size(); ++i) {
      Count(cases[i], outcomes[i]);
      results.push_back(std::move(outcomes[i].result));
    }
    return results;
  }

 private:
  void Count(const Case& test, const CaseOutcome& outcome) {
    if (outcome.result.status == Status::kUnsupported) return;
    const std::string name = NameOf(test, rounding_);
    if (outcome.result.status == Status::kFail) {
      out_.unsound.push_back(name + ": " + outcome.result.reason);
      return;
    }
    out_.cases += outcome.wrong.offered > 0 ? 1 : 0;
    out_.offered += outcome.wrong.offered;
    for (const std::string& what : outcome.wrong.taken) {
      out_.taken.push_back(name + ": " + what);
    }
  }

  const Rounding& rounding_;
  int threads_;
  Sharpness& out_;
};

}  // namespace

void OfferWrong(const PassedOutput& passed, WrongOutputs& wrong) {
  const auto offer = [&](std::string name, const dense::Array& output) {
    Offer(std::move(name), output, passed.reference, passed.limits, wrong);
  };
  OfferShifted(passed.reference, passed.limits, wrong);
  OfferPlaced(passed.test, passed.reference, passed.limits, wrong);
  if (passed.lacking != nullptr) {
    return offer("without the last key", *passed.lacking);
  }
  const exec::AttentionProblem& problem = *passed.problem;
  const dense::Inputs inputs = InputsOf(passed.test, problem);
  dense::Options options = OptionsOf(problem.options);
  options.scale = options.ScaleOf(problem.query.shape.back());
  const dense::Narrow narrow = NarrowOf(passed.test);
  for (const bool last : {false, true}) {
    const auto in = OneKeyShort(inputs, options, last);
    if (!in) continue;
    const std::string name =
        last ? "without the last key" : "without the first key";
    std::string why;
    if (narrow.IsNarrow()) {
      const auto result = dense::NarrowAttention(*in, options, narrow, why);
      if (result) offer(name, result->output);
    } else {
      const auto result = dense::Attention(*in, options, why);
      if (result) offer(name, result->output);
    }
  }
}

Sharpness OfferWrongOutputs(int threads) {
  Sharpness out;
  const Mesh mesh = MeshOfThree();
  Findings findings;
  const auto resolver = Resolver::Make(RuleSet{}, mesh, findings);
  if (!resolver) return out;
  for (const Rounding& rounding : kRoundings) {
    const Request request = RequestOf(rounding);
    const Matrix matrix = BuildMatrix(request, *resolver, mesh);
    CaseRunner runner(rounding, threads, out);
    const auto results = runner.Run(matrix.cases, matrix.traces);
    std::vector<Case> more =
        StressCases(request, matrix.least, matrix.cases, results);
    for (const Matrix::Variant& variant : matrix.variants) {
      if (results[variant.of].status == Status::kPass) {
        more.push_back(variant.test);
      }
    }
    runner.Run(more, {});
  }
  return out;
}

}  // namespace shardc::verify
