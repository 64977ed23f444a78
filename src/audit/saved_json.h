// Reads members of a JSON document that shardc has written: an audit, or the
// report of a step.
#ifndef SHARDC_AUDIT_SAVED_JSON_H_
#define SHARDC_AUDIT_SAVED_JSON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"
#include "source/json.h"

namespace shardc::audit {

// Reads members and reports at most one invalid member (SHD022). A caller may
// therefore read all members first and check refused() once.
class SavedJson {
 public:
  // Creates a reader. `how` is the help of its finding, which names the command
  // that writes the document.
  SavedJson(Findings& findings, std::string_view how)
      : findings_(findings), how_(how) {}

  bool refused() const { return refused_; }
  std::nullopt_t Refuse(const JsonValue& at, std::string message);

  // These functions return nullopt and add the finding if the value is not an
  // object, or if the member is absent or has another type. A negative number
  // is invalid.
  std::optional<int64_t> Number(const JsonValue& object, std::string_view key);
  std::optional<std::string> Text(const JsonValue& object,
                                  std::string_view key);
  std::optional<bool> Truth(const JsonValue& object, std::string_view key);

 private:
  Findings& findings_;
  std::string_view how_;
  bool refused_ = false;
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_SAVED_JSON_H_
