// Partition rules. A rule has a pattern and a spec. A parameter gets the spec
// of the first rule whose pattern matches its name.
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
// that they extend. The first rule that matches a parameter wins. The file name
// `auto` means the pack that matches the manifest's names. If a pack is named
// without /hf or /flax, the last parts of the manifest's names decide between
// them: `weight` means hf, and `kernel` means flax. Without a manifest, flax is
// read. Errors include a file that cannot be read, an unknown pack, and a name
// that is defined twice. An invalid pattern is reported later, by Compile
// (plan.h).
std::optional<Rules> ReadRules(const std::vector<std::string>& files,
                               Findings& findings,
                               const Manifest* manifest = nullptr);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_RULES_H_
