// Checks that a matrix contains certain cases: rows of different lengths, the
// model's window, insertions.
#include "verify/cases/matrix.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "verify/cases/grid.h"
#include "verify/cases/problem_data.h"
#include "verify/cases/random_cases.h"
#include "verify/report.h"

namespace shardc::verify {
namespace {

Request RequestOf(std::vector<Mode> modes, Layout layout = Layout::kBthd) {
  Request request;
  request.sizes = {8, 64, 64, 8, 4, 32, 0};
  request.operations.assign(exec::Operations().begin(),
                            exec::Operations().end());
  request.modes = std::move(modes);
  request.layouts = {layout};
  request.dtypes = {Dtype::kF32};
  return request;
}

Matrix MatrixOf(const Request& request) {
  const Mesh mesh = MeshOf({{"dp", 2}, {"sp", 2}, {"tp", 2}});
  Findings findings;
  const auto resolver = Resolver::Make(RuleSet{}, mesh, findings);
  REQUIRE(resolver);
  return BuildMatrix(request, *resolver, mesh);
}

const CacheTrace* CacheOf(const Matrix& matrix, size_t i) {
  return i < matrix.traces.size() ? std::get_if<CacheTrace>(&matrix.traces[i])
                                  : nullptr;
}

TEST_CASE("only traces of the insert mode insert") {
  for (const Mode mode : {Mode::kInsert, Mode::kDecode}) {
    const Matrix matrix = MatrixOf(RequestOf({mode}));
    int64_t traces = 0;
    for (size_t i = 0; i < matrix.cases.size(); ++i) {
      const CacheTrace* trace = CacheOf(matrix, i);
      if (trace == nullptr) continue;
      ++traces;
      CHECK(trace->insert == (mode == Mode::kInsert));
      CHECK(trace->prefill / 2 > 0);
      CHECK(trace->steps >= 2);
    }
    CHECK(traces > 0);
  }
}

TEST_CASE("rows have different lengths wherever possible") {
  const Request request = RequestOf({Mode::kDecode, Mode::kInsert});
  const Matrix matrix = MatrixOf(request);
  for (size_t i = 0; i < matrix.cases.size(); ++i) {
    const Case& test = matrix.cases[i];
    CAPTURE(CaseText(test));
    if (const CacheTrace* trace = CacheOf(matrix, i)) {
      CHECK(trace->ragged);
      continue;
    }
    if (test.trace) continue;
    const exec::AttentionProblem problem = MakeProblem(test);
    REQUIRE(problem.key_lengths);
    const auto& lengths = problem.key_lengths->integers;
    CHECK(std::set<int32_t>(lengths.begin(), lengths.end()).size() > 1);
    CHECK(lengths[0] == test.sizes.key_length);
  }
  for (const Case& test :
       MatrixOf(RequestOf({Mode::kTrain}, Layout::kThd)).cases) {
    CAPTURE(CaseText(test));
    const exec::AttentionProblem problem = MakeProblem(test);
    REQUIRE(problem.key_segments);
    std::map<int32_t, int64_t> tokens;
    for (int32_t id : problem.key_segments->integers) ++tokens[id];
    std::set<int64_t> counts;
    for (const auto& [id, count] : tokens) {
      if (id >= 0) counts.insert(count);
    }
    CHECK(counts.size() > 1);
    CHECK(tokens[-1] > 0);
  }
}

TEST_CASE("a model's window is in every case, and caches roll") {
  Request request = RequestOf({Mode::kTrain, Mode::kDecode});
  for (const bool full : {false, true}) {
    request.full = full;
    request.window = 24;
    const Matrix matrix = MatrixOf(request);
    int64_t rolling = 0;
    for (size_t i = 0; i < matrix.cases.size(); ++i) {
      const Case& test = matrix.cases[i];
      CAPTURE(CaseText(test));
      if (const CacheTrace* trace = CacheOf(matrix, i)) {
        rolling += trace->window > 0;
        if (trace->window > 0) {
          CHECK(trace->window < trace->prefill);
          CHECK(trace->slots < trace->prefill + trace->steps);
          if (full) CHECK(trace->window == 24);
        }
        continue;
      }
      if (test.trace) continue;
      REQUIRE(test.features.window);
      CHECK(*test.features.window < test.sizes.key_length);
      if (full) CHECK(*test.features.window == 24);
      const exec::AttentionProblem problem = MakeProblem(test);
      REQUIRE(problem.options.window);
      // A window of W keys ends with the query's own position.
      CHECK(problem.options.window->left == *test.features.window - 1);
      CHECK(problem.options.window->right == 0);
    }
    CHECK(rolling == 1);
  }
  // Without a causal mask, the window is on both sides of the query's own key.
  request.window = 24;
  request.causal = false;
  const Matrix both = MatrixOf(request);
  for (size_t i = 0; i < both.cases.size(); ++i) {
    const Case& test = both.cases[i];
    CAPTURE(CaseText(test));
    if (const CacheTrace* trace = CacheOf(both, i)) CHECK(trace->window == 0);
    if (test.trace) continue;
    CHECK(test.features.causal ==
          (test.mode == Mode::kDecode || test.operation->IsPaged()));
    const exec::AttentionProblem problem = MakeProblem(test);
    REQUIRE(problem.options.window);
    CHECK(problem.options.window->right == problem.options.window->left);
    CHECK(problem.options.window->left == 23);
  }
  request.causal = true;
  request.window = 64;
  for (const Case& test : MatrixOf(request).cases) {
    CHECK_FALSE(test.features.window);
  }
}

}  // namespace
}  // namespace shardc::verify
