// Systems that say of every parameter by its name how it is cut.
#ifndef SHARDC_IMPORTERS_RULES_EXACT_H_
#define SHARDC_IMPORTERS_RULES_EXACT_H_

#include <optional>
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
};

// A rule for each, or one for all whose names differ in whole numbers alone
// and which are cut alike. False with a finding where a name comes twice.
bool AddExact(const std::vector<NamedSpec>& params, Imported& imported,
              Findings& findings);

// JAX's paths as names: `params['a'][0].kernel` to `a/0/kernel`; what has no
// brackets is a name already. flax's last part, `value`, is left out.
std::string NameOfPath(std::string_view path);

// `["fsdp", null, ["a", "b"]]`; nothing with a finding (schema).
std::optional<Spec> JsonSpec(JsonValue value, Findings& findings);

// Axes of distinct names; false with a finding (schema, overflow).
bool AddAxis(std::string_view name, int64_t size, const Place& place,
             Mesh& mesh, Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_EXACT_H_
