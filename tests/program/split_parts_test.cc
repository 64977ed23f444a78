// A program whose dimensions are split into parts computes the same.
#include "program/read.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "dense/program/run.h"
#include "program/programs.h"
#include "source/file.h"
#include "source/size.h"

namespace shardc::program {
namespace {

// Numbers without a pattern, and indices of 0 and 1.
std::vector<double> Elements(const Program& program, ValueId id,
                             uint32_t seed) {
  const Value& value = program.values[id];
  std::vector<double> out(AsIndex(*CheckedProduct(value.shape)));
  const bool whole = value.dtype && (IntegerBits(*value.dtype) != 0 ||
                                     *value.dtype == Dtype::kBool);
  uint64_t state = seed + 1;
  for (double& one : out) {
    state = (state * 1103515245 + 12345) % 2147483648;
    const auto step = static_cast<double>(state >> 12 & 1023);
    one = whole ? static_cast<double>(state >> 16 & 1) : step / 512 - 1;
  }
  return out;
}

struct Results {
  std::vector<std::vector<double>> values;
  std::string fault;
};

Results ResultsOf(const Program& program) {
  std::vector<dense::Array> inputs;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ValueId id = program.inputs[i].value;
    inputs.push_back(
        {program.ShapeOf(id), Elements(program, id, static_cast<uint32_t>(i))});
  }
  const dense::ProgramRun run = dense::RunProgram(
      program, inputs, [&](ValueId id) { return Elements(program, id, id); });
  Results out;
  if (run.fault) out.fault = run.fault->message;
  for (const ValueId id : program.outputs) {
    if (run.fault || run.values[id].empty()) break;
    out.values.push_back(run.values[id][0].data);
  }
  return out;
}

// Splits the dimensions that `count` divides, of every parameter or of every
// other one.
std::vector<EqualParts> PartsOf(const Program& program, int64_t count,
                                bool every) {
  std::vector<EqualParts> out;
  for (const Input& input : program.inputs) {
    if (input.kind != InputKind::kParam) continue;
    const Shape& shape = program.ShapeOf(input.value);
    EqualParts& parts = out.emplace_back(shape.size(), 1);
    for (size_t d = 0; d < shape.size(); ++d) {
      const bool takes = every || (out.size() + d) % 2 == 0;
      if (takes && shape[d] > count && shape[d] % count == 0) parts[d] = count;
    }
  }
  return out;
}

// Programs with more multiplications would take long.
constexpr double kMostWork = 2e6;

bool Same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(a));
}

TEST_CASE("recorded programs compute the same on split dimensions") {
  const char* const root_folder = std::getenv("SHARDC_SOURCE_ROOT");
  REQUIRE(root_folder != nullptr);
  const std::string root = root_folder;
  size_t split = 0;
  for (const std::string folder : {"programs", "torch_programs", "regions"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(root + "/testdata/" + folder)) {
      const std::string path = entry.path().string();
      if (!path.ends_with(".program.json.gz")) continue;
      Findings findings;
      const auto program = ReadProgram(ReadSource(path, findings), findings);
      REQUIRE(program);
      if (RunFault(*program) || WorkOf(*program) > kMostWork) continue;
      INFO(path);
      const Results whole = ResultsOf(*program);
      REQUIRE(whole.fault.empty());
      for (const auto& [count, every] :
           {std::pair<int64_t, bool>{2, true}, {3, false}}) {
        const auto parts = PartsOf(*program, count, every);
        const Program made = SplitParts(*program, parts);
        CHECK(FormFault(made).value_or("") == "");
        size_t next = 0;
        for (size_t i = 0; i < made.inputs.size(); ++i) {
          if (made.inputs[i].kind != InputKind::kParam) continue;
          CHECK(made.ShapeOf(made.inputs[i].value) ==
                SplitShape(program->ShapeOf(program->inputs[i].value),
                           parts[next++]));
        }
        const Results results = ResultsOf(made);
        CHECK(results.fault == "");
        REQUIRE(results.values.size() == whole.values.size());
        bool same = true;
        for (size_t i = 0; i < whole.values.size(); ++i) {
          same = same &&
                 std::ranges::equal(whole.values[i], results.values[i], Same);
        }
        CHECK(same);
        ++split;
      }
    }
  }
  CHECK(split > 100);
}

}  // namespace
}  // namespace shardc::program
