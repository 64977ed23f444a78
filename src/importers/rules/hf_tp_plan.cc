// Imports transformers' tensor parallel plans. A plan maps keys to styles. A
// key is the name of a parameter or of a module, with `*` for numbers. A
// parameter has the style of its own key or, if the plan has no such key, the
// style of its module's key. For example, this plan gives rules for the bias
// and the weight. The start `(?:^|\.)` of the patterns is omitted:
//
//   {"layers.*.mlp.down_proj": "rowwise"}
//     ->  layers\.[0-9]+\.mlp\.down_proj\.bias$ [],
//         layers\.[0-9]+\.mlp\.down_proj\.[^.]+$ [null, tp]
//
// Most styles shard a dimension that is counted from the last dimension, so the
// number of dimensions must be known. A manifest states it. With a manifest,
// keys that match no parameter get no rule. Without a manifest, a key of
// stacked experts is assumed to have three dimensions, or two if it is a bias.
// Embeddings are recognised by their names, because their weights are
// transposed.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "importers/rules/importer.h"
#include "model/name.h"
#include "source/json.h"
#include "source/wording.h"

namespace shardc::imports {
namespace {

// The dimension of a weight [out, in] that a style shards. A weight of stacked
// experts has the dimensions [experts, out, in].
enum class Split : uint8_t {
  kReplicated,
  kOut,
  kIn,
  kFirst,      // the dimension `experts` of stacked experts
  kPackedOut,  // `out` of a fused weight, such as gate and up
  kPackedIn,
  kEmbeddingRows,
  kEmbeddingColumns,
};

// The number of matrices that a packed weight holds.
constexpr int64_t kPackedParts = 2;

struct Style {
  std::string_view name;
  Split split = Split::kReplicated;
};

// The styles in the plans of old and new versions of transformers. If a style
// only reshards activations, the weights are replicated.
constexpr std::array kStyles = {
    Style{"colwise", Split::kOut},
    Style{"colwise_rep", Split::kOut},
    Style{"colwise_gather_output", Split::kOut},
    Style{"local_colwise", Split::kOut},
    Style{"colwise_allgather", Split::kOut},
    Style{"colwise_loss_parallel", Split::kOut},
    Style{"rowwise", Split::kIn},
    Style{"rowwise_rep", Split::kIn},
    Style{"rowwise_split_input", Split::kIn},
    Style{"local_rowwise", Split::kIn},
    Style{"rowwise_allreduce", Split::kIn},
    Style{"rowwise_reduce_scatter", Split::kIn},
    Style{"grouped_gemm", Split::kFirst},
    Style{"packed_colwise", Split::kPackedOut},
    Style{"local_packed_rowwise", Split::kPackedIn},
    Style{"packed_rowwise", Split::kPackedIn},
    Style{"embedding_rowwise", Split::kEmbeddingRows},
    Style{"vocab_allreduce", Split::kEmbeddingRows},
    Style{"vocab_reduce_scatter", Split::kEmbeddingRows},
    Style{"embedding_colwise", Split::kEmbeddingColumns},
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
    if (part.ends_with("experts")) return true;
  }
  return false;
}

// Returns the dimension that is sharded in a weight of this rank. Returns
// nullopt if the weight is replicated.
std::optional<size_t> DimOf(Split split, size_t rank) {
  switch (split) {
    case Split::kReplicated:
      return std::nullopt;
    case Split::kOut:
    case Split::kPackedOut:
      return rank >= 2 ? rank - 2 : 0;
    case Split::kIn:
    case Split::kPackedIn:
      return rank - 1;
    case Split::kFirst:
    case Split::kEmbeddingRows:
      return 0;
    case Split::kEmbeddingColumns:
      return 1;
  }
  return std::nullopt;
}

bool IsPacked(Split split) {
  return split == Split::kPackedOut || split == Split::kPackedIn;
}

// Returns a pattern for a key such as `layers.*.q_proj`. The pattern matches
// the key at the start of a name and after a dot: `q_proj` matches in
// `attn.q_proj` and not in `my_q_proj`.
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

struct Key {
  std::string name;
  Split split = Split::kReplicated;
  Place place;
  std::string generic;  // the name with `*` in place of numbers

