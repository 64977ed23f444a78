// Compares the reports of small matrices with
// testdata/tables/verify_matrix.txt: which cases a request has, their sizes,
// specs and features, what each sends, and why a case cannot run. Errors depend
// on the processor and are not listed.
#include "verify/report.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "comm/collective.h"
#include "parse/mesh.h"
#include "resolve/resolve.h"
#include "tables.h"
#include "verify/cases/case.h"
#include "verify/cases/grid.h"
#include "verify/cases/matrix.h"
#include "verify/cases/random_cases.h"

namespace shardc::verify {
namespace {

std::vector<std::string> WordsOf(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// A request and the mesh on which it runs.
struct Asked {
  Mesh mesh;
  RuleSet rules;
  Request request;
  std::optional<int64_t> most_devices;
};

// Reads "tp=2 length=sp" as the axes of the axis rule of each name.
void SetRules(const std::string& text, RuleSet& rules) {
  for (const std::string& word : WordsOf(text)) {
    const size_t at = word.find('=');
    const auto rule = ParseAxisRule(word.substr(0, at));
    REQUIRE_MESSAGE(rule.has_value(), word);
    AxisGroup axes;
    std::istringstream names(word.substr(at + 1));
    for (std::string name; std::getline(names, name, '+');) {
      axes.push_back(name);
    }
    rules.axes.Set(*rule, {.is_null = false, .axes = std::move(axes)});
  }
}

Asked AskedIn(const TableCase& given) {
  Asked out;
  Findings findings;
  auto mesh = ReadMesh(given.Text("mesh"), {}, findings);
  REQUIRE(mesh.has_value());
  out.mesh = std::move(*mesh);
  SetRules(given.Text("axes"), out.rules);
  Request& r = out.request;
  std::vector<int64_t> sizes;
  for (const std::string& word : WordsOf(given.Text("sizes"))) {
    sizes.push_back(std::stoll(word));
  }
  REQUIRE(sizes.size() == 6);
  r.sizes = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], 0};
  for (const std::string& name : WordsOf(given.Text("operations"))) {
    if (name == "all") {
      const auto all = exec::Operations();
      r.operations.assign(all.begin(), all.end());
      continue;
    }
    r.operations.push_back(exec::FindOperation(name));
    REQUIRE_MESSAGE(r.operations.back() != nullptr, name);
  }
  for (const std::string& name : WordsOf(given.Text("modes"))) {
    r.modes.push_back(ParseMode(name).value());
  }
  for (const std::string& name : WordsOf(given.Text("layouts"))) {
    r.layouts.push_back(ParseLayout(name).value());
  }
  for (const std::string& name : WordsOf(given.Text("dtypes"))) {
    r.dtypes.push_back(ParseDtype(name).value());
  }
  for (const std::string& name : WordsOf(given.Text("features"))) {
    r.more.push_back(ParseFeature(name).value());
  }
  const std::string set = " " + given.Text("set") + " ";
  const auto has = [&](std::string_view word) {
    return set.find(" " + std::string(word) + " ") != std::string::npos;
  };
  r.named = has("named");
  r.full = has("full");
  r.large_logits = has("large");
  r.illegal = has("drop")     ? IllegalPolicy::kDrop
              : has("shrink") ? IllegalPolicy::kShrink
                              : IllegalPolicy::kError;
  if (given.Find("window") != nullptr) {
    r.window = std::stoll(given.Text("window"));
  }
  if (given.Find("cache") != nullptr) {
    r.kv_dtype = ParseDtype(given.Text("cache")).value();
  }
  if (given.Find("devices") != nullptr) {
    out.most_devices = std::stoll(given.Text("devices"));
  }
  r.steps = 2;
  r.seed = 3;
  return out;
}

// Returns the bytes of each collective: the most of a device, and of all.
std::string SentText(const exec::SentBytes& sent) {
  std::string out;
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    int64_t all = 0;
    for (const int64_t bytes : sent.by[i]) all += bytes;
    if (all == 0) continue;
    const auto kind = static_cast<Collective>(i);
    out += " " + std::string(CollectiveName(kind)) + " " +
           std::to_string(sent.Most(kind)) + " of " + std::to_string(all);
  }
  return out.empty() ? " nothing" : out;
}

