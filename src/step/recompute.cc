// Finds the forward ops that are repeated in the backward phase. For each
// layer, a search starts from the values that the layer's backward ops read. It
// visits the layer's forward ops in reverse order until it reaches values that
// are kept. The visited ops are copied to the backward phase, in their order
// and with the same random keys. Values that the search does not reach are
// neither kept nor rematerialised.
//
// The following examples show two policies. `d:` marks a backward op, and `r:`
// marks the copy of a forward op:
//
//   nothing_saveable   d:linear q reads the normed input, and r:rmsnorm norm1
//                      computes it from the layer's input, which is kept
//   dots_saveable      d:swiglu reads gate and up, which are products and kept
#include "step/recompute.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/list.h"
#include "source/other_words.h"
#include "source/size.h"
#include "source/wording.h"
#include "step/op_def.h"

namespace shardc::step {
namespace {

// The names by which rematerialisation policies list the results of
// projections. `role` is the last part of the role of the projection's weight,
// such as q. `name` is the result's name, and `also` its name in MaxText.
struct NamedTensor {
  std::string_view role, name, also;
};
constexpr std::array<NamedTensor, 10> kNamed = {{
    {"q", "q_proj", "query_proj"},
    {"k", "k_proj", "key_proj"},
    {"v", "v_proj", "value_proj"},
    {"qkv", "qkv_proj", "qkv_proj"},
    {"o", "out_proj", "out_proj"},
    {"gate", "gate_proj", "mlpwi_0"},
    {"gate_up", "gate_proj", "mlpwi_0"},
    {"up", "up_proj", "mlpwi_1"},
    {"down", "down_proj", "mlpwo"},
    {"router", "router", "router"},
}};
constexpr NamedTensor kContext = {"", "context", "context"};

const NamedTensor* TensorOf(std::string_view role) {
  role = AfterLast(role, '.');
  const auto* const found =
      std::find_if(kNamed.begin(), kNamed.end(),
                   [&](const NamedTensor& one) { return one.role == role; });
  return found == kNamed.end() ? nullptr : found;
}

class Recomputer {
 public:
  Recomputer(Graph& graph, const Remat& policy)
      : graph_(graph), policy_(policy) {}

  void Run() {
    FindForward();
    FindCandidates();
    std::vector<Op> ops = std::move(graph_.ops);
    FindOpsOfLayers(ops);
    graph_.ops.clear();
    graph_.ops.reserve(ops.size() * 2);
    std::vector<char> entered(layers_, 0);
    for (size_t i = 0; i < ops.size(); ++i) {
      Op& op = ops[i];
      if (op.phase == Phase::kBackward && op.layer >= 0) {
        if (entered[AsIndex(op.layer)] == 0) {
          entered[AsIndex(op.layer)] = 1;
          AppendRecomputed(ops, op.layer);
        }
        for (ValueId& value : op.in) value = NewOf(value);
      }
      graph_.ops.push_back(std::move(op));
    }
  }

 private:
  ValueId NewOf(ValueId value) const {
    const ValueId made =
        AsIndex(value) < new_.size() ? new_[AsIndex(value)] : kNoValue;
    return made == kNoValue ? value : made;
  }

  // Finds the layer that owns each value. Inputs, and values that other layers
  // read, have no owner and are always kept.
  void FindForward() {
    const size_t values = graph_.values.size();
    producer_.assign(values, -1);
    owner_.assign(values, -1);
    new_.assign(values, kNoValue);
    weight_.assign(values, nullptr);
    for (const Parameter& parameter : graph_.parameters) {
      weight_[AsIndex(parameter.value)] = &parameter;
    }
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      layers_ = std::max(layers_, AsIndex(op.layer + 1));
      if (op.phase != Phase::kForward) continue;
      producer_[AsIndex(op.out)] = static_cast<int32_t>(i);
      if (op.kind != OpKind::kInput) owner_[AsIndex(op.out)] = op.layer;
      for (ValueId value : op.in) {
        if (owner_[AsIndex(value)] != op.layer) owner_[AsIndex(value)] = -1;
      }
    }
  }

  void FindCandidates() {
    candidates_.assign(graph_.values.size(), {});
    for (const Op& op : graph_.ops) {
      if (op.phase != Phase::kForward || op.kind == OpKind::kInput) continue;
      Candidate& what = candidates_[AsIndex(op.out)];
      what.made = MadeBy(op);
      const NamedTensor* const tensor = NamedBy(op);
      if (tensor == nullptr) {
        if (KeepsName(op)) Name(candidates_[AsIndex(op.in[0])], what);
        continue;
      }
      what.named = true;
      what.name = tensor->name;
      what.also = tensor->also;
    }
  }

