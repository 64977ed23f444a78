// Makes rules from a list of parameters with their names and specs, for systems
// that state the spec of every parameter.
#ifndef SHARDC_IMPORTERS_RULES_EXACT_H_
#define SHARDC_IMPORTERS_RULES_EXACT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "importers/rules/importer.h"
#include "model/legal_sizes.h"
#include "model/mesh.h"
#include "model/rules.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::imports {

struct NamedSpec {
  std::string name;
  Spec spec;
  Place place;
  bool is_path = false;   // whether `name` is a key path of JAX
  EqualParts parts = {};  // as in model/legal_sizes.h
};

// Adds rules for all parameters. Parameters whose names differ only in numbers
// share one rule if their specs are equal; otherwise each gets its own rule.
// A key path of JAX may begin with the name of the function's argument that
// holds the parameter. This name is removed: `p['w']` becomes `w`. If two
// parameters would then have the same name, it is kept: `p['w']` and `m['w']`
// become `p/w` and `m/w`. Returns false after a finding if a name occurs twice.
bool AddExact(std::vector<NamedSpec> params, Imported& imported,
              Findings& findings);

// Converts a key path of JAX to a name: `params['a'][0].kernel` becomes
// `a/0/kernel`. The last part `.value`, which flax adds, is removed unless it
// is the only part. The key `['value']` is kept. A name that is not a key path
// is returned unchanged: `layers.0.up` has no bracket, and `blocks[0]/attn/q`
// has parts that are not in brackets.
std::string NameOfPath(std::string_view path);

// Reads a spec such as `["fsdp", null, ["a", "b"]]`. Returns nullopt after a
// finding (schema).
std::optional<Spec> JsonSpec(JsonValue value, Findings& findings);

// Adds an axis to the mesh. Returns false after a finding. The finding is
// `schema` if the name is empty or already used, or if the size is below 1. The
// finding is `axis-name` if a mesh file cannot have the name, and `overflow` if
// the number of devices overflows.
bool AddAxis(std::string_view name, int64_t size, const Place& place,
             Mesh& mesh, Findings& findings);

// Divides the mesh into slices (pods) so that the devices, in the row-major
// order of the mesh, have the numbers in `devices`. For example, 0, 2, 1, 3 are
// the devices of a mesh a:2, b:2 whose two slices are along b. `member` is the
// key under which the source lists the numbers. Returns false after a finding
// (inexpressible) if no division into slices has this order.
bool AddDeviceOrder(std::span<const int64_t> devices, std::string_view member,
                    const Place& place, Mesh& mesh, Findings& findings);

// Reads the file of `--names`. It is the file `logical_shardings.json` that
// MaxText writes, or JSON such as {"name": ["embed", "mlp"]}.
std::optional<std::vector<LogicalNames>> ReadLogicalNames(
    const SourceRef& source, Findings& findings);

// Makes rules whose patterns match only the parameters in the file of `--names`
// (exact.h). `resolve` returns the spec of a parameter over the mesh of
// `--mesh`. Returns nullopt after a finding.
std::optional<Imported> ImportNamed(
    const Request& request, Findings& findings,
    const std::function<std::optional<Spec>(const LogicalNames&)>& resolve);

// Makes rules whose patterns match only the parameters in the file of `--names`
// (exact.h). Their specs are computed from `rules`, an ordered list of logical
// axis rules. `declared` are the mesh axes that the source declares. Adds a
// warning for each logical name without a rule, and for each axis of a rule
// that neither the mesh nor `declared` has. Returns nullopt after an error.
std::optional<Imported> ImportLogical(const std::vector<LogicalRule>& rules,
                                      const AxisGroup& declared,
                                      const Request& request,
                                      Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_EXACT_H_
