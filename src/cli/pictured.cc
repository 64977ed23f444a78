// Collects the data that pictures and the HTML page show. The cost report of a
// mode has a reason for each part of the memory that is unknown. If several
// modes have the same reason, it is listed once with these modes. Reasons are
// listed in the order in which they first occur:
//
//   prefill: no batch; decode: no batch  ->  `prefill, decode: no batch`
#include "cli/pictured.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc::cli {
namespace {

const Spec* AttentionSpec(const PlanView& view, Mode mode,
                          std::string_view tensor) {
  for (const PlanView::Attention& one : view.attention) {
    if (one.mode == mode && one.tensor == tensor) return &one.spec;
  }
  return nullptr;
}

}  // namespace

MemoryBars BarsOf(std::span<const cost::Report> reports) {
  constexpr std::string_view kLetters = "PGOKALW";
  static_assert(kLetters.size() == cost::kComponentCount);
  MemoryBars out;
  std::vector<std::string> order;  // distinct reasons, in order of occurrence
  std::map<std::string, std::string> modes_of;
  for (size_t i = 0; i < cost::kComponentCount; ++i) {
    std::string name(cost::kComponentNames[i]);
    std::replace(name.begin(), name.end(), '_', ' ');
    out.parts.push_back({kLetters[i], std::move(name)});
  }
  for (const cost::Report& report : reports) {
    const cost::Memory& memory = report.memory;
    MemoryBar bar;
    bar.name = ModeName(report.mode);
    for (const auto& bytes : memory.most.by) {
      bar.parts.push_back(bytes.value_or(0));
    }
    bar.at_least = memory.at_least;
    if (memory.least.total != memory.most.total) bar.least = memory.least.total;
    out.bars.push_back(std::move(bar));
    out.devices = report.mesh.devices;
    if (memory.capacity) out.budget = memory.capacity;
    for (const NotKnown& fact : memory.unknown) {
      const std::string text = NotKnownText(fact);
      std::string& modes = modes_of[text];
      if (modes.empty()) order.push_back(text);
      modes += (modes.empty() ? "" : ", ") + std::string(ModeName(report.mode));
    }
  }
  for (const std::string& text : order) {
    out.unknown.push_back(modes_of[text] + ": " + text);
  }
  return out;
}

picture::Coverage CoverageIn(const Planned& planned,
                             const picture::FoldedPlan& folded) {
  picture::Coverage out = picture::CoverageOf(folded);
  if (planned.compiled == nullptr) return out;
  LintInputs inputs;
  inputs.compiled = planned.compiled.get();
  const Facts facts(inputs);
  const auto rules = facts.rule_facts();
  for (size_t i = 0; i < rules.size() && i < out.rules.size(); ++i) {
    out.rules[i].found = rules[i].found;
    const auto most = std::max_element(
        rules[i].lost.begin(), rules[i].lost.end(),
        [](const LostTo& a, const LostTo& b) { return a.count < b.count; });
    if (out.rules[i].won == 0 && most != rules[i].lost.end()) {
      out.rules[i].shadowed_by = most->rule;
    }
  }
  return out;
}

std::optional<CacheArray> CacheIn(const Planned& planned,
                                  const cost::Settings& settings, Mode mode) {
  const PlanView& view = planned.table.classes;
  const Spec* key = AttentionSpec(view, mode, "key");
  const Spec* value = AttentionSpec(view, mode, "value");
  if (key == nullptr) return std::nullopt;
  CacheArray out;
  out.title = value != nullptr && *value == *key ? "key, value" : "key";
  out.title += " (" + std::string(ModeName(mode)) + ")";
  out.input.mesh = planned.mesh();
  out.input.spec = *key;
  std::optional<int64_t> heads, width;
  if (planned.model) {
    heads = planned.model->kv_heads ? planned.model->kv_heads
                                    : planned.model->heads;
    width = planned.model->head_dim;
  }
  out.input.dims = {{.name = "batch", .size = settings.batch, .axes = {}},
                    {.name = "length", .size = settings.kv_length, .axes = {}},
                    {.name = "head", .size = heads, .axes = {}},
                    {.name = "dim", .size = width, .axes = {}}};
  return out;
}

}  // namespace shardc::cli