  static void Name(const Candidate& from, Candidate& to) {
    to.named = from.named;
    to.name = from.name;
    to.also = from.also;
  }

  // Returns whether rematerialisation policies use the operand's name for the
  // op's result. Adding a bias or splitting heads does not change the name of a
  // projection.
  bool KeepsName(const Op& op) const {
    if (DefOf(op.kind).keeps_name) return true;
    return op.kind == OpKind::kAdd && op.in.size() == 2 &&
           weight_[AsIndex(op.in[1])] != nullptr;
  }

  const NamedTensor* NamedBy(const Op& op) const {
    if (op.constraint == "attn_out") return &kContext;
    if (op.kind != OpKind::kEinsum || op.in[0] == op.in[1]) return nullptr;
    for (ValueId value : op.in) {
      const Parameter* const of = weight_[AsIndex(value)];
      if (of != nullptr && MadeBy(op) != Made::kOther)
        return TensorOf(of->role);
    }
    return nullptr;
  }

  // Returns the kind of op that computes a tensor. As in jax.lax.dot_general, a
  // dimension that both operands have is a batch dimension if the result has
  // it, and is contracted otherwise.
  Made MadeBy(const Op& op) const {
    if (op.kind != OpKind::kEinsum || op.in[0] == op.in[1]) return Made::kOther;
    const auto& a = graph_.values[AsIndex(op.in[0])].labels;
    const auto& b = graph_.values[AsIndex(op.in[1])].labels;
    const auto& out = graph_.values[AsIndex(op.out)].labels;
    const auto in = [](const std::vector<LabelId>& labels, LabelId label) {
      return IsAmong(label, labels);
    };
    bool contracts = false, batch = false;
    for (LabelId label : a) {
      if (!in(b, label)) continue;
      (in(out, label) ? batch : contracts) = true;
    }
    if (!contracts) return Made::kOther;
    return batch ? Made::kBatchDot : Made::kDot;
  }

  void FindOpsOfLayers(const std::vector<Op>& ops) {
    forward_.resize(layers_);
    backward_.resize(layers_);
    for (size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].layer < 0) continue;
      auto& of = ops[i].phase == Phase::kForward ? forward_ : backward_;
      of[AsIndex(ops[i].layer)].push_back(i);
    }
    recompute_.assign(ops.size(), 0);
  }

  void AppendRecomputed(const std::vector<Op>& ops, int32_t layer) {
    for (const size_t i : backward_[AsIndex(layer)]) {
      for (ValueId value : ops[i].in) MarkNeeded(value, layer);
    }
    for (const size_t i : forward_[AsIndex(layer)]) {
      if (recompute_[i] == 0) continue;
      // The copy refers to the forward op by its index in the new list of ops.
      // This index is the same as in `ops`, because all forward ops come before
      // the first backward op.
      Op op = graph_.ops[i];
      op.phase = Phase::kBackward;
      op.recompute_of = static_cast<int32_t>(i);
      op.name = "r:" + op.name;
      for (ValueId& value : op.in) value = NewOf(value);
      graph_.values.push_back(graph_.values[AsIndex(op.out)]);
      const auto made = static_cast<ValueId>(graph_.values.size() - 1);
      new_[AsIndex(op.out)] = made;
      op.out = made;
      graph_.ops.push_back(std::move(op));
    }
  }

  void MarkNeeded(ValueId value, int32_t layer) {
    std::vector<ValueId> open = {value};
    while (!open.empty()) {
      const ValueId one = open.back();
      open.pop_back();
      if (AsIndex(one) >= owner_.size() || owner_[AsIndex(one)] != layer)
        continue;
      const int32_t producer = producer_[AsIndex(one)];
      if (producer < 0 || recompute_[AsIndex(producer)] != 0) continue;
      if (Keeps(policy_, candidates_[AsIndex(one)])) continue;
      recompute_[AsIndex(producer)] = 1;
      const Op& op = graph_.ops[AsIndex(producer)];
      open.insert(open.end(), op.in.begin(), op.in.end());
    }
  }

  Graph& graph_;
  const Remat& policy_;
  size_t layers_ = 0;
  // Indexed by ValueId: the index of the forward op that computes the value.
  std::vector<int32_t> producer_;
  // Indexed by ValueId: the layer of the value; -1 if it is always kept.
  std::vector<int32_t> owner_;
  std::vector<const Parameter*> weight_;
  std::vector<Candidate> candidates_;
  std::vector<ValueId> new_;
  // Indexed by op: 1 if the backward pass repeats the op, else 0.
  std::vector<char> recompute_;
  // For each layer, the indices of its forward ops and of its backward ops.
  std::vector<std::vector<size_t>> forward_, backward_;
};

}  // namespace

