// The `model:` section of a rules file: which parameter plays which role, of
// which dimensions it is made, and the order of the ops. Plain text with its
// places; sizes are expressions over a config.json (families/README.md).
#ifndef SHARDC_MODEL_MODEL_DESCRIPTION_H_
#define SHARDC_MODEL_MODEL_DESCRIPTION_H_

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

struct ModelDescription {
  std::vector<std::pair<std::string, DescribedText>> dims = {};
  std::map<std::string, std::string, std::less<>> axes = {};  // d: EMBED
  DescribedText repeat = {};
  std::vector<DescribedRole> roles = {};
  std::vector<DescribedText> skip = {};  // patterns of what takes no part
  std::vector<DescribedLine> begin = {}, layer = {}, end = {};
  // `window`, `router.score` ...: expressions by key.
  std::map<std::string, DescribedText, std::less<>> settings = {};
  char separator = '.';
  SourceRef source = {};

  const DescribedText* Setting(std::string_view key) const {
    const auto found = settings.find(key);
    return found == settings.end() ? nullptr : &found->second;
  }
};

}  // namespace shardc

#endif  // SHARDC_MODEL_MODEL_DESCRIPTION_H_
