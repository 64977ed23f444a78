// Assigns parameters to the units of a pipeline. The layer of a parameter is
// the first part of its name that is a number, or that is a word for layers
// with a number at its end:
//
//   model.layers.5.mlp.up_proj.weight  ->  layer 5 of the chain `model.layers`
//   decoder/layers_5/mlp/wi/kernel     ->  layer 5 of `decoder/layers`
//   model.embed_tokens.weight          ->  the first unit, by its role
//   lm_head.weight, model.norm.weight  ->  the last unit
#include "cost/stage_units.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include "plan/placement.h"
#include "roles/layer_units.h"
#include "source/index.h"
#include "source/stage_code.h"
#include "source/wording.h"

namespace shardc::cost {
namespace {

class UnitReader {
 public:
  UnitReader(const Compiled& compiled, Findings& findings)
      : compiled_(compiled), findings_(findings) {}

  std::optional<StageUnits> Read() {
    const auto& names = compiled_.plan.names;
    const char separator =
        compiled_.manifest.separator == 0 ? '.' : compiled_.manifest.separator;
    std::vector<std::optional<LayerName>> layers;
    std::map<std::string_view, int64_t> chains;  // parameters by chain
    for (const std::string_view name : names) {
      layers.push_back(LayerOf(name, separator));
      if (!layers.back()) continue;
      ++chains[layers.back()->chain];
      out_.layers = std::max(out_.layers, layers.back()->layer + 1);
    }
    if (!CheckChains(chains)) return std::nullopt;
    std::vector<bool> present(AsIndex(out_.layers));
    const size_t before = findings_.errors();
    bool has_head = false;
    for (size_t i = 0; i < names.size(); ++i) {
      out_.tied.push_back(false);
      if (layers[i]) {
        present[AsIndex(layers[i]->layer)] = true;
        out_.of.push_back(1 + layers[i]->layer);
        continue;
      }
      const ParameterRole role = Classify(names[i], separator);
      has_head = has_head || role.module_role == Role::kHead;
      if (IsBeforeLayers(role, names[i])) {
        out_.of.push_back(0);
        out_.tied.back() = role.module_role == Role::kEmbedding;
      } else if (IsAfterLayers(role, names[i])) {
        out_.of.push_back(out_.layers + 1);
      } else {
        out_.of.push_back(0);
        findings_.Add(code::kParameterOutsideStages, {},
                      ShortQuote(names[i]) +
                          " is of no layer, and it is neither an embedding, "
                          "which the first stage has, nor a norm or a head, "
                          "which the last one has",
                      "stages need names that say where a parameter belongs");
        if (findings_.Full()) return std::nullopt;
      }
    }
    const auto missing = std::find(present.begin(), present.end(), false);
    if (missing != present.end()) {
      findings_.Add(code::kLayerWithoutStage, {},
                    "no parameter is of layer " +
                        std::to_string(missing - present.begin()) + " of " +
                        CountText(out_.layers),
                    "the names of layers count from 0 without gaps");
    }
    if (findings_.errors() > before) return std::nullopt;
    if (has_head) std::fill(out_.tied.begin(), out_.tied.end(), false);
    return std::move(out_);
  }

 private:
  bool CheckChains(const std::map<std::string_view, int64_t>& chains) {
    if (chains.empty()) {
      findings_.Add(code::kUsage, {},
                    "no parameter's name has the number of its layer, so that "
                    "layers cannot be divided into stages",
                    "a tree that stacks all layers in one tensor is divided by "
                    "a spec over its layer dimension");
      return false;
    }
    if (chains.size() > 1) {
      const auto first = chains.begin(), second = std::next(first);
      findings_.Add(code::kUsage, {},
                    "layers are counted below " + ShortQuote(first->first) +
                        " and below " + ShortQuote(second->first) +
                        ": stages divide one chain of layers",
                    "an encoder and a decoder cannot be divided into the "
                    "stages of one pipeline");
      return false;
    }
    // A larger number in a name is not a layer's.
    constexpr int64_t kMostLayers = 100'000;
    if (out_.layers > kMostLayers) {
      findings_.Add(code::kLimit, {},
                    "a name has layer " + CountText(out_.layers - 1) +
                        ", beyond " + CountText(kMostLayers) + " layers");
      return false;
    }
    return true;
  }