void Recompute(Graph& graph, const Remat& policy) {
  if (policy.Recomputes()) Recomputer(graph, policy).Run();
}

// Parses rematerialisation policies. A policy is a name, which may be followed
// by tensor names or by two policies in parentheses. A tensor that a policy
// keeps is stored only if the backward pass or the rematerialised forward pass
// of its layer reads it, because JAX does not store other tensors:
//
//   dots_saveable stores q_proj, but not down_proj, which only the next layer
//   reads

namespace {

struct Named {
  std::string_view name;
  Keep keep;
};
constexpr std::array<Named, 10> kPolicies = {{
    {"everything_saveable", Keep::kEverything},
    {"nothing_saveable", Keep::kNothing},
    {"dots_saveable", Keep::kDots},
    {"checkpoint_dots", Keep::kDots},
    {"dots_with_no_batch_dims_saveable", Keep::kDotsWithoutBatch},
    {"checkpoint_dots_with_no_batch_dims", Keep::kDotsWithoutBatch},
    {"save_anything_except_these_names", Keep::kAnythingExcept},
    {"save_any_names_but_these", Keep::kAnyNamesBut},
    {"save_only_these_names", Keep::kOnlyNames},
    {"save_from_both_policies", Keep::kFromBoth},
}};
constexpr int kMostDeep = 8;
// JAX's policies that move tensors to the host's memory.
constexpr std::array<std::string_view, 2> kOffloading = {
    "offload_dot_with_no_batch_dims", "save_and_offload_only_these_names"};

constexpr auto kNames = [] {
  std::array<std::string_view, kPolicies.size()> out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = kPolicies[i].name;
  return out;
}();

// The names that a policy such as save_only_these_names can list.
constexpr std::array<std::string_view, 19> kTensorNames = {
    "layer_input", "decoder_layer_input",
    "q_proj",      "query_proj",
    "k_proj",      "key_proj",
    "v_proj",      "value_proj",
    "qkv_proj",    "context",
    "out_proj",    "gate_proj",
    "mlpwi_0",     "up_proj",
    "mlpwi_1",     "mlpwi",
    "down_proj",   "mlpwo",
    "router"};

// Further tensors that save_anything_except_these_names can list. The modules
// that Megatron recomputes consist of them: its `layernorm` does not keep
// `norm`, `mla_up_proj` not `latent_up`, `moe_act` not `product`, and `moe` not
// `gate_proj`, `product`, `dispatched` and `router`.
constexpr std::array<std::string_view, 4> kModuleTensors = {
    "norm", "latent_up", "product", "dispatched"};

std::string ListOf(std::span<const std::string_view> names) {
  return Join(names, ", ");
}

std::string PolicyList() { return "the policies are: " + ListOf(kNames); }
std::string TensorList() { return "the tensors are: " + ListOf(kTensorNames); }

std::string_view Trimmed(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\n'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

// Splits the text at those commas that are not in parentheses.
std::vector<std::string_view> Parts(std::string_view text) {
  std::vector<std::string_view> out;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c != ',' || (depth != 0 && i < text.size())) continue;
    const std::string_view part = Trimmed(text.substr(begin, i - begin));
    if (!part.empty()) out.push_back(part);
    begin = i + 1;
  }
  return out;
}

bool TakesNames(Keep keep) {
  return keep == Keep::kAnythingExcept || keep == Keep::kAnyNamesBut ||
         keep == Keep::kOnlyNames;
}

std::optional<Remat> ParseRematPolicy(std::string_view text, int depth,
                                      RematRefusal& refusal);

bool TakeParts(const std::vector<std::string_view>& parts, int depth,
               Remat& policy, RematRefusal& refusal) {
  if (policy.keep == Keep::kFromBoth) {
    for (std::string_view part : parts) {
      auto one = ParseRematPolicy(part, depth + 1, refusal);
      if (!one) return false;
      policy.both.push_back(std::move(*one));
    }
    if (policy.both.size() == 2) return true;
    refusal = {"`save_from_both_policies` takes two policies",
               "write save_from_both_policies(dots_saveable,"
               "save_only_these_names(context))"};
    return false;
  }
  if (!TakesNames(policy.keep)) {
    if (parts.empty()) return true;
    refusal = {"this policy takes no names",
               "leave out the names and the parentheses"};
    return false;
  }
  for (std::string_view part : parts) {
    const bool of_module =
        policy.keep == Keep::kAnythingExcept && IsAmong(part, kModuleTensors);
    if (!of_module && !IsAmong(part, kTensorNames)) {
      const std::string near = DidYouMean(part, kTensorNames);
      refusal = {ShortQuote(part) + " is no name of a tensor" +
                     (near.empty() ? "" : "; " + near),
                 TensorList()};
      return false;
    }
    policy.names.emplace_back(part);
  }
  if (!policy.names.empty()) return true;
  refusal = {"a policy of names takes some, such as (q_proj,context)",
             TensorList()};
  return false;
}