// Returns the text with each error, such as `3.17e+00`, as `#`.
std::string WithoutErrors(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 8 <= text.size() && text[i + 1] == '.' && text[i + 4] == 'e') {
      out += '#';
      i += 7;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string ResultText(const Case& test, const CaseResult& result) {
  std::string out =
      CaseText(test) + "\n  " + std::string(StatusName(result.status));
  if (test.trace) {
    out += ", cache of " + std::to_string(test.trace->prefill) + " + " +
           std::to_string(test.trace->steps) + " in " +
           std::to_string(test.trace->slots) + " slots";
    if (test.trace->window > 0) {
      out += ", window " + std::to_string(test.trace->window);
    }
    if (test.trace->pages) out += ", pages";
  }
  if (result.failed) out += " of " + std::string(CheckName(*result.failed));
  if (!result.axis.empty()) out += " over `" + result.axis + "`";
  if (!result.reason.empty()) out += ": " + WithoutErrors(result.reason);
  if (!result.help.empty()) out += " (" + result.help + ")";
  out += result.exact ? ", exact" : "";
  if (result.status != Status::kUnsupported) {
    out += "; sends" + SentText(result.ledger.Sent());
    out += " in " + std::to_string(result.ledger.steps()) + " collectives";
  }
  if (result.given_sent) out += "; as given" + SentText(*result.given_sent);
  out += "\n";
  for (const std::string& remark : result.remarks) out += "  " + remark + "\n";
  return out;
}

std::string SizesText(const Sizes& n) {
  return "B" + std::to_string(n.batch) + " T" + std::to_string(n.query_length) +
         " S" + std::to_string(n.key_length) + " H" + std::to_string(n.heads) +
         " K" + std::to_string(n.key_heads) + " D" + std::to_string(n.head_dim);
}

Matrix MatrixOf(const Asked& asked) {
  Findings findings;
  const auto resolver = Resolver::Make(asked.rules, asked.mesh, findings);
  REQUIRE(resolver);
  if (!asked.most_devices) {
    return BuildMatrix(asked.request, *resolver, asked.mesh);
  }
  auto matrix = BuildReducedMatrix(asked.request, asked.rules, *resolver,
                                   asked.mesh, *asked.most_devices, findings);
  REQUIRE(matrix.has_value());
  return std::move(*matrix);
}

std::string ReportText(const Report& report) {
  std::string out = SizesText(report.given) + " as " + SizesText(report.used) +
                    (report.reduced ? ", reduced" : "") + ": " +
                    std::to_string(report.Count(Status::kPass)) + " pass, " +
                    std::to_string(report.Count(Status::kUnsupported)) +
                    " unsupported, " +
                    std::to_string(report.Count(Status::kFail)) + " fail" +
                    (report.NothingRan() ? ", nothing ran" : "") + "\n";
  for (const std::string& remark : report.remarks) out += remark + "\n";
  for (size_t i = 0; i < report.cases.size(); ++i) {
    out += ResultText(report.cases[i], report.results[i]);
  }
  return out;
}

TEST_CASE("the cases of small matrices are as written") {
  CheckTable("verify_matrix.txt", [](const TableCase& given) {
    const Asked asked = AskedIn(given);
    return ReportText(RunMatrix(asked.request, MatrixOf(asked), 2));
  });
}

Asked SmallRequest() {
  Asked out;
  out.mesh = MeshOf({{"dp", 2}, {"tp", 2}});
  out.request.sizes = {4, 16, 16, 4, 2, 16, 0};
  for (const char* name : {"sdpa", "ring"}) {
    out.request.operations.push_back(exec::FindOperation(name));
    REQUIRE(out.request.operations.back() != nullptr);
  }
  out.request.modes = {Mode::kTrain, Mode::kDecode};
  out.request.layouts = {Layout::kBthd, Layout::kBhtd};
  out.request.dtypes = {Dtype::kF32};
  return out;
}

TEST_CASE("a report does not depend on the number of threads") {
  const Asked asked = SmallRequest();
  const std::string one =
      ReportText(RunMatrix(asked.request, MatrixOf(asked), 1));
  CHECK(one.find("pass") != std::string::npos);
  for (const int threads : {2, 5}) {
    CheckSameLines(
        ReportText(RunMatrix(asked.request, MatrixOf(asked), threads)), one);
  }
}

TEST_CASE("each case is kept once, and progress counts to their number") {
  const Asked asked = SmallRequest();
  std::vector<size_t> kept, done;
  size_t with_output = 0;
  const Report report = RunMatrix(
      asked.request, MatrixOf(asked), 2,
      [&](size_t count, size_t all, const std::string& within) {
        CHECK(within.empty());
        CHECK(count <= all);
        done.push_back(count);
      },
      [&](size_t index, const Case& test, const CaseResult& result,
          const CaseTensors& tensors) {
        kept.push_back(index);
        CHECK(test.operation != nullptr);
        if (result.status != Status::kPass) return;
        if (test.trace) {
          CHECK_FALSE(tensors.trace.empty());
        } else {
          CHECK(tensors.trace.empty());
          CHECK_FALSE(tensors.output.shape.empty());
          ++with_output;
        }
      });
  CHECK(with_output > 0);
  std::vector<size_t> all(report.cases.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  std::sort(kept.begin(), kept.end());
  CHECK(kept == all);
  for (size_t& i : all) ++i;
  CHECK(done == all);
}

}  // namespace
}  // namespace shardc::verify
