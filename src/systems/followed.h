// Follows the keys by which a configuration names another file with further
// keys, such as `--config exp.yaml`, `extends: [base.yaml]` or `model:
// llama3.yaml`.
#ifndef SHARDC_SYSTEMS_FOLLOWED_H_
#define SHARDC_SYSTEMS_FOLLOWED_H_

#include <string>
#include <vector>

#include "systems/config_text.h"
#include "systems/system.h"

namespace shardc::systems {

// Where a configuration has keys that its text does not show.
struct Unshown {
  const Elsewhere* row = nullptr;
  // Why they are not shown: "`--use-checkpoint-args` names a checkpoint, which
  // may state it".
  std::string why;
  Place place;
};

struct Followed {
  // The configuration with the settings of the files that it names, which come
  // first. Settings that the configuration replaces are left out.
  ConfigText text;
  std::vector<Unshown> unshown;
};

// Reads the files that a configuration names by the rows `elsewhere` of its
// system. A file that is not found, or whose name is not known, is unshown.
Followed Follow(const System& system, const ConfigText& text);

}  // namespace shardc::systems

#endif  // SHARDC_SYSTEMS_FOLLOWED_H_