std::optional<Remat> ParseRematPolicy(std::string_view text, int depth,
                                      RematRefusal& refusal) {
  text = Trimmed(text);
  const size_t open = std::min(text.find('('), text.size());
  const std::string_view name = Trimmed(text.substr(0, open));
  const auto* const known =
      std::find_if(kPolicies.begin(), kPolicies.end(),
                   [&](const Named& one) { return one.name == name; });
  if (known == kPolicies.end()) {
    if (IsAmong(name, kOffloading)) {
      refusal = {ShortQuote(name) +
                     " moves tensors to the host, which is not supported",
                 PolicyList()};
      return std::nullopt;
    }
    const std::string other = HelpForOtherWord("remat", name);
    const std::string near = other.empty() ? DidYouMean(name, kNames) : "";
    refusal = {
        ShortQuote(name) + " is no policy" + (near.empty() ? "" : "; " + near),
        other.empty() ? PolicyList() : other};
    return std::nullopt;
  }
  if (open != text.size() && text.back() != ')') {
    refusal = {"a parenthesis is not closed", "add `)`"};
    return std::nullopt;
  }
  if (depth > kMostDeep) {
    refusal = {
        "policies are nested more than " + std::to_string(kMostDeep) + " deep",
        "combine fewer policies"};
    return std::nullopt;
  }
  Remat out;
  out.keep = known->keep;
  out.text = text;
  std::string_view inner;
  if (open < text.size()) {
    inner = text.substr(open + 1, text.size() - open - 2);
  }
  if (!TakeParts(Parts(inner), depth, out, refusal)) return std::nullopt;
  return out;
}

bool IsNamed(const Remat& policy, const Candidate& tensor) {
  return std::any_of(
      policy.names.begin(), policy.names.end(), [&](const std::string& name) {
        return name == tensor.name || name == tensor.also ||
               // In MaxText `mlpwi` names both projections, gate and up.
               (name == "mlpwi" && tensor.also.starts_with("mlpwi"));
      });
}

}  // namespace

std::span<const std::string_view> RematNames() { return kNames; }

std::optional<Remat> ParseRemat(std::string_view text, RematRefusal& refusal) {
  return ParseRematPolicy(text, 0, refusal);
}

std::optional<Remat> ParseRemat(std::string_view text, std::string& why) {
  RematRefusal refusal;
  auto out = ParseRemat(text, refusal);
  if (!out) why = std::move(refusal.why);
  return out;
}

bool Keeps(const Remat& policy, const Candidate& tensor) {
  if (tensor.made == Made::kCarried) return true;
  const bool dot = tensor.made == Made::kDot;
  switch (policy.keep) {
    case Keep::kEverything:
      return tensor.read;
    case Keep::kNothing:
      return false;
    case Keep::kDots:
      return tensor.spares && (dot || tensor.made == Made::kBatchDot);
    case Keep::kDotsWithoutBatch:
      return tensor.spares && dot;
    case Keep::kAnythingExcept:
      return tensor.read && !IsNamed(policy, tensor);
    case Keep::kAnyNamesBut:
      return tensor.spares && tensor.named && !IsNamed(policy, tensor);
    case Keep::kOnlyNames:
      return tensor.spares && tensor.named && IsNamed(policy, tensor);
    case Keep::kFromBoth:
      return Keeps(policy.both[0], tensor) || Keeps(policy.both[1], tensor);
  }
  return true;
}

bool KeepsUnlisted(const Remat& policy) {
  switch (policy.keep) {
    case Keep::kEverything:
    case Keep::kAnythingExcept:
      return true;
    case Keep::kFromBoth:
      return KeepsUnlisted(policy.both[0]) || KeepsUnlisted(policy.both[1]);
    case Keep::kNothing:
    case Keep::kDots:
    case Keep::kDotsWithoutBatch:
    case Keep::kAnyNamesBut:
    case Keep::kOnlyNames:
      break;
  }
  return false;
}

}  // namespace shardc::step
