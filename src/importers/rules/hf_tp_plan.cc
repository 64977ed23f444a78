// Imports transformers' tensor parallel plans. Numbers in parameter names
// become `*`. A parameter has the style of its own name, else of its module's:
//
//   {"layers.*.mlp.down_proj": "rowwise"}
//     ->  layers\.[0-9]+\.mlp\.down_proj\.bias$ [], ...\.[^.]+$ [null, tp]
//
// The dimension that a style shards counts from the last. The tensors of
// experts that are parameters of their module have three dimensions. Embeddings
// are recognised by name, as their weights are transposed.
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "importers/rules/importer.h"
#include "importers/rules/pattern.h"
#include "model/name.h"
#include "source/after_last.h"
#include "source/json.h"
#include "source/wording.h"

namespace shardc::imports {
namespace {

// The effect of a style on a weight [out, in]; an expert's is [experts, out,
// in].
enum class Cut : uint8_t {
  kWhole,
  kOut,
  kIn,
  kFirst,      // experts
  kPackedOut,  // each of the parts packed into the dimension
  kPackedIn,
  kEmbeddingRows,
  kEmbeddingColumns,
};

struct Style {
  std::string_view name;
  Cut cut = Cut::kWhole;
};

// Styles of all versions from 4.5 on. A style that only moves activations
// leaves its weights replicated.
constexpr std::array kStyles = {
    Style{"colwise", Cut::kOut},
    Style{"colwise_rep", Cut::kOut},
    Style{"colwise_gather_output", Cut::kOut},
    Style{"local_colwise", Cut::kOut},
    Style{"colwise_allgather", Cut::kOut},
    Style{"colwise_loss_parallel", Cut::kOut},
    Style{"rowwise", Cut::kIn},
    Style{"rowwise_rep", Cut::kIn},
    Style{"rowwise_split_input", Cut::kIn},
    Style{"local_rowwise", Cut::kIn},
    Style{"rowwise_allreduce", Cut::kIn},
    Style{"rowwise_reduce_scatter", Cut::kIn},
    Style{"grouped_gemm", Cut::kFirst},
    Style{"packed_colwise", Cut::kPackedOut},
    Style{"local_packed_rowwise", Cut::kPackedIn},
    Style{"packed_rowwise", Cut::kPackedIn},
    Style{"embedding_rowwise", Cut::kEmbeddingRows},
    Style{"vocab_allreduce", Cut::kEmbeddingRows},
    Style{"vocab_reduce_scatter", Cut::kEmbeddingRows},
    Style{"embedding_colwise", Cut::kEmbeddingColumns},
    Style{"sequence_parallel"},
    Style{"replicate"},
    Style{"replicated_with_grad_allreduce"},
    Style{"local"},
    Style{"local_params"},
    Style{"gather"},
    Style{"all_reduce"},
    Style{"activation"},
    Style{"module_allgather"},
    Style{"moe_tp_experts"},
    Style{"moe_identity_expert"},
    Style{"moe_experts_allreduce"},
    Style{"ep_router"},
    Style{"ep_dispatch_experts"},
    Style{"megamoe_router"},
    Style{"megamoe_experts"},
    Style{"mla_kv_a_proj"},
};

const Style* FindStyle(std::string_view name) {
  for (const Style& style : kStyles) {
    if (style.name == name) return &style;
  }
  return nullptr;
}

bool HasExperts(std::string_view key) {
  for (const std::string_view part : SplitName(key, '.')) {
    if (part == "experts") return true;
  }
  return false;
}

// Returns the sharded dimension of a weight of that rank; nullopt if it is
// replicated.
std::optional<size_t> DimOf(Cut cut, size_t rank) {
  switch (cut) {
    case Cut::kWhole:
      return std::nullopt;
    case Cut::kOut:
    case Cut::kPackedOut:
      return rank >= 2 ? rank - 2 : 0;
    case Cut::kIn:
    case Cut::kPackedIn:
      return rank - 1;
    case Cut::kFirst:
    case Cut::kEmbeddingRows:
      return 0;
    case Cut::kEmbeddingColumns:
      return 1;
  }
  return std::nullopt;
}

// Matches `layers.*.q_proj` anywhere in a name, from the start of a part.
std::string KeyPattern(std::string_view key) {
  std::string out = "(?:^|\\.)";
  bool first = true;
  for (const std::string_view part : SplitName(key, '.')) {
    if (!first) out += "\\.";
    first = false;
    out += part == "*" ? "[0-9]+" : Literal(part);
  }
  return out;
}

class TpPlan {
 public:
  explicit TpPlan(const Request& request)
      : axis_(request.axis.empty() ? "tp" : request.axis),
        symbol_(request.symbol) {}

