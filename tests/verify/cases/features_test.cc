#include "verify/cases/case.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "resolve/resolve.h"
#include "verify/cases/grid.h"
#include "verify/cases/matrix.h"
#include "verify/cases/random_cases.h"
#include "verify/faults/injection.h"
#include "verify/report.h"

namespace shardc::verify {
namespace {

// Returns a request with sizes that every operation supports, the latent one
// too.
Request Everywhere(Mode mode) {
  Request request;
  request.sizes = {4, 16, 32, 8, 8, 64, 0};
  const auto all = exec::Operations();
  request.operations.assign(all.begin(), all.end());
  request.modes = {mode};
  request.layouts = {Layout::kBthd};
  request.dtypes = {Dtype::kF32};
  return request;
}

Matrix MatrixOf(const Request& request) {
  const Mesh mesh = MeshOf({{"dp", 2}, {"tp", 2}});
  Findings findings;
  const auto resolver = Resolver::Make(RuleSet{}, mesh, findings);
  REQUIRE(resolver);
  return BuildMatrix(request, *resolver, mesh);
}

TEST_CASE("features have distinct names") {
  std::set<std::string_view> names;
  for (const Feature feature : AllFeatures()) {
    CHECK(names.insert(FeatureName(feature)).second);
    CHECK(ParseFeature(FeatureName(feature)) == feature);
    Case test;
    test.sizes = {2, 8, 16, 4, 4, 16, 0};
    CHECK(FeatureNames(test).empty());
    SwitchOn(feature, test);
    CHECK(FeatureNames(test) ==
          std::vector<std::string_view>{FeatureName(feature)});
  }
  CHECK_FALSE(ParseFeature("biases"));
}

TEST_CASE(
    "an operation takes the features of its record, and refuses the rest") {
  for (const Mode mode : {Mode::kTrain, Mode::kDecode}) {
    Request request = Everywhere(mode);
    request.more.assign(AllFeatures().begin(), AllFeatures().end());
    request.named = true;
    const Matrix matrix = MatrixOf(request);
    REQUIRE(!matrix.variants.empty());
    for (const Matrix::Variant& variant : matrix.variants) {
      const Case& test = variant.test;
      CAPTURE(CaseText(test));
      REQUIRE(FeatureNames(test).size() == 1);
      const Feature feature = *ParseFeature(FeatureNames(test)[0]);
      const CaseResult result = RunCase(test);
      CAPTURE(result.reason);
      CHECK(result.status ==
            (Takes(*test.operation, test.mode, test.layout, feature)
                 ? Status::kPass
                 : Status::kUnsupported));
    }
  }
}

TEST_CASE("only a feature that was requested by name reports its refusal") {
  Request request = Everywhere(Mode::kTrain);
  request.operations = {exec::FindOperation("unified_attention")};
  request.more = {Feature::kBias, Feature::kSoftCap};
  const auto names = [&] {
    std::string out;
    for (const Case& test : RunMatrix(request, MatrixOf(request), 1).cases) {
      for (const std::string_view name : FeatureNames(test)) {
        out += std::string(name) + ' ';
      }
    }
    return out;
  };
  CHECK(names() == "soft_cap long large_logits ");
  request.named = true;
  CHECK(names() == "bias soft_cap long large_logits ");
}

// A run without options adds this long case for every operation.
TEST_CASE("a bfloat16 accumulator is detected in every operation") {
  for (const Mode mode : {Mode::kTrain, Mode::kDecode}) {
    const Request request = Everywhere(mode);
    const Report report = RunMatrix(request, MatrixOf(request), 2);
    std::set<std::string_view> seen;
    for (size_t i = 0; i < report.cases.size(); ++i) {
      const Case& test = report.cases[i];
      CAPTURE(CaseText(test));
      CAPTURE(report.results[i].reason);
      CHECK(report.results[i].status == Status::kPass);
      if (!test.longer) continue;
      seen.insert(test.operation->name);
      RunOptions options;
      Inject(InjectionOf(Fault::kBf16Accumulator), options);
      CHECK(RunCase(test, options).status == Status::kFail);
    }
    size_t expected = 0;
    for (const exec::Operation* operation : exec::Operations()) {
      expected += Applies(*operation, mode, Layout::kBthd);
    }
    CHECK(seen.size() == expected);
  }
}

// Cases in bfloat16 with hundreds of keys are already long.
TEST_CASE("a case that is long already gets no stress case") {
  Request request = Everywhere(Mode::kTrain);
  request.operations = {exec::FindOperation("flash_attn2")};
  request.sizes.key_length = 256;
  request.dtypes = {Dtype::kBF16};
  const auto longer = [&] {
    int64_t out = 0;
    for (const Case& test : RunMatrix(request, MatrixOf(request), 1).cases) {
      out += test.longer;
    }
    return out;
  };
  CHECK(longer() == 1);
  request.full = true;
  CHECK(longer() == 0);
  request.sizes.key_length = 64;
  CHECK(longer() == 1);
}

// The keys of all heads that are computed from a latent may have far more
// elements than the latent itself.
TEST_CASE("a latent too large to expand has reduced sizes, with a remark") {
  Request request = Everywhere(Mode::kPrefill);
  request.operations = {
      exec::FindOperation("multi_latent_ragged_page_attention_v1")};
  request.sizes = {16, 64, 8192, 32, 8, 128, 0};
  request.full = true;
  const Matrix matrix = MatrixOf(request);
  REQUIRE(matrix.cases.size() == 1);
  CHECK(matrix.cases[0].sizes.key_length < 8192);
  CHECK(matrix.cases[0].remarks.size() == 1);
  CHECK(RunCase(matrix.cases[0]).status == Status::kPass);
  request.sizes.key_length = 512;
  const Matrix expanded = MatrixOf(request);
  CHECK(expanded.cases[0].sizes.key_length == 512);
  CHECK(expanded.cases[0].remarks.empty());
  // For one query the latent is not expanded.
  request = Everywhere(Mode::kDecode);
  request.operations = {
      exec::FindOperation("multi_latent_ragged_page_attention_v1")};
  request.sizes = {16, 1, 8192, 32, 8, 128, 0};
  request.full = true;
  const Matrix absorbed = MatrixOf(request);
  CHECK(absorbed.cases[0].sizes.key_length == 8192);
  CHECK(absorbed.cases[0].remarks.empty());
}

}  // namespace
}  // namespace shardc::verify
