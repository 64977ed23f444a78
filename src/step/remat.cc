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

std::optional<Remat> Parse(std::string_view text, int depth, std::string& why);

bool TakeParts(const std::vector<std::string_view>& parts, int depth,
               Remat& policy, std::string& why) {
  if (policy.keep == Keep::kFromBoth) {
    for (std::string_view part : parts) {
      auto one = Parse(part, depth + 1, why);
      if (!one) return false;
      policy.both.push_back(std::move(*one));
    }
    if (policy.both.size() == 2) return true;
    why = "`save_from_both_policies` takes two policies";
    return false;
  }
  if (!TakesNames(policy.keep)) {
    if (parts.empty()) return true;
    why = "this policy takes no names";
    return false;
  }
  for (std::string_view part : parts) {
    if (std::find(kTensorNames.begin(), kTensorNames.end(), part) ==
        kTensorNames.end()) {
      why = ShortQuote(part) + " is no tensor of a layer";
      const std::string near = DidYouMean(part, kTensorNames);
      why += near.empty() ? "" : "; " + near;
      return false;
    }
    policy.names.emplace_back(part);
  }
  if (!policy.names.empty()) return true;
  why = "a policy of names takes some, such as (q_proj,context)";
  return false;
}

std::optional<Remat> Parse(std::string_view text, int depth, std::string& why) {
  text = Trimmed(text);
  const size_t open = std::min(text.find('('), text.size());
  const std::string_view name = Trimmed(text.substr(0, open));
  const auto* const known =
      std::find_if(kPolicies.begin(), kPolicies.end(),
                   [&](const Named& one) { return one.name == name; });
  if (known == kPolicies.end()) {
    why = ShortQuote(name) + " is no policy";
    const std::string near = DidYouMean(name, kNames);
    why += near.empty() ? "" : "; " + near;
    return std::nullopt;
  }
  const bool closed = open == text.size() || text.back() == ')';
  if (!closed || depth > kMostDeep) {
    why = "a parenthesis is not closed";
    return std::nullopt;
  }
  Remat out;
  out.keep = known->keep;
  out.text = text;
  std::string_view inner;
  if (open < text.size()) {
    inner = text.substr(open + 1, text.size() - open - 2);
  }
  if (!TakeParts(Parts(inner), depth, out, why)) return std::nullopt;
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

std::optional<Remat> ParseRemat(std::string_view text, std::string& why) {
  return Parse(text, 0, why);
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
