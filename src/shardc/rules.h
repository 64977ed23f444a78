// Partition rules: patterns of names, and the spec of what they find first.
#ifndef SHARDC_SHARDC_RULES_H_
#define SHARDC_SHARDC_RULES_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardc/findings.h"
#include "shardc/manifest.h"

namespace shardc::SHARDC_V1 {

class Rules {
 public:
  size_t size() const;
  std::string pattern(size_t index) const;  // 0 <= index < size()

  struct Inside;  // the library's own
  explicit Rules(std::shared_ptr<const Inside> inside);
  const Inside& inside() const { return *inside_; }

 private:
  std::shared_ptr<const Inside> inside_;
};

// Rules files (shardc-rules(5)), packs (`builtin:llama`) and what they extend,
// nearest first: of two that find a parameter the earlier wins. `auto` is the
// pack that knows the manifest's names, and a pack without /hf or /flax has
// the naming of its separator. Errors: a file cannot be read, there is no such
// pack, a pattern is none, a name is used twice.
std::optional<Rules> ReadRules(const std::vector<std::string>& files,
                               Findings& findings,
                               const Manifest* manifest = nullptr);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_RULES_H_