  bool IsOfOneLayer() const { return generic != name; }
};

// Returns whether the name is the key, or ends with a dot followed by the key.
bool EndsWithKey(std::string_view name, std::string_view key) {
  return name == key ||
         (name.ends_with(key) && name[name.size() - key.size() - 1] == '.');
}

// Returns whether `a` takes precedence over `b` for names that match both. A
// key with a layer's number precedes a key with `*`. Otherwise, a longer key
// precedes a key that is its ending, as `mlp.up` precedes `up`.
bool HasPriority(const Key& a, const Key& b) {
  if (a.IsOfOneLayer() != b.IsOfOneLayer()) {
    return a.IsOfOneLayer() && (EndsWithKey(a.generic, b.generic) ||
                                EndsWithKey(b.generic, a.generic));
  }
  return a.name != b.name && EndsWithKey(a.name, b.name);
}

class TpPlan {
 public:
  explicit TpPlan(const Request& request)
      : axis_(request.axis.empty() ? "tp" : request.axis),
        symbol_(request.symbol),
        contiguous_(request.contiguous),
        manifest_(request.manifest) {}

  std::optional<Imported> Read(JsonValue root, Findings& findings) {
    const auto plan = PlanIn(root, findings);
    if (!plan) return std::nullopt;
    for (const JsonMember member : plan->members()) {
      if (!Add(member, findings)) return std::nullopt;
    }
    Imported out;
    out.separator = '.';
    bool all = false;
    if (manifest_ != nullptr) {
      if (!AddMatching(out, all, findings)) return std::nullopt;
    } else {
      for (const size_t key : KeysInOrder()) {
        AddRules(keys_[key]);
      }
      // The first matching rule is used. A parameter's own key takes precedence
      // over its module's key, so rules of parameters come first.
      for (auto* rules : {&of_params_, &of_modules_}) {
        for (ImportedRule& rule : *rules) out.rules.push_back(std::move(rule));
      }
    }
    if (all) return out;
    out.rules.push_back(RuleOf(".*", std::nullopt, plan->place()));
    out.rules.back().comments = {"What no key names is replicated."};
    return out;
  }

 private:
  // Returns the plan, which is the document's root or one of its members.
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
    Split split = style->split;
    if (NamesEmbedding(AfterLast(key, '.'))) {
      if (split == Split::kOut) split = Split::kEmbeddingColumns;
      if (split == Split::kIn) split = Split::kEmbeddingRows;
    }
    keys_.push_back({key, split, member.key.place(),
                     NameTemplate(key, '.', TemplateNumbers::kParts)});
    return true;
  }

  // Returns the indices of the keys in the order of the plan, with two
  // exceptions, because the first matching rule is used. A longer key precedes
  // a key that is its ending, and a key with a layer's number precedes a key
  // with `*`.
  std::vector<size_t> KeysInOrder() const {
    std::map<std::string_view, size_t> by_name;
    for (size_t i = 0; i < keys_.size(); ++i) by_name[keys_[i].name] = i;
    // The keys are sorted by these tuples. The first element is the smallest
    // index, in the plan, of the key and of all keys with which it ends. If
    // `up` has the index 0, it is 0 for `mlp.up` too. If the first elements are
    // equal, keys with a layer's number come first, and then keys with more
    // parts, so that `mlp.up` precedes `up`.
    std::vector<std::tuple<size_t, bool, int64_t, size_t>> order;
    for (size_t i = 0; i < keys_.size(); ++i) {
      const std::string& generic = keys_[i].generic;
      size_t first = i;
      int64_t parts = 0;
      for (size_t at = 0; at != std::string::npos; ++parts) {
        const auto found = by_name.find(std::string_view(generic).substr(at));
        if (found != by_name.end()) first = std::min(first, found->second);
        const size_t dot = generic.find('.', at);
        at = dot == std::string::npos ? dot : dot + 1;
      }
      order.emplace_back(first, !keys_[i].IsOfOneLayer(), -parts, i);
    }
    std::sort(order.begin(), order.end());
    std::vector<size_t> out;
    for (const auto& one : order) out.push_back(std::get<3>(one));
    return out;
  }

