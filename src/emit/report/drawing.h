// Widths of text, for the drawings of arrays and of the mesh in the report.
#ifndef SHARDC_EMIT_REPORT_DRAWING_H_
#define SHARDC_EMIT_REPORT_DRAWING_H_

#include <string>

namespace shardc::report {

// The width of a letter in the drawings' font, in px.
inline constexpr double kLetter = 6.7;

// Returns the width in px of a cell with this text.
inline double WidthOf(const std::string& text) {
  return static_cast<double>(text.size()) * kLetter + 10;
}

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_DRAWING_H_
