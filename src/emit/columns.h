// Writes tables of text.
#ifndef SHARDC_EMIT_COLUMNS_H_
#define SHARDC_EMIT_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardc {

// A table whose columns are as wide as their widest cell, with two spaces
// between them. In a table that is aligned to the left, the last cell of a row
// may be wider than its column, so that a row of one cell can be a heading.
// Cells are made printable (Printable), because they may hold names of inputs.
class Columns {
 public:
  enum class Align : uint8_t { kLeft, kRight };
  explicit Columns(Align align = Align::kLeft) : align_(align) {}

  void Row(std::vector<std::string> cells);
  std::string Text() const;

 private:
  Align align_;
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace shardc

#endif  // SHARDC_EMIT_COLUMNS_H_
