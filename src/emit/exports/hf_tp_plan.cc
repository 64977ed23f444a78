// The tensor parallel plan of transformers: a style for each module name, with
// `*` for the numbers in it. A style fixes the sharding of a module's weight
// and of its bias, so both are compared:
//
//   h.0.up.weight ["tp"], h.0.up.bias ["tp"]         ->  "h.*.up": "colwise"
//   h.0.down.weight [null, "tp"], .bias replicated   ->  "h.*.down": "rowwise"
//
// Only the axis of tensor parallelism counts. A module whose sharding no style
// expresses is left out with a finding; transformers then replicates it.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "emit/exports/tensor_parallel.h"
#include "emit/exports/view.h"
#include "model/name.h"
#include "roles/classify.h"
#include "source/after_last.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

// How the tensor parallel axis shards one tensor.
struct AxisSharding {
  std::optional<Split> split;
  size_t rank = 0;
  bool placed = false;

  bool operator<(const AxisSharding& other) const {
    return Key() < other.Key();
  }
  std::tuple<int64_t, int64_t, size_t, bool> Key() const {
    return {split ? split->dim : -1, split ? split->stride : 1, rank, placed};
  }
};

// Modules whose names differ only in numbers, with the sharding of each of
// their tensors by the last part of the tensor's name.
struct Module {
  std::map<std::string, std::set<AxisSharding>> tensors;
  Place place;
};

// A style, or the reason why none fits.
struct StyleOrReason {
  std::string style;
  std::string reason;
};

std::string_view LastPart(std::string_view name) {
  return AfterLast(name, '.');
}

class TpPlanWriter {
 public:
  TpPlanWriter(const Request& request, std::string axis, bool renamed)
      : request_(request), axis_(std::move(axis)), renamed_(renamed) {}

  void Write(Sink& out, Findings& findings) {
    Gather();
    JsonWriter json(out);
    json.BeginObject(JsonLayout::kLines);
    for (const std::string& key : order_) {
      const Module& module = modules_.at(key);
      const StyleOrReason answer = StyleOf(key, module);
      if (!answer.style.empty()) json.Member(key, answer.style);
      if (answer.reason.empty()) continue;
      Finding finding;
      finding.code = &code::kInexpressible;
      finding.level = Level::kWarning;
      finding.place = module.place;
      finding.message = "`hf-tp-plan` leaves " + ShortQuote(key) +
                        " replicated: " + answer.reason;
      findings.Add(std::move(finding));
    }
    json.EndObject();
    out.Put('\n');
  }

 private:
  void Gather() {
    for (const ReadParam& param : request_.plan.params) {
      const std::string name = NameTemplate(param.name, '.');
      // Experts are tensors that have no module of their own.
      const size_t dot = name.rfind('.');
      const bool alone =
          dot == std::string::npos ||
          LastPart(std::string_view(name).substr(0, dot)) == "experts";
      const std::string key = alone ? name : name.substr(0, dot);
      const auto [at, fresh] = modules_.try_emplace(key);
      if (fresh) {
        order_.push_back(key);
        at->second.place = param.place;
      }
      const Spec& spec = param.SpecOf(request_.options.mode);
      const size_t rank = param.type.shape ? param.type.shape->size()
                                           : std::max<size_t>(spec.size(), 1);
      at->second.tensors[alone ? "" : std::string(LastPart(name))].insert(
          {SplitBy(request_.plan.mesh, axis_, spec), rank,
           param.placement.has_value()});
    }
  }

  static bool AnySplit(const Module& module) {
    return std::any_of(
        module.tensors.begin(), module.tensors.end(), [](const auto& tensor) {
          return std::any_of(tensor.second.begin(), tensor.second.end(),
                             [](const AxisSharding& sharding) {
                               return sharding.split || sharding.placed;
                             });
        });
  }

  StyleOrReason StyleOf(const std::string& key, const Module& module) const {
    if (!AnySplit(module)) return {};
    for (const auto& [leaf, shardings] : module.tensors) {
      if (shardings.size() > 1)
        return {"", "modules of this name have different shardings"};
      const AxisSharding& sharding = *shardings.begin();
      if (sharding.placed) {
        return {"", "its tensors are placed at one coordinate of an axis"};
      }
      if (sharding.split && sharding.split->stride > 1) {
        return {"", "other axes shard the dimension before `" + axis_ + "`"};
      }
      if (leaf != "" && leaf != "weight" && leaf != "bias") {
        return {"", "no style covers its " + ShortQuote(leaf)};
      }
    }
    const auto alone = module.tensors.find("");
    if (alone != module.tensors.end()) {
      return OfExperts(key, *alone->second.begin());
    }
    const auto weight = module.tensors.find("weight");
    if (weight == module.tensors.end()) return {"", "only its bias is sharded"};
    return OfModule(LastPart(key), *weight->second.begin(), BiasOf(module));
  }

