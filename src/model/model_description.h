// The `model:` section of a rules file: which parameter plays which role, of
// which dimensions it is made, and the order of the ops. Plain text with its
// places; sizes are expressions over a config.json (families/README.md).
#ifndef SHARDC_MODEL_MODEL_DESCRIPTION_H_
#define SHARDC_MODEL_MODEL_DESCRIPTION_H_

#include <cstddef>
#include <cstdint>
#include <map>
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

// One stored dimension, `n (p+r)`: factors, the first one outermost, each of
// one part or of several side by side.
struct DescribedDim {
  std::vector<std::vector<std::string>> factors = {};
  Place place = {};
};

struct DescribedRole {
  std::string name = {};  // `q.bias`
  bool optional = false;
  // RE2 over names; `$i` stands for the layer's number, `$e` for an expert's.
  DescribedText pattern = {};
  std::vector<DescribedDim> dims = {};  // as stored; with `$e` the first is e's
  std::string tied = {};    // the role that serves where it is absent
  bool shared = false;      // a layer that lacks it takes the first one's
  size_t stack = 0;         // that its layers are of
  DescribedText when = {};  // models that have it; empty: all
  Place place = {};
};

struct DescribedArgument {
  std::vector<std::string> names = {};  // `a + b` has two
  bool is_number = false;
  double number = 0;
  bool optional = false;  // `m?`
};

// `q, k = part(z, p+r) @role if condition`.
struct DescribedLine {
  std::vector<std::string> results = {};
  std::string op = {};
  std::vector<DescribedArgument> arguments = {};
  std::string anchor = {};
  DescribedText when = {};  // `if ...`: layers that have it; empty: all
  Place place = {};
};

// Layers that repeat, and what stands before and behind them.
struct DescribedStack {
  DescribedText repeat = {};
  std::vector<DescribedLine> begin = {}, layer = {}, end = {};
};
inline constexpr size_t kEncoderStack = 1;

struct ModelDescription {
  std::vector<std::pair<std::string, DescribedText>> dims = {};
  std::map<std::string, std::string, std::less<>> axes = {};  // d: EMBED
  // The model's own, and its encoder's where it has one.
  std::vector<DescribedStack> stacks = std::vector<DescribedStack>(1);
  std::vector<DescribedRole> roles = {};
  std::vector<DescribedText> skip = {};  // patterns of what takes no part
  // `window`, `router.score` ...: expressions by key.
  std::map<std::string, DescribedText, std::less<>> settings = {};
  char separator = '.';
  SourceRef source = {};

  bool HasEncoder() const { return stacks.size() > kEncoderStack; }
  const DescribedText* Setting(std::string_view key) const {
    const auto found = settings.find(key);
    return found == settings.end() ? nullptr : &found->second;
  }
};

}  // namespace shardc

#endif  // SHARDC_MODEL_MODEL_DESCRIPTION_H_
