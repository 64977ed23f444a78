#include "step/described.h"
#include "source/size.h"

#include <random>
#include <utility>
#include <vector>

#include "doctest/doctest.h"
#include "families/families.h"
#include "parse/project.h"
#include "parse/rules.h"
#include "source/json.h"
#include "target/choose.h"
#include "temporary_folder.h"

namespace shardc::step {

std::string TextOf(const Findings& findings) {
  std::string out;
  for (const Finding& finding : findings.all()) {
    out += finding.message + "\n";
  }
  return out;
}

std::shared_ptr<const ModelDescription> Description(const std::string& text,
                                                    Findings& findings) {
  const auto file =
      ParseRuleFile(MakeSource("rules.yaml", "version: 1\n" + text), findings);
  return file ? file->model : nullptr;
}

std::shared_ptr<const ModelDescription> PackDescription(std::string_view name,
                                                        char separator) {
  Findings findings;
  const std::string_view prefix =
      name.starts_with("builtin:") ? "" : "builtin:";
  const std::vector<std::string> names = {std::string(prefix) +
                                          std::string(name)};
  const auto rules = ReadRules(
      names,
      [separator](std::string_view pack) { return FindPack(pack, separator); },
      findings);
  CAPTURE(name);
  CHECK(TextOf(findings) == "");
  REQUIRE(rules);
  return rules->model;
}

Described FromConfig(const std::string& config, std::string_view naming,
                     std::string_view pack) {
  Described out;
  Findings findings;
  TemporaryFolder folder;
  const std::string path = folder.Write("config.json", config);
  auto read = ReadModelConfig(path, findings);
  CAPTURE(TextOf(findings));
  REQUIRE(read);
  out.config = std::move(*read);
  auto manifest = families::BuildTree(path, naming, findings);
  CAPTURE(TextOf(findings));
  REQUIRE(manifest);
  out.manifest = std::move(*manifest);
  out.description = PackDescription(pack, out.manifest.separator);
  return out;
}

dense::StepValues<double> RandomInputs(const Graph& graph, const Sizes& sizes,
                                       uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto unit = [&] {
    return static_cast<double>(random() >> 11) * 0x1p-52 - 1;
  };
  dense::StepValues<double> values(graph.values.size());
  for (const Op& op : graph.ops) {
    if (op.kind != OpKind::kInput) continue;
    auto& value = values[AsIndex(op.out)];
    value.shape = dense::ShapeOf(graph, sizes, op.out);
    int64_t size = 1;
    for (const int64_t side : value.shape) size *= side;
    for (int64_t i = 0; i < size; ++i) value.data.push_back(unit());
  }
  // The weights of norms are near 1.
  for (const Parameter& parameter : graph.parameters) {
    auto& value = values[AsIndex(parameter.value)];
    if (value.shape.size() > 1) continue;
    for (double& x : value.data) x = 1 + x / 4;
  }
  for (const Moments& moments : graph.moments) {
    if (moments.second == kNoValue) continue;
    for (double& x : values[AsIndex(moments.second)].data) {
      x = x * x + 1e-4;
    }
  }
  const auto vocabulary = static_cast<uint64_t>(sizes[static_cast<size_t>(
      graph.values[AsIndex(graph.logits)].labels.back())]);
  for (const Data& data : graph.data) {
    auto& value = values[AsIndex(data.value)];
    for (size_t i = 0; i < value.data.size(); ++i) {
      double& x = value.data[i];
      if (data.kind == DataKind::kIds || data.kind == DataKind::kLabels) {
        x = static_cast<double>(random() % vocabulary);
      } else if (data.kind == DataKind::kWeights) {
        x = random() % 4 == 0 ? 0 : 1;
      } else if (data.kind == DataKind::kPositions ||
                 data.kind == DataKind::kCachePositions) {
        x = static_cast<double>(i % AsIndex(value.shape.back()));
      }
    }
  }
  return values;
}

}  // namespace shardc::step
