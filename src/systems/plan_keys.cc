// Finds the sizes of a system's axes in a plan by what the mesh axes shard:
//
//   pp:2, edp:2, dp_ep:2, tp:2; experts [[dp_ep, tp]], linear_qkv [tp]
//     ->  pp 2, tp 2, ep 4, etp 1, dp 4
//
// An axis over which weights are gathered before use (facts/axes.h) shards
// parameters over data parallel ranks.
#include "systems/plan_keys.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "facts/parameters.h"
#include "roles/classify.h"
#include "source/config_codes.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/sink.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "systems/deployment.h"
#include "systems/values.h"

namespace shardc::systems {
namespace {

using Names = std::set<std::string>;

// The axes of a plan by what they do.
struct Uses {
  Names tensor, shard, expert, expert_tensor, replica, sequence;
  // Axes of which it is not known whether weights are gathered over them.
  Names not_known;
};

facts::ParameterTable ParametersOf(const PlanFacts& facts) {
  std::vector<Tensor> tensors;
  std::vector<TensorType> types;
  std::map<Shape, uint32_t> numbers;
  for (const PlanFacts::Param& param : facts.params) {
    const auto next = static_cast<uint32_t>(types.size());
    const auto [at, fresh] = numbers.try_emplace(param.shape, next);
    if (fresh) types.push_back({param.shape, std::nullopt});
    tensors.push_back({param.name, at->second});
  }
  return facts::FindParameters(
      {.tensors = tensors,
       .types = types,
       .separator = '.',
       .config = facts.model ? &*facts.model : nullptr});
}

const AxisFacts& FactsOf(const PlanFacts& facts, const std::string& axis) {
  static const AxisFacts kNothing;
  const auto at = std::ranges::find(facts.axes, axis, &AxisFacts::axis);
  return at == facts.axes.end() ? kNothing : *at;
}

Uses UsesOf(const PlanFacts& facts) {
  Uses out;
  const facts::ParameterTable table = ParametersOf(facts);
  for (size_t i = 0; i < facts.params.size(); ++i) {
    const PlanFacts::Param& param = facts.params[i];
    const ParameterRole& role = table.Of(i).role();
    const bool routed =
        role.expert && !role.shared_expert && param.shape.size() == 3;
    for (size_t d = 0; d < param.spec.size(); ++d) {
      for (const std::string& name : param.spec[d]) {
        // A factor of an axis, such as `tp:(1)8`, stands for the axis.
        const std::string axis = name.substr(0, name.find(':'));
        const AxisUse use = FactsOf(facts, axis).use;
        if (use == AxisUse::kNotKnown) {
          out.not_known.insert(axis);
        } else if (use == AxisUse::kGathered ||
                   (use == AxisUse::kExperts && !routed)) {
          // Weights that all tokens use are gathered over an axis of experts.
          if (!routed) out.shard.insert(axis);
        } else if (routed && d == 0) {
          out.expert.insert(axis);
        } else {
          (routed ? out.expert_tensor : out.tensor).insert(axis);
        }
      }
    }
  }
  for (const MeshAxis& axis : facts.mesh.axes) {
    if (axis.size == 1 || axis.name == facts.stage_axis) continue;
    if (out.tensor.contains(axis.name) || out.shard.contains(axis.name)) {
      continue;
    }
    const bool sequence =
        FactsOf(facts, axis.name).tokens == AxisTokens::kSequence;
    (sequence ? out.sequence : out.replica).insert(axis.name);
  }
  return out;
}

int64_t ProductOf(const Mesh& mesh, const Names& names) {
  int64_t out = 1;
  for (const std::string& name : names) out *= mesh.SizeOf(name);
  return out;
}

bool IsEven(const std::vector<int64_t>& layers) {
  return std::all_of(layers.begin(), layers.end(),
                     [&](int64_t one) { return one == layers.front(); });
}

// Returns what expressions of `export` read as `plan` and `model`.
std::vector<std::pair<std::string, std::string>> SectionsOf(
    const PlanFacts& facts) {
  const Uses uses = UsesOf(facts);
  const Mesh& mesh = facts.mesh;
  const int64_t pp =
      facts.stage_axis.empty() ? 1 : mesh.SizeOf(facts.stage_axis);
  int64_t layers = 0;
  for (const int64_t one : facts.layers) layers += one;
  std::string layout;
  for (size_t s = 0; s < facts.layers.size(); ++s) {
    if (s > 0) layout += '|';
    if (s == 0) layout += 'E';
    layout.append(static_cast<size_t>(facts.layers[s]), 't');
    if (s + 1 == facts.layers.size()) layout += 'L';
  }
  const bool even = facts.layers.empty() || IsEven(facts.layers);
  std::vector<std::pair<std::string, std::string>> out;
  out.emplace_back(
      "plan", TextOf([&](Sink& sink) {
        JsonWriter json(sink);
        json.BeginObject();
        json.Members(
            "devices", mesh.devices, "tp", ProductOf(mesh, uses.tensor), "pp",
            pp, "cp", ProductOf(mesh, uses.sequence), "ep",
            ProductOf(mesh, uses.expert), "etp",
            ProductOf(mesh, uses.expert_tensor), "fsdp",
            ProductOf(mesh, uses.shard), "dp", ProductOf(mesh, uses.replica),
            "virtual", facts.virtual_stages, "microbatches", facts.microbatches,
            "even", even, "folded", facts.folded);
        if (!facts.layers.empty()) {
          json.Members("layers", layers, "layout", layout, "listed",
                       Join(facts.layers, ","), "per_stage",
                       facts.layers.front());
        }
        json.EndObject();
      }));
  if (!facts.model) return out;
  const ModelConfig& model = *facts.model;
  out.emplace_back(
      "model", TextOf([&](Sink& sink) {
        JsonWriter json(sink);
        json.BeginObject();
        const std::pair<std::string_view, std::optional<int64_t>> sizes[] = {
            {"heads", model.heads},
            {"kv_heads", model.kv_heads},
            {"head_dim", model.head_dim},
            {"hidden", model.hidden},
            {"intermediate", model.intermediate},
            {"layers", model.layers},
            {"vocab", model.vocab},
            {"experts", model.experts},
            {"moe_intermediate", model.moe_intermediate},
            {"latent_rank", model.latent_rank}};
        for (const auto& [name, size] : sizes) {
          if (size) json.Member(name, *size);
        }
        json.Member("tied", model.tied_embeddings);
        json.EndObject();
      }));
  return out;
}

bool IsTrueText(const std::string& text) { return text == "true"; }

// Returns a word quoted for a shell if it needs quotes.
std::string ShellText(const std::string& word) {
  const bool plain =
      !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
        return IsWordByte(c) ||
               std::string_view("-.,/:=+").find(c) != std::string_view::npos;
      });
  return plain ? word : "'" + word + "'";
}

}  // namespace

