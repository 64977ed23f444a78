// Makes rules for systems that list the spec of every parameter by its name.
#ifndef SHARDC_IMPORTERS_RULES_EXACT_H_
#define SHARDC_IMPORTERS_RULES_EXACT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/imported.h"
#include "model/spec.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::imports {

struct NamedSpec {
  std::string name;
  Spec spec;
  Place place;
  bool is_path = false;  // whether the name is JAX's key path
};

// Adds rules for all parameters. Parameters whose names differ only in numbers
// get one rule together if their specs are equal, and one rule each otherwise.
// Key paths are converted to names without the argument's name. If two
// parameters would then have the same name, each name begins with its
// argument's: `p['w']` and `m['w']` become `p/w` and `m/w`. Returns false after
// a finding if a name occurs twice.
bool AddExact(std::vector<NamedSpec> params, Imported& imported,
              Findings& findings);

struct NamedRule {
  std::string name;
  ImportedRule made;  // its pattern is still empty
};

// Does the same as AddExact above, for specs that may also name bundles and
// axis rules. The names are not key paths.
bool AddExact(std::vector<NamedRule> params, Imported& imported,
              Findings& findings);

// Converts a key path of JAX to a name: `params['a'][0].kernel` to
// `a/0/kernel`. Returns a path unchanged if it has no bracket and does not
// begin with a dot, or if it has other text after a bracket, as in the name
// `blocks[0]/attn/q`. The last part `.value`, which flax adds, is removed
// unless it is the only part. The key `['value']` is not removed.
std::string NameOfPath(std::string_view path);

// Reads a spec such as `["fsdp", null, ["a", "b"]]`; returns nullopt after a
// finding (schema).
std::optional<Spec> JsonSpec(JsonValue value, Findings& findings);

// Adds an axis to the mesh. Returns false after a finding: schema if the name
// is empty, if the mesh has an axis of this name or if the size is below 1,
// axis-name if a mesh file cannot have the name, and overflow if the number of
// devices overflows.
bool AddAxis(std::string_view name, int64_t size, const Place& place,
             Mesh& mesh, Findings& findings);

// Sets the slices of the mesh so that its devices, in row-major order, have
// these numbers. `member` is the key under which the source lists the numbers.
// Returns false after a finding (inexpressible) if no slices give that order.
bool AddDeviceOrder(std::span<const int64_t> devices, std::string_view member,
                    const Place& place, Mesh& mesh, Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_EXACT_H_