  void AddRules(const Key& one) {
    const auto& [key, split, place, generic] = one;
    const std::string pattern = KeyPattern(key);
    // The key may be the name of a parameter. Its rank is then assumed: 3 for
    // stacked experts, 2 for biases of experts and packed weights, and 1 for
    // all others.
    const size_t own_rank = !HasExperts(key)        ? (IsPacked(split) ? 2 : 1)
                            : key.ends_with("bias") ? 2
                                                    : 3;
    Put(of_params_, pattern + "$", split, own_rank, place);
    if (split == Split::kIn || split == Split::kPackedIn) {
      of_modules_.push_back(RuleOf(pattern + "\\.bias$", std::nullopt, place));
    } else if (imports::DimOf(split, 2) == 0) {
      of_modules_.push_back(RuleOf(pattern + "\\.bias$", 0, place));
    }
    Put(of_modules_, pattern + "\\.[^.]+$", split, 2, place);
  }

  // Returns the key that applies to a parameter or module, or null. A key
  // applies if the name ends with it. Keys with a layer's number are tried
  // first. Then keys with `*` are compared with the name in which `*` replaces
  // the numbers. If several keys apply, the longest is returned.
  const Key* KeyOf(std::string_view name) const {
    const std::string generic =
        NameTemplate(name, '.', TemplateNumbers::kParts);
    for (const bool of_one_layer : {true, false}) {
      const std::string_view whole = of_one_layer ? name : generic;
      for (size_t at = 0; at != std::string_view::npos;) {
        const auto found = by_name_.find(whole.substr(at));
        if (found != by_name_.end() &&
            keys_[found->second].IsOfOneLayer() == of_one_layer) {
          return &keys_[found->second];
        }
        const size_t dot = whole.find('.', at);
        at = dot == std::string_view::npos ? dot : dot + 1;
      }
    }
    return nullptr;
  }

  // The parameters of one rule. They have the same key and the same last part
  // of the name.
  struct Match {
    const Key* key = nullptr;
    // If the key is the name of a module, this is the last part of the
    // parameter's name, such as ".weight". A part that is a number is stored as
    // ".*". Empty if the key is the parameter's own name.
    std::string leaf;
    size_t rank = 0;
    Shape shape;  // of the first parameter; empty if it is unknown
    // Whether the files store the matrix as [in, out], although the plan is
    // written for [out, in].
    bool transposed = false;

    // Returns the dimension of the stored matrix that the style shards.
    Split StoredSplit() const {
      if (!transposed) return key->split;
      switch (key->split) {
        case Split::kOut:
          return Split::kIn;
        case Split::kIn:
          return Split::kOut;
        case Split::kPackedOut:
          return Split::kPackedIn;
        case Split::kPackedIn:
          return Split::kPackedOut;
        default:
          return key->split;
      }
    }
  };

  // Adds the rules for the parameters of the manifest. If a key names a module,
  // the module's parameters get one rule for each last part of their names,
  // such as `weight` and `bias`. Sets `all` to whether each parameter has a
  // rule. Returns false after a finding (inexpressible) if the parameters of
  // one rule have different ranks, so that the style shards different
  // dimensions of them.
  bool AddMatching(Imported& out, bool& all, Findings& findings) {
    bool numbered = false;  // whether some key contains a layer's number
    for (size_t i = 0; i < keys_.size(); ++i) {
      by_name_[keys_[i].name] = i;
      numbered = numbered || keys_[i].IsOfOneLayer();
    }
    std::map<std::string, Match> matches;  // keyed by pattern
    std::set<std::string> seen;
    std::set<const Key*> used;
    all = true;
    for (const Tensor& tensor : manifest_->tensors) {
      std::string name =
          numbered ? std::string(tensor.name)
                   : NameTemplate(tensor.name, '.', TemplateNumbers::kParts);
      const auto& shape = manifest_->TypeOf(tensor).shape;
      Match match = MatchOf(name, used);
      match.rank = shape ? shape->size() : 2;
      if (shape) match.shape = *shape;
      if (match.key == nullptr) {
        all = false;
        continue;
      }
      if (!seen.insert(name + "/" + std::to_string(match.rank)).second) {
        continue;
      }
      const std::string pattern =
          KeyPattern(match.key->name) +
          (match.leaf == ".*" ? "\\.[0-9]+" : Literal(match.leaf)) + "$";
      const auto [at, fresh] = matches.try_emplace(pattern, match);
      if (fresh || DimOf(at->second) == DimOf(match)) continue;
      findings.Add(code::kInexpressible, match.key->place,
                   "the style of " + ShortQuote(match.key->name) +
                       " shards parameters with different numbers of "
                       "dimensions, such as " +
                       ShortQuote(tensor.name));
      return false;
    }
    FindTransposed(matches);
    PutInOrder(matches, out);
    NameUnused(used, out);
    return true;
  }

