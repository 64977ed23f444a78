// Adds up the traffic of a report by one property, such as the source line.
#ifndef SHARDC_AUDIT_TABLE_H_
#define SHARDC_AUDIT_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "audit/audit.h"

namespace shardc::audit {

enum class By : uint8_t {
  kAll,  // by kind, devices, phase, tensor, shape and source line together
  kLine,
  kParameter,
  kAxes,
  kKind,
  kScope
};
inline constexpr std::string_view kByNames[] = {"all",  "line", "parameter",
                                                "axes", "kind", "scope"};
std::optional<By> ParseBy(std::string_view name);

struct Row {
  std::string key;         // "model.py:28 layer"; empty for kAll
  const Traffic* example;  // the first traffic of the row
  int64_t times = 0, calls = 0, sent = 0;
  // The sum of the known Traffic::seconds; nullopt if none is known.
  std::optional<double> seconds;
};

// Returns the text of a source line, such as "model.py:28 layer", or "-" if the
// line is not known.
std::string LineText(const hlo::SourceLine& line);
// Returns the name of the moved tensor: "layers/gate", "gradient of
// layers/gate", "activation".
std::string MovedText(const Moved& moved);

// Returns the rows, sorted by descending bytes, then by key. Rows have pointers
// into the report.
std::vector<Row> Tabulate(const Report& report, By by);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_TABLE_H_
