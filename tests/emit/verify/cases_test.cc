// Compares the reports of verification with testdata/tables/emit_verify.txt.
// The results of cases are made by hand, so that all numbers differ and none
// depends on the processor's arithmetic.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emit/inputs.h"
#include "emit/verify/dump.h"
#include "emit/verify/verify_json.h"
#include "exec/operations/operation.h"
#include "meshes.h"
#include "tables.h"

namespace shardc {
namespace {

using verify::Case;
using verify::CaseResult;
using verify::Status;

Case CaseOf(std::string_view operation, Mode mode) {
  Case out;
  out.operation = exec::FindOperation(operation);
  REQUIRE(out.operation != nullptr);
  out.mode = mode;
  out.mesh = MeshOf({{"dp", 2}, {"tp", 2}});
  out.sizes.batch = 3;
  out.sizes.query_length = 5;
  out.sizes.key_length = 7;
  out.sizes.heads = 8;
  out.sizes.key_heads = 4;
  out.sizes.head_dim = 64;
  out.sizes.value_dim = 11;
  out.seed = 77;
  return out;
}

CaseResult Compared(double error) {
  CaseResult out;
  out.error.max_abs = error;
  out.error.mean_abs = error / 4;
  out.error.relative_l2 = error / 8;
  out.error.worst = {1, 2, 3, 4};
  out.unsharded.max_abs = error / 2;
  out.tolerance = error * 2;
  out.cap = error * 4;
  out.device_error = {error, error / 2, error / 4, error / 8};
  return out;
}

// Adds a case that passes and has every optional field.
void AddPassed(verify::Report& to) {
  Case test = CaseOf("ring", Mode::kTrain);
  test.layout = Layout::kBhtd;
  test.dtype = Dtype::kBF16;
  test.kv_dtype = Dtype::kI8;
  test.given_mesh = MeshOf({{"dp", 16}, {"tp", 8}});
  test.features.causal = true;
  test.features.window = 6;
  test.features.bias = true;
  test.features.scale = 0.375;
  test.features.soft_cap = 30;
  test.features.dropout = 0.125;
  test.settings.sequence_axis = "sp";
  test.settings.blocksize_q = 128;
  test.settings.blocksize_k = 256;
  test.settings.blocksize_b = 2;
  test.settings.page_size = 32;
  test.settings.dot_bits = 8;
  test.settings.global_blocks = 3;
  test.settings.runtime_dtype = Dtype::kF16;
  test.settings.ring_axes = {"cp", "tp"};
  test.settings.order = SequenceOrder::kZigZag;
  CaseResult result = Compared(0.0078125);
  result.exact = true;
  result.remarks = {"a remark", "another"};
  result.ledger.Record(Collective::kAllGather, {"tp"}, 2, {96, 128, 64, 0},
                       "query");
  result.ledger.Record(Collective::kPpermute, {"dp", "tp"}, 4,
                       {2048, 1024, 0, 4096}, "key");
  result.ledger.Record(Collective::kAllGather, {"dp"}, 2, {16, 32, 48, 80},
                       "value");
  result.given_sent.emplace();
  result.given_sent->Add(Collective::kAllGather, {3072, 5120});
  result.given_sent->Add(Collective::kAllToAll, {7168, 6144});
  to.cases.push_back(std::move(test));
  to.results.push_back(std::move(result));
}

void AddFailed(verify::Report& to) {
  for (const int64_t heads : {4, 6}) {
    Case test = CaseOf("vanilla", Mode::kDecode);
    test.sizes.heads = heads;
    CaseResult result = Compared(0.5);
    result.status = Status::kFail;
    result.failed = verify::Check::kError;
    result.reason = "the error is too large with " + std::to_string(heads);
    result.help = "set kv_head to null";
    result.axis = "tp";
    result.device_error[1] = std::numeric_limits<double>::quiet_NaN();
    to.cases.push_back(std::move(test));
    to.results.push_back(std::move(result));
  }
}

// Adds cases with a cache and with pages, and two that are refused for the same
// reason.
void AddOthers(verify::Report& to) {
  Case cache = CaseOf("vanilla", Mode::kInsert);
  cache.trace = verify::TraceShape{9, 10, 12, 13, false};
  cache.sizes.latent_rank = 24;
  cache.sizes.latent_rope_dim = 14;
  CaseResult result = Compared(0.25);
  result.ledger.Record(Collective::kBroadcast, {"dp"}, 2, {512, 0, 0, 0}, "kv");
  to.cases.push_back(cache);
  to.results.push_back(result);
  cache.trace->pages = true;
  to.cases.push_back(cache);
  to.results.push_back(Compared(0.125));
  for (int i = 0; i < 2; ++i) {
    CaseResult refused;
    refused.status = Status::kUnsupported;
    refused.reason = "no layout";
    to.cases.push_back(CaseOf("ulysses", Mode::kPrefill));
    to.results.push_back(refused);
  }
}

verify::Report ReportOf(const TableCase& given) {
  verify::Report out;
  out.seed = 41;
  out.used = CaseOf("vanilla", Mode::kTrain).sizes;
  out.given = out.used;
  out.given.batch = 33;
  out.given.key_length = 55;
  out.reduced = given.Find("reduced") != nullptr;
  if (given.Find("plain") != nullptr) {
    out.cases.push_back(CaseOf("vanilla", Mode::kTrain));
    out.results.push_back(Compared(0.0625));
    return out;
  }
  if (given.Find("empty") != nullptr) return out;
  out.remarks = {"of the run"};
  AddPassed(out);
  AddFailed(out);
  AddOthers(out);
  verify::Projection one;
  one.parameter = "layers.*.q.weight";
  one.count = 32;
  one.role = "query";
  one.place = "rules.yaml:12";
  one.modes = {Mode::kTrain, Mode::kPrefill, Mode::kDecode};
  out.projections = {one, one, one, one};
  out.projections[1].status = Status::kFail;
  out.projections[1].reason = "heads over tp";
  out.projections[1].help = "use dp";
  out.projections[2].status = Status::kUnsupported;
  out.projections[2].reason = "not known";
  out.projections[3].status = Status::kFail;
  out.projections[3].count = 1;
  out.projections[3].place = "";
  out.projections[3].role = "";
  out.projections[3].modes = {Mode::kDecode, Mode::kInsert};
  out.projections[3].reason = "two axes";
  return out;
}

exec::Buffer Filled(Shape shape, Dtype dtype, double first) {
  exec::Buffer out = exec::Buffer::Zeros(std::move(shape), dtype);
  for (float& x : out.real) x = static_cast<float>(first++);
  for (double& x : out.wide) x = first++;
  for (int32_t& x : out.integers) x = static_cast<int32_t>(first++);
  return out;
}

// Returns the header of a safetensors file, and its data as hexadecimal digits.
std::string FileText(const std::string& file) {
  size_t header = 0;
  for (size_t i = 8; i > 0; --i) {
    header = header << 8 | static_cast<unsigned char>(file[i - 1]);
  }
  std::string out = file.substr(8, header);
  for (size_t at; (at = out.find("},\"")) != std::string::npos;) {
    out[at + 1] = '\n';
  }
  while (out.ends_with(' ')) out.pop_back();
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (size_t i = 8 + header; i < file.size(); ++i) {
    if ((i - header) % 32 == 8) out += '\n';
    const auto byte = static_cast<unsigned char>(file[i]);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out + "\n";
}

std::string Dumps() {
  verify::CaseTensors tensors;
  exec::AttentionProblem& problem = tensors.problem;
  problem.query = Filled({1, 1, 2, 1}, Dtype::kBF16, 1);
  problem.key = Filled({1, 1, 1, 1}, Dtype::kF16, 3);
  problem.value = Filled({1, 1, 1, 1}, Dtype::kF32, 4);
  problem.bias = Filled({1}, Dtype::kF32, 5);
  problem.mask = Filled({2}, Dtype::kBool, 0);
  problem.additive_mask = Filled({1}, Dtype::kF32, 6);
  problem.softmax_aux = Filled({1}, Dtype::kF32, 7);
  problem.query_segments = Filled({1}, Dtype::kI32, 8);
  problem.key_segments = Filled({1}, Dtype::kI32, 9);
  problem.query_positions = Filled({1}, Dtype::kI32, 10);
  problem.key_positions = Filled({1}, Dtype::kI32, 11);
  problem.key_lengths = Filled({1}, Dtype::kI32, 12);
  problem.key_starts = Filled({1}, Dtype::kI32, 13);
  problem.blocks = Filled({1}, Dtype::kBool, 1);
  problem.options.causal = true;
  problem.options.window.emplace();
  problem.options.window->left = 14;
  problem.options.window->right = 15;
  problem.options.dropout_seed = 16;
  tensors.output = Filled({1, 1, 2, 1}, Dtype::kF64, 17);
  tensors.reference.shape = {1, 1, 2, 1};
  tensors.reference.data = {19, 20};
  Case test = CaseOf("sdpa", Mode::kTrain);
  test.specs = {{{"a"}}, {{"b"}}, {{"c"}}, {{"d"}}, {{"e"}},
                {{"f"}}, {{"g"}}, {{"h"}}, {{"i"}}};
  const CaseResult result = Compared(0.75);
  const auto written = [&](Metrics metrics) {
    return TextOf([&](Sink& sink) {
      WriteDumpJson(test, result, tensors, metrics, sink);
    });
  };
  std::string out = Titled("tensors", FileText(DumpTensors(tensors)));
  out += Titled("settings", written(Metrics::kReduced));
  problem.latent = exec::LatentInputs{
      Filled({1}, Dtype::kF32, 21), Filled({1}, Dtype::kF32, 22),
      Filled({1}, Dtype::kF32, 23), Filled({1}, Dtype::kF32, 24)};
  problem.options.window.reset();
  problem.options.scale = 0.625;
  problem.options.masked_rows = exec::MaskedRows::kMean;
  out += Titled("latent tensors", FileText(DumpTensors(tensors)));
  out += Titled("latent settings", written(Metrics::kStacked));
  tensors.trace = {{"step-0001/before/key", Filled({1}, Dtype::kI8, 25)},
                   {"step-0001/after/key", Filled({1}, Dtype::kI8, 26)}};
  tensors.reference.shape = {};
  out += Titled("a trace", FileText(DumpTensors(tensors)));
  return out + Titled("settings of a trace", written(Metrics::kReduced));
}

TEST_CASE("what is written of verdicts") {
  CheckTable("emit_verify.txt", [](const TableCase& given) {
    if (given.Find("dumps") != nullptr) return Dumps();
    const verify::Report report = ReportOf(given);
    const auto written = [&](Metrics metrics) {
      return TextOf(
          [&](Sink& sink) { WriteVerifyJson(report, metrics, sink); });
    };
    return Titled("text", ReportText(report)) +
           Titled("JSON", written(Metrics::kReduced)) +
           Titled("JSON by device", written(Metrics::kStacked));
  });
}

}  // namespace
}  // namespace shardc