  const Compiled& compiled_;
  Findings& findings_;
  StageUnits out_;
};

}  // namespace

std::optional<StageUnits> StageUnitsOf(const Compiled& compiled,
                                       Findings& findings) {
  return UnitReader(compiled, findings).Read();
}

Mesh StageMesh(const Mesh& mesh, const std::string& axis) {
  Mesh out = mesh;
  const auto at = mesh.Find(axis);
  if (!at) return out;
  const int64_t size = mesh.axes[*at].size;
  out.axes[*at].size = 1;
  out.devices = mesh.devices / size;
  // The number of hosts of one stage; a host may have devices of several
  // stages.
  out.processes = mesh.processes / std::gcd(mesh.processes, size);
  if (!out.dcn.empty()) {
    out.slices /= out.dcn[*at];
    out.dcn[*at] = 1;
    if (out.slices == 1) out.dcn.clear();
  }
  return out;
}

CostInputs StageInputs(const Compiled& compiled, const CostInputs& all,
                       const StageUnits& units, const std::string& axis,
                       int64_t begin, int64_t end, bool copies) {
  const bool last = end == units.count();
  Representatives chosen;
  const size_t params = compiled.plan.params.size();
  chosen.counts.resize(params);
  chosen.placed.resize(params);
  for (size_t i = 0; i < params; ++i) {
    const bool inside = units.of[i] >= begin && units.of[i] < end;
    if (!inside && !(last && copies && units.tied[i])) continue;
    chosen.counts[i] = 1;
    const PlannedParam& param = compiled.plan.params[i];
    if (!param.coordinate) continue;
    // Only the parameter at its coordinate counts: index * size / size.
    const std::string& along =
        PlacementAxis(compiled.plan, compiled.plan.layouts[param.layout]);
    chosen.placed[i].count = compiled.plan.mesh.SizeOf(along);
    chosen.placed[i].parameters[*param.coordinate] = 1;
  }
  std::optional<ModelConfig> model = all.model;
  const int64_t layers = std::max<int64_t>(
      0, std::min(end, units.layers + 1) - std::max<int64_t>(begin, 1));
  if (model) {
    const auto share = [&](std::optional<int64_t>& of) {
      if (of) *of = *of * layers / std::max<int64_t>(1, units.layers);
    };
    share(model->attention_layers);
    share(model->windowed_layers);
    model->layers = layers;
  }
  CostInputs out =
      MakeCostInputs(compiled, std::move(model), all.mode, &chosen);
  out.mesh = StageMesh(all.mesh, axis);
  if (!last) {
    for (ParamClass& param : out.params) {
      if (param.role.module_role == Role::kEmbedding) {
        param.role.module_role = Role::kPosition;
      }
    }
  }
  return out;
}

std::vector<size_t> KindsOfUnits(const Compiled& compiled,
                                 const StageUnits& units) {
  std::vector<std::vector<uint32_t>> layouts(AsIndex(units.count()));
  for (size_t i = 0; i < units.of.size(); ++i) {
    layouts[AsIndex(units.of[i])].push_back(compiled.plan.params[i].layout);
  }
  std::map<std::vector<uint32_t>, size_t> known;
  std::vector<size_t> out;
  for (size_t u = 0; u < layouts.size(); ++u) {
    std::sort(layouts[u].begin(), layouts[u].end());
    // The first and the last unit each get a number of their own.
    if (u == 0 || u + 1 == layouts.size()) {
      layouts[u].push_back(UINT32_MAX - static_cast<uint32_t>(u == 0));
    }
    out.push_back(known.try_emplace(layouts[u], known.size()).first->second);
  }
  return out;
}

}  // namespace shardc::cost
