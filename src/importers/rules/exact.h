// For systems that list the spec of every parameter by name.
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
  bool is_path = false;  // the name is JAX's key path
};

// Adds one rule per parameter, or one rule for all parameters whose names
// differ only in numbers and whose specs are equal. Key paths are converted to
// names; where two arguments have a name in common, both keep the argument's:
// `p['w']` and `m['w']` become `p/w` and `m/w`. Returns false after a finding
// if a name occurs twice.
bool AddExact(std::vector<NamedSpec> params, Imported& imported,
              Findings& findings);

struct NamedRule {
  std::string name;
  ImportedRule made;  // its pattern is still empty
};

// Adds rules as AddExact does for specs of mesh axes; these specs may also name
// bundles and axis rules.
bool AddExact(std::vector<NamedRule> params, Imported& imported,
              Findings& findings);

// Converts JAX's key paths to names: `params['a'][0].kernel` to `a/0/kernel`. A
// path without brackets is unchanged. flax's last part, `value`, is dropped.
std::string NameOfPath(std::string_view path);

// Reads `["fsdp", null, ["a", "b"]]`; nullopt after a finding (schema).
std::optional<Spec> JsonSpec(JsonValue value, Findings& findings);

// Adds a mesh axis. Returns false after a finding if the name is taken (schema)
// or the number of devices overflows (overflow).
bool AddAxis(std::string_view name, int64_t size, const Place& place,
             Mesh& mesh, Findings& findings);

// Sets the slices of the mesh by the device numbers in its row-major order,
// which the source lists under `member`. Returns false after a finding
// (inexpressible) if no slices give that order.
bool AddDeviceOrder(std::span<const int64_t> devices, std::string_view member,
                    const Place& place, Mesh& mesh, Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_EXACT_H_