  static const AxisSharding* BiasOf(const Module& module) {
    const auto bias = module.tensors.find("bias");
    return bias == module.tensors.end() ? nullptr : &*bias->second.begin();
  }

  StyleOrReason OfExperts(const std::string& key,
                          const AxisSharding& sharding) const {
    const auto from_end =
        static_cast<int64_t>(sharding.rank) - 1 - sharding.split->dim;
    if (sharding.split->dim == 0) return {"grouped_gemm", ""};
    if (sharding.rank != 3) return {"", "no style shards this dimension"};
    if (from_end == 0) return {"rowwise", ""};
    if (LastPart(key).find("gate_up") == std::string_view::npos) {
      return {"colwise", ""};
    }
    if (!renamed_) {
      return {"",
              "it packs two projections, which this version of transformers "
              "cannot shard"};
    }
    return {"packed_colwise", ""};
  }

  StyleOrReason OfModule(std::string_view name, const AxisSharding& weight,
                         const AxisSharding* bias) const {
    const bool bias_split = bias != nullptr && bias->split.has_value();
    if (!weight.split) return {"", "only its bias is sharded"};
    if (weight.rank != 2) {
      return {"", "styles shard matrices, and it has " +
                      Counted(static_cast<int64_t>(weight.rank), "dimension")};
    }
    const Role role = Classify(name, '.').module_role;
    if (role != Role::kHead && NamesEmbedding(name)) {
      return {Embedding(weight.split->dim), ""};
    }
    if (weight.split->dim == 1) {
      if (bias_split) return {"", "`rowwise` replicates the bias"};
      return {"rowwise", ""};
    }
    if (bias != nullptr && !bias_split) {
      return {"", "`colwise` shards the bias with its weight"};
    }
    // The loss and sampling after the head need the whole vocabulary.
    if (role != Role::kHead) return {"colwise", ""};
    return {renamed_ ? "colwise_gather_output" : "colwise_rep", ""};
  }

  std::string Embedding(int64_t dim) const {
    const std::string_view kind = dim == 0 ? "rowwise" : "colwise";
    return (renamed_ ? "embedding_" : "") + std::string(kind);
  }

  const Request& request_;
  std::string axis_;
  bool renamed_;  // style names of transformers 5.1 and later
  std::map<std::string, Module> modules_;
  std::vector<std::string> order_;
};

// Whether version `4.57`, `5` or `5.16.1` uses the style names of 5.1. Returns
// nullopt and adds a finding if the text is not a version.
std::optional<bool> HasNewWords(const std::string& version,
                                Findings& findings) {
  if (version.empty()) return true;
  const size_t dot = version.find('.');
  const auto number = [](std::string_view text) -> std::optional<int> {
    if (text.empty() || text.size() > 3) return std::nullopt;
    int out = 0;
    for (const char c : text) {
      if (c < '0' || c > '9') return std::nullopt;
      out = 10 * out + (c - '0');
    }
    return out;
  };
  const std::string_view all = version;
  const auto major = number(all.substr(0, dot));
  const std::string_view rest =
      dot == std::string::npos ? "1" : all.substr(dot + 1);
  const auto minor = number(rest.substr(0, rest.find('.')));
  if (!major || !minor || *major < 4 || (*major == 4 && *minor < 50)) {
    findings.Add(
        code::kUsage,
        {MakeSource("--transformers", version), 0, version.size()},
        ShortQuote(version) +
            " is not a version of transformers with tensor parallel plans",
        "give 4.50 or a later version");
    return std::nullopt;
  }
  return *major > 5 || (*major == 5 && *minor >= 1);
}

void WriteHfTpPlan(const Request& request, Sink& out, Findings& findings) {
  const auto axis = TensorAxis(request, findings);
  const auto renamed = HasNewWords(request.options.version, findings);
  if (!axis || !renamed) return;
  if (SeparatorOf(request.plan) != '.') {
    findings.Add(code::kInexpressible, {},
                 "`hf-tp-plan` needs the module names of PyTorch, which are "
                 "separated by `.`",
                 "compile the plan from the manifest of the PyTorch model");
    return;
  }
  TpPlanWriter(request, *axis, *renamed).Write(out, findings);
}

}  // namespace

constexpr Exporter kHfTpPlan{
    "hf-tp-plan", "transformers' tensor parallel plan: styles of modules",
    "json", "--mode --axis --transformers", WriteHfTpPlan};

}  // namespace shardc::exports