  std::optional<Imported> Read(JsonValue root, Findings& findings) {
    const auto plan = PlanIn(root, findings);
    if (!plan) return std::nullopt;
    for (const JsonMember member : plan->members()) {
      if (!Add(member, findings)) return std::nullopt;
    }
    // A parameter's own key has priority over its module's.
    Imported out;
    out.separator = '.';
    for (auto* rules : {&of_params_, &of_modules_}) {
      for (ImportedRule& rule : *rules) out.rules.push_back(std::move(rule));
    }
    out.rules.push_back(RuleOf(".*", std::nullopt, plan->place()));
    out.rules.back().comments = {"What no key names is replicated."};
    return out;
  }

 private:
  // Returns the plan itself, or the member that contains it.
  std::optional<JsonValue> PlanIn(JsonValue root, Findings& findings) const {
    const std::array<std::string_view, 4> members = {"tp_plan", "_tp_plan",
                                                     "base_model_tp_plan", ""};
    for (std::string_view member : members) {
      if (!symbol_.empty()) member = symbol_;
      const auto value = member.empty() || !root.IsObject()
                             ? std::optional(root)
                             : root.Find(member);
      if (value && value->IsObject() && value->size() > 0) return value;
      if (!symbol_.empty()) break;
    }
    findings.Add(code::kSchema, root.place(),
                 symbol_.empty() ? "this is no plan of names and styles"
                                 : "this holds no plan " + ShortQuote(symbol_));
    return std::nullopt;
  }

  bool Add(const JsonMember& member, Findings& findings) {
    const std::string key(member.name());
    const Style* style =
        member.value.IsString() ? FindStyle(member.value.string()) : nullptr;
    if (style == nullptr) {
      findings.Add(code::kInexpressible, member.value.place(),
                   member.value.IsString()
                       ? "the style " + ShortQuote(member.value.string()) +
                             " is not known"
                       : "a style is a word");
      return false;
    }
    Cut cut = style->cut;
    if (NamesEmbedding(AfterLast(key, '.'))) {
      if (cut == Cut::kOut) cut = Cut::kEmbeddingColumns;
      if (cut == Cut::kIn) cut = Cut::kEmbeddingRows;
    }
    const Place place = member.key.place();
    const std::string pattern = KeyPattern(key);
    // Only experts are tensors without a module of their own.
    const size_t own_rank = !HasExperts(key)        ? 1
                            : key.ends_with("bias") ? 2
                                                    : 3;
    Put(of_params_, pattern + "$", cut, own_rank, place);
    if (cut == Cut::kIn || cut == Cut::kPackedIn) {
      of_modules_.push_back(RuleOf(pattern + "\\.bias$", std::nullopt, place));
    } else if (DimOf(cut, 2) == 0) {
      of_modules_.push_back(RuleOf(pattern + "\\.bias$", 0, place));
    }
    Put(of_modules_, pattern + "\\.[^.]+$", cut, 2, place);
    return true;
  }

  void Put(std::vector<ImportedRule>& rules, std::string pattern, Cut cut,
           size_t rank, const Place& place) {
    rules.push_back(RuleOf(std::move(pattern), DimOf(cut, rank), place));
    if (cut == Cut::kPackedOut || cut == Cut::kPackedIn) {
      rules.back().comments = {
          "Packed one part after the other: a loader cuts part by part."};
    }
  }

  ImportedRule RuleOf(std::string pattern, std::optional<size_t> dim,
                      const Place& place) const {
    ImportedRule out;
    out.rule.match = std::move(pattern);
    SpecList list;
    list.place = place;
    if (dim) {
      list.entries.resize(*dim + 1);
      list.entries.back().names.push_back({axis_, place});
    }
    out.rule.spec = std::move(list);
    out.rule.place = out.rule.match_place = place;
    return out;
  }

  std::string axis_, symbol_;
  std::vector<ImportedRule> of_params_, of_modules_;
};

std::optional<Imported> ReadHfTpPlan(const Request& request,
                                     Findings& findings) {
  const auto document = JsonDocument::Parse(request.source, findings);
  if (!document) return std::nullopt;
  return TpPlan(request).Read(document->root(), findings);
}

}  // namespace

constexpr Importer kHfTpPlan{
    "hf-tp-plan",
    "transformers' tensor parallel plan in JSON: names and styles",
    "--symbol --axis", ReadHfTpPlan};

}  // namespace shardc::imports
