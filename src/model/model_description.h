// The `model:` section of a rules file: the roles of parameters, their
// dimensions, and the ops in order (docs/guides/model-section.md). Expressions
// are stored as text, because their values depend on a config.json. Each
// `place` is a position in the file, for messages.
#ifndef SHARDC_MODEL_MODEL_DESCRIPTION_H_
#define SHARDC_MODEL_MODEL_DESCRIPTION_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/source.h"

namespace shardc {

struct DescribedText {
  std::string text = {};
  Place place = {};
};

// The values of the setting `fused`. They state how a weight that holds several
// parts, such as query, key and value, is sharded: each part separately, or all
// parts as one.
inline constexpr std::string_view kFusedByPart = "by_part";
inline constexpr std::string_view kFusedInOne = "contiguous";

// One dimension of a parameter as stored. It is the product of its factors, the
// outermost first. A factor is one dimension, or the concatenation of several:
// `n (p+r)` has the factors {"n"} and {"p", "r"}.
struct DescribedDim {
  std::vector<std::vector<std::string>> factors = {};
  Place place = {};
};

struct DescribedRole {
  std::string name = {};  // The name of the role, such as `q.bias`.
  bool optional = false;
  // An RE2 pattern for parameter names. `$i` in it represents the layer's
  // number, and `$e` the expert's number.
  DescribedText pattern = {};
  // The dimensions in the order in which they are stored. If the pattern
  // contains `$e`, the experts' dimension comes first.
  std::vector<DescribedDim> dims = {};
  // The role whose parameter is used if this role has none; may be empty.
  std::string tied = {};
  // True if layers without this parameter use that of the first layer.
  bool shared = false;
  // The index in ModelDescription::stacks of the stack that uses this role.
  size_t stack = 0;
  // The condition on the config.json under which the role exists; empty if it
  // always exists.
  DescribedText when = {};
  Place place = {};
};

struct DescribedArgument {
  // The names in the argument: `a` and `b` for the argument `a + b`.
  std::vector<std::string> names = {};
  bool is_number = false;
  double number = 0;
  // True if the argument is written `m?` and may be absent.
  bool optional = false;
};

// One op: `q, k = part(z, p+r) @role if condition`, where `@role` is the
// sharding constraint.
struct DescribedLine {
  std::vector<std::string> results = {};
  std::string op = {};
  std::vector<DescribedArgument> arguments = {};
  std::string constraint = {};
  // The text after `if`: a condition on the layers that have this op.
  DescribedText when = {};
  Place place = {};
};

// A stack of repeated layers, and the ops before and after it.
struct DescribedStack {
  DescribedText repeat = {};
  std::vector<DescribedLine> begin = {}, layer = {}, end = {};
};
inline constexpr size_t kEncoderStack = 1;

struct ModelDescription {
  std::vector<std::pair<std::string, DescribedText>> dims = {};
  // The logical axis of each dimension, such as EMBED for d.
  std::map<std::string, std::string, std::less<>> axes = {};
  // The stack of the model, then the stack of its encoder if it has one.
  std::vector<DescribedStack> stacks = std::vector<DescribedStack>(1);
  std::vector<DescribedRole> roles = {};
  // Patterns of parameters that the step does not use.
  std::vector<DescribedText> skip = {};
  // The settings, such as `window` and `router.score`: expressions by key.
  std::map<std::string, DescribedText, std::less<>> settings = {};
  char separator = '.';
  SourceRef source = {};

  bool HasEncoder() const { return stacks.size() > kEncoderStack; }
  const DescribedText* Setting(std::string_view key) const {
    const auto found = settings.find(key);
    return found == settings.end() ? nullptr : &found->second;
  }
  // Returns whether each part of a fused weight is sharded separately, so that
  // a device has a share of query, key and value.
  bool IsFusedByPart() const {
    const DescribedText* const fused = Setting("fused");
    return fused != nullptr && fused->text == kFusedByPart;
  }
};

enum class LossKind : uint8_t {
  // No kind was chosen. The kind is then that of the rules file's `model:`
  // section or, if it has none, that of the training software, such as
  // torchtitan.
  kStack,
  kEager,
  kCompiled,
  kFused
};
// The names of all kinds except kStack, in the order of the enumeration.
inline constexpr std::string_view kLossNames[] = {"eager", "compiled", "fused"};

inline std::optional<LossKind> LossNamed(std::string_view name) {
  for (size_t i = 0; i < std::size(kLossNames); ++i) {
    if (kLossNames[i] == name) return static_cast<LossKind>(i + 1);
  }
  return std::nullopt;
}

}  // namespace shardc

#endif  // SHARDC_MODEL_MODEL_DESCRIPTION_H_