  // Finds stacked experts that the files store transposed. transformers
  // transposes them when it loads them, and its plan shards the loaded weights.
  // The matrices into and out of the experts share the inner size, and the plan
  // shards both along it. If the sharded dimensions have different sizes and
  // the other two have this property, the files are transposed:
  //
  //   gate_up_proj "packed_colwise", down_proj "rowwise"
  //   [128, 1536, 2048] and [128, 2048, 768]  ->  1536 = 2 * 768: as loaded
  //   [128, 2048, 1536] and [128, 768, 2048]  ->  2048 and 2048 are sharded,
  //                                               and 1536 = 2 * 768 are not
  static void FindTransposed(std::map<std::string, Match>& matches) {
    const auto parent = [](const Match& match) {
      const std::string& name = match.key->name;
      return name.substr(0, name.size() - AfterLast(name, '.').size());
    };
    // Returns the size of the dimension that the style shards (or, if `other`,
    // of the other one) in one of the matrices that the weight holds.
    const auto inner = [](const Match& match, bool other) {
      const auto dim = imports::DimOf(match.key->split, match.rank);
      const size_t last = match.rank - 1;
      const size_t at = !other ? *dim : *dim == last ? last - 1 : last;
      const int64_t parts = IsPacked(match.key->split) ? kPackedParts : 1;
      return match.shape[at] % parts == 0 ? match.shape[at] / parts : -1;
    };
    const auto is = [](const Match& match, Split one, Split packed) {
      return match.shape.size() == 3 &&
             (match.key->split == one || match.key->split == packed);
    };
    for (auto& [pattern, out] : matches) {
      if (!is(out, Split::kOut, Split::kPackedOut)) continue;
      for (auto& [other, in] : matches) {
        if (!is(in, Split::kIn, Split::kPackedIn) ||
            parent(in) != parent(out) || in.leaf != out.leaf ||
            in.shape.front() != out.shape.front()) {
          continue;
        }
        // A weight that holds gate and up may be sharded as one matrix.
        const int64_t reads = inner(in, false), gives = inner(out, false);
        const bool both =
            !IsPacked(out.key->split) && gives == kPackedParts * reads;
        if (reads != gives && !both && inner(in, true) == inner(out, true)) {
          in.transposed = out.transposed = true;
        }
      }
    }
  }

  // Finds the key of a parameter. Adds to `used` this key, and the keys of all
  // modules that contain the parameter.
  Match MatchOf(const std::string& name, std::set<const Key*>& used) const {
    Match match;
    match.key = KeyOf(name);
    used.insert(match.key);
    size_t dot = name.rfind('.');
    if (match.key == nullptr && dot != std::string::npos) {
      match.key = KeyOf(std::string_view(name).substr(0, dot));
      match.leaf = name.substr(dot);
    }
    while (dot != std::string::npos && dot > 0) {
      used.insert(KeyOf(std::string_view(name).substr(0, dot)));
      dot = name.rfind('.', dot - 1);
    }
    return match;
  }

  // Returns the dimension that the style shards, or nullopt if the parameter is
  // replicated. A vector (a tensor of rank 1) has no input dimension, so a
  // vector of a `rowwise` module is replicated. If the key names the vector
  // itself, such as attention sinks, the vector is sharded unless it is a bias.
  static std::optional<size_t> DimOf(const Match& match) {
    const Split split = match.StoredSplit();
    const bool own =
        match.leaf.empty() && AfterLast(match.key->name, '.') != "bias";
    const bool by_input =
        split == Split::kPackedIn || (split == Split::kIn && !own);
    if (match.rank < (by_input ? size_t{2} : size_t{1})) return std::nullopt;
    const auto dim = imports::DimOf(split, match.rank);
    return dim && *dim < match.rank ? dim : std::nullopt;
  }