std::optional<std::vector<std::pair<std::string, std::string>>> KeysOfPlan(
    const System& system, const PlanFacts& facts, Findings& findings) {
  if (!system.exported) {
    findings.Add(code::kInexpressible, {},
                 "`" + system.name + "` has no keys that state a plan");
    return std::nullopt;
  }
  const auto values = Values::Make(system, {}, SectionsOf(facts));
  if (values == nullptr) return std::nullopt;
  const size_t before = findings.errors();
  for (const std::string& axis : UsesOf(facts).not_known) {
    findings.Add(code::kInexpressible, {},
                 "`" + system.name +
                     "`: it is not known whether weights are "
                     "gathered over " +
                     ShortQuote(axis) + " before use",
                 "write `axes: {tensor_parallel: " + axis +
                     "}` in the rules if devices compute with their shards, or "
                     "`axes: {fully_sharded_data_parallel: " +
                     axis + "}` if weights are gathered before use");
  }
  for (const Check& cannot : system.exported->cannot) {
    if (!values->Condition(cannot.when).value_or(false)) continue;
    findings.Add(code::kInexpressible, {},
                 "`" + system.name + "`: " + values->Write(cannot.says),
                 values->Write(cannot.help));
  }
  if (findings.errors() > before) return std::nullopt;
  std::vector<std::pair<std::string, std::string>> out;
  for (const ExportRow& row : system.exported->rows) {
    if (row.when && !values->Condition(*row.when).value_or(false)) continue;
    const auto text = values->Text(row.value);
    if (text && *text != "none") out.emplace_back(row.key, *text);
  }
  return out;
}

