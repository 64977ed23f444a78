// Partition rules. A rule has a pattern and a spec, and applies to the
// parameters whose names it is the first to match.
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

  struct Inside;  // private to the library
  explicit Rules(std::shared_ptr<const Inside> inside);
  const Inside& inside() const { return *inside_; }

 private:
  std::shared_ptr<const Inside> inside_;
};

// Reads rules files (shardc-rules(5)), packs (`builtin:llama`) and the files
// that they extend. The first rule that matches a parameter wins. `auto` means
// the pack that matches the manifest's names. For a pack named without /hf or
// /flax, the last parts of the manifest's names decide: `weight` means hf, and
// `kernel` flax. Without a manifest, flax is read. Errors include a file that
// cannot be read, an unknown pack, and a name that is defined twice. Compile
// (plan.h) reports an invalid pattern.
std::optional<Rules> ReadRules(const std::vector<std::string>& files,
                               Findings& findings,
                               const Manifest* manifest = nullptr);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_RULES_H_