  // Adds the rules in the order of the plan, except where the first matching
  // rule would be wrong. A parameter's own key precedes its module's key, a key
  // with a layer's number precedes a key with `*`, and a longer key precedes a
  // key that is its ending.
  void PutInOrder(const std::map<std::string, Match>& matches, Imported& out) {
    std::vector<const std::pair<const std::string, Match>*> sorted;
    for (const auto& match : matches) sorted.push_back(&match);
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
      const bool a_module = !a->second.leaf.empty();
      const bool b_module = !b->second.leaf.empty();
      return std::tuple(a_module, a->second.key, a->second.leaf) <
             std::tuple(b_module, b->second.key, b->second.leaf);
    });
    // Adds the first remaining rule. If another remaining rule must precede it,
    // adds that rule instead, and checks that rule in the same way.
    while (!sorted.empty()) {
      auto next = sorted.begin();
      for (auto before = next; before != sorted.end();) {
        next = before;
        before =
            std::find_if(sorted.begin(), sorted.end(), [&](const auto* other) {
              const bool module = !other->second.leaf.empty();
              return module == !(*next)->second.leaf.empty() &&
                     HasPriority(*other->second.key, *(*next)->second.key);
            });
      }
      const auto& [pattern, match] = **next;
      out.rules.push_back(RuleOf(pattern, DimOf(match), match.key->place));
      SetParts(match.StoredSplit(), match.rank, out.rules.back());
      if (match.transposed) {
        out.rules.back().comments.push_back(
            "The files store these experts as [experts, in, out], and the plan "
            "shards them as [experts, out, in].");
      }
      sorted.erase(next);
    }
  }

  // Adds a note that lists the keys that match no parameter or module of the
  // manifest.
  void NameUnused(const std::set<const Key*>& used, Imported& out) const {
    std::string names;
    for (const Key& key : keys_) {
      if (used.contains(&key)) continue;
      names += (names.empty() ? "`" : ", `") + key.name + "`";
    }
    if (names.empty()) return;
    out.comments.push_back("Keys that name nothing here: " + names + ".");
  }

  void Put(std::vector<ImportedRule>& rules, std::string pattern, Split split,
           size_t rank, const Place& place) {
    rules.push_back(
        RuleOf(std::move(pattern), imports::DimOf(split, rank), place));
    SetParts(split, rank, rules.back());
  }

  // A packed weight holds two matrices, and transformers gives a device the
  // same range of each of them (a _StridedShard with a split factor of 2): rows
  // 0, 1, 4 and 5 of 8 on the first of two devices. With `--contiguous`, the
  // device gets rows 0 to 3. transformers shards a vector of a packed module,
  // such as a bias, as one.
  void SetParts(Split split, size_t rank, ImportedRule& rule) const {
    if (!IsPacked(split)) return;
    const auto& spec = std::get<SpecList>(rule.rule.spec).entries;
    if (contiguous_ || rank < 2 || spec.empty()) {
      rule.comments = {
          "Two matrices in one weight: transformers shards each of them."};
      return;
    }
    rule.rule.parts.resize(spec.size());
    rule.rule.parts.back().count = kPackedParts;
    rule.comments = {"Two matrices in one weight, each of which is sharded."};
  }

  ImportedRule RuleOf(std::string pattern, std::optional<size_t> dim,
                      const Place& place) const {
    ImportedRule out;
    out.rule.match = std::move(pattern);
    SpecList list;
    list.place = place;
    if (dim) {
      list.entries.resize(*dim + 1);
      list.entries.back().names.push_back({axis_, place, true});
    }
    out.rule.spec = std::move(list);
    out.rule.place = out.rule.match_place = place;
    return out;
  }

  std::string axis_, symbol_;
  bool contiguous_;
  const Manifest* manifest_;
  std::vector<Key> keys_;  // in the order of the plan
  std::map<std::string, size_t, std::less<>> by_name_;  // index in `keys_`
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
    "--symbol --axis --contiguous", ReadHfTpPlan};

}  // namespace shardc::imports
