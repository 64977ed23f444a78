// Writes a calibrated profile, and a table of the expected and the measured
// times. Figures have four significant digits, because measurements are not
// more precise. For example:
//
//   efficiency:
//     matmul: {bf16: 0.6612}
#include "emit/costs/calibration.h"

#include <charconv>
#include <cmath>
#include <map>
#include <vector>

#include "emit/costs/columns.h"
#include "emit/costs/figures.h"
#include "source/json_writer.h"
#include "source/sink.h"

namespace shardc {
namespace {

using cost::Figure;

std::string DigitsText(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value,
                                 std::chars_format::general, 4);
  return {text, end.ptr};
}

// Returns the text as a double-quoted YAML scalar.
std::string QuotedYaml(std::string_view text) {
  std::string out;
  {
    StringSink sink(out);
    JsonWriter(sink).String(text);
  }
  return out;
}

std::string PercentOff(double expected, double measured) {
  const auto tenths = std::llround(1000 * (expected / measured - 1));
  const auto whole = std::abs(tenths) / 10, part = std::abs(tenths) % 10;
  return std::string(tenths < 0 ? "-" : "+") + std::to_string(whole) + "." +
         std::to_string(part) + " %";
}

// Returns the path of keys to a figure in a profile file: {"efficiency",
// "matmul", "bf16"}.
std::vector<std::string> PathOf(Figure figure) {
  std::vector<std::string> out(1);
  for (const char c : cost::FigureName(figure)) {
    if (c == '.') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

}  // namespace

std::string CalibratedProfileText(const DeviceProfile& base,
                                  std::string_view name,
                                  const cost::Calibration& calibration) {
  std::string out =
      "schema: shardc.profile/v1\nbase: " + std::string(base.name) +
      "\nname: " + QuotedYaml(name) + "\n";
  // The values of the keys of `efficiency`: a figure, or figures by name.
  std::map<std::string, std::string> efficiency;
  std::string others;
  for (const Figure figure : calibration.figures) {
    const auto path = PathOf(figure);
    const std::string value =
        DigitsText(cost::FigureOf(calibration.efficiency, figure));
    if (path.size() == 1) {
      others += path[0] + ": " + value + "\n";
      continue;
    }
    std::string& section = efficiency[path[1]];
    if (path.size() == 2) {
      section = value;
      continue;
    }
    section =
        (section.empty() ? "{" : section.substr(0, section.size() - 1) + ", ") +
        path[2] + ": " + value + "}";
  }
  if (!efficiency.empty()) out += "efficiency:\n";
  for (const auto& [key, value] : efficiency) {
    out += "  " + key + ": " + value + "\n";
  }
  out += others + "measured:\n";
  for (const cost::CalibratedStep& step : calibration.steps) {
    out += "  - {run: " + QuotedYaml(step.name) +
           ", step_s: " + DigitsText(step.seconds) +
           ", expected_s: " + DigitsText(step.after) + "}\n";
  }
  return out;
}

std::string CalibrationText(const DeviceProfile& base,
                            const cost::Calibration& calibration) {
  Columns table;
  table.Row({"run", "measured", "expected before", "", "after", ""});
  for (const cost::CalibratedStep& step : calibration.steps) {
    table.Row({step.name, SecondsText(step.seconds), SecondsText(step.before),
               PercentOff(step.before, step.seconds), SecondsText(step.after),
               PercentOff(step.after, step.seconds)});
  }
  std::string out = table.Text();
  for (const Figure figure : calibration.figures) {
    out += std::string(cost::FigureName(figure)) + ": " +
           DigitsText(cost::FigureOf(calibration.efficiency, figure)) +
           ", of " + std::string(base.name) + " " +
           DigitsText(cost::FigureOf(base.efficiency, figure)) + "\n";
  }
  for (const std::string& text : calibration.remarks) out += text + "\n";
  return out;
}

}  // namespace shardc