std::string ConfigOfKeys(
    const System& system,
    const std::vector<std::pair<std::string, std::string>>& keys) {
  const ExportSection& exported = *system.exported;
  std::string out;
  if (exported.form == "flags") {
    for (const auto& [key, value] : keys) {
      if (!key.starts_with('-')) out += key + "=" + ShellText(value) + " ";
    }
    out += exported.begin;
    for (const auto& [key, value] : keys) {
      if (!key.starts_with('-')) continue;
      out += " \\\n  " + key;
      if (!IsTrueText(value)) out += " " + ShellText(value);
    }
    return out + "\n";
  }
  // Keys of one section follow one another, so each section has one heading.
  if (exported.form == "toml") {
    std::string section;
    for (const auto& [key, value] : keys) {
      const size_t dot = key.rfind('.');
      const std::string of = dot == std::string::npos ? "" : key.substr(0, dot);
      if (of != section || out.empty()) {
        out += (out.empty() ? "[" : "\n[") + of + "]\n";
        section = of;
      }
      const auto json = JsonOf({value, false, {}, {}});
      out += key.substr(dot + 1) + " = " + json.value_or("\"\"") + "\n";
    }
    return out;
  }
  out = "{";
  std::string section;
  bool first = true;
  for (const auto& [key, value] : keys) {
    const size_t dot = key.find('.');
    const std::string of = dot == std::string::npos ? "" : key.substr(0, dot);
    if (of != section) {
      if (!section.empty()) out += "}";
      if (!of.empty()) {
        out += (first ? "" : ", ") + ("\"" + of + "\": {");
      } else if (!first) {
        out += ", ";
      }
      section = of;
    } else if (!first) {
      out += ", ";
    }
    first = false;
    const auto json = JsonOf({value, false, {}, {}});
    out += "\"" + key.substr(dot == std::string::npos ? 0 : dot + 1) +
           "\": " + json.value_or("null");
  }
  if (!section.empty()) out += "}";
  return out + "}\n";
}

void CompareWithPlan(
    const System& system, const PlanFacts& facts,
    const std::vector<std::pair<std::string, std::string>>& keys,
    const Manifest& manifest, const std::string& model, const Place& place,
    Findings& findings) {
  const SourceRef source = MakeSource(system.name, ConfigOfKeys(system, keys));
  ConfigText text;
  text.source = source;
  text.place = place;
  text.form =
      system.exported->form == "flags" ? TextForm::kShell : TextForm::kToml;
  for (const auto& [key, value] : keys) {
    Setting& setting = text.settings.emplace_back();
    setting.written = key;
    setting.key = NormalKey(key);
    if (!key.starts_with('-') && system.exported->form == "flags") {
      setting.key.insert(0, "env.");
    }
    setting.place = place;
    setting.values.push_back({value, place, {}, false});
  }
  ConfigInputs inputs;
  inputs.devices = facts.mesh.devices;
  inputs.model = model;
  inputs.given_manifest = manifest;
  inputs.lenient = true;
  Findings own;
  const auto deployment = Deploy(system, text, inputs, own);
  for (const Finding& finding : own.all()) {
    if (finding.level == Level::kNote) continue;
    Finding one = finding;
    one.message = system.title + ": " + one.message;
    one.place = place;
    findings.Add(std::move(one));
  }
  if (!deployment || !deployment->manifest) return;
  bool any = false;
  for (const Placement& placement : deployment->placements) {
    any = any || std::any_of(placement.dims.begin(), placement.dims.end(),
                             [](const auto& dim) { return !dim.empty(); });
  }
  // The names are those of another system, which the rows do not know.
  const bool divides = std::any_of(
      facts.params.begin(), facts.params.end(),
      [](const PlanFacts::Param& param) { return !IsReplicated(param.spec); });
  if (!any && divides && !system.tree.tree.empty()) return;
  int64_t others = 0;
  std::string said;
  for (size_t i = 0;
       i < deployment->manifest->tensors.size() && i < facts.params.size();
       ++i) {
    Shape largest;
    for (int64_t rank = 0; rank < std::min<int64_t>(deployment->world, 256);
         ++rank) {
      Shape local = deployment->LocalShape(i, rank);
      if (largest.empty()) largest = local;
      for (size_t d = 0; d < local.size(); ++d) {
        largest[d] = std::max(largest[d], local[d]);
      }
    }
    if (largest == facts.params[i].local) continue;
    if (++others > 1) continue;
    said = ShortQuote(facts.params[i].name) + " has shards " +
           ShapeText(largest) + " in " + system.title + ", and " +
           ShapeText(facts.params[i].local) + " in the plan";
  }
  if (others == 0) return;
  Finding finding;
  finding.code = &code::kConfigSilent;
  finding.level = Level::kWarning;
  finding.place = place;
  finding.message = said + (others > 1 ? ", as have " + CountText(others - 1) +
                                             " further parameters"
                                       : std::string());
  finding.help =
      "its keys do not state the spec of a parameter: `shardc export " +
      system.name + "` writes those of this plan";
  findings.Add(std::move(finding));
}

}  // namespace shardc::systems
