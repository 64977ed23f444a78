// The compiled patterns of a `stages:` section. They determine to which layer,
// layer stack or end of the model a parameter's name belongs.
#ifndef SHARDC_PLAN_STAGE_PATTERNS_H_
#define SHARDC_PLAN_STAGE_PATTERNS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "match/match.h"
#include "model/stages.h"
#include "source/finding.h"

namespace shardc {

class StagePatterns {
 public:
  // Compiles the patterns of a declaration, which may be null. `separator` is
  // the separator of the names. Returns nullopt after a finding if a pattern
  // does not compile, or if `layers` has no group.
  static std::optional<StagePatterns> Compile(const StageDeclaration* declared,
                                              char separator,
                                              Findings& findings);

  bool has_layers() const { return !layers_.empty(); }
  bool stacked() const { return !stacks_.empty(); }
  // Returns the text that the first group of the pattern `layers` captures, or
  // nullopt if the pattern does not match the name.
  std::optional<std::string> LayerText(std::string_view name) const;
  // Returns the index of the first entry of `stacked` whose pattern is found in
  // the name, or nullopt if the name matches no entry.
  std::optional<size_t> StackOf(std::string_view name) const;
  // Return whether a pattern of the key `first` or of the key `last` is found
  // in the name. Return nullopt if the declaration lacks the key.
  std::optional<bool> IsFirst(std::string_view name) const;
  std::optional<bool> IsLast(std::string_view name) const;

 private:
  // A compiled pattern. If the pattern and the names have different separators,
  // the separators in names are converted before matching.
  struct Pattern {
    Regex regex;
    // The pattern's separator; 0 if it equals the names' separator.
    char separator = 0;
  };
  using Patterns = std::vector<Pattern>;

  void Add(const NamePattern& pattern, Patterns& to, Findings& findings) const;
  std::string Converted(const Pattern& pattern, std::string_view name) const;
  std::optional<size_t> FirstFound(const Patterns& patterns,
                                   std::string_view name) const;

  char separator_ = '.';
  // The patterns of the keys `layers`, `stacked`, `first` and `last` in the
  // `stages:` section. `layers_` has at most one pattern.
  Patterns layers_, stacks_, first_, last_;
  bool has_first_ = false, has_last_ = false;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_STAGE_PATTERNS_H_
