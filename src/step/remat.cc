// Parses rematerialisation policies. A policy is a name, which may be followed
// by tensor names or by two policies in parentheses. A tensor that a policy
// keeps is stored only if the backward pass or the rematerialised forward pass
// of its layer reads it, because JAX does not store other tensors:
//
//   dots_saveable stores q_proj, but not down_proj, which only the next layer
//   reads
#include "step/remat.h"

#include <algorithm>
#include <array>

#include "source/wording.h"

namespace shardc::step {
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
  std::string out;
  for (const std::string_view name : names) {
    out += (out.empty() ? "" : ", ") + std::string(name);
  }
  return out;
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

std::optional<Remat> Parse(std::string_view text, int depth,
                           RematRefusal& refusal);

bool TakeParts(const std::vector<std::string_view>& parts, int depth,
               Remat& policy, RematRefusal& refusal) {
  if (policy.keep == Keep::kFromBoth) {
    for (std::string_view part : parts) {
      auto one = Parse(part, depth + 1, refusal);
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
        policy.keep == Keep::kAnythingExcept &&
        std::find(kModuleTensors.begin(), kModuleTensors.end(), part) !=
            kModuleTensors.end();
    if (!of_module && std::find(kTensorNames.begin(), kTensorNames.end(),
                                part) == kTensorNames.end()) {
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

std::optional<Remat> Parse(std::string_view text, int depth,
                           RematRefusal& refusal) {
  text = Trimmed(text);
  const size_t open = std::min(text.find('('), text.size());
  const std::string_view name = Trimmed(text.substr(0, open));
  const auto* const known =
      std::find_if(kPolicies.begin(), kPolicies.end(),
                   [&](const Named& one) { return one.name == name; });
  if (known == kPolicies.end()) {
    if (std::find(kOffloading.begin(), kOffloading.end(), name) !=
        kOffloading.end()) {
      refusal = {ShortQuote(name) +
                     " moves tensors to the host, which is not supported",
                 PolicyList()};
      return std::nullopt;
    }
    const std::string near = DidYouMean(name, kNames);
    refusal = {
        ShortQuote(name) + " is no policy" + (near.empty() ? "" : "; " + near),
        PolicyList()};
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
  return Parse(text, 0, refusal);
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

}  // namespace shardc::step
