// Aligns the cells of a text table in columns. A column is as wide as its
// widest cell, except that the last cell of a row may be wider than its column.
// Cells are made printable (Printable), because they may hold names of inputs.
#ifndef SHARDC_EMIT_COSTS_COLUMNS_H_
#define SHARDC_EMIT_COSTS_COLUMNS_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "source/wording.h"

namespace shardc {

class Columns {
 public:
  void Row(std::vector<std::string> cells) {
    for (std::string& cell : cells) cell = Printable(cell);
    widths_.resize(std::max(widths_.size(), cells.size()));
    for (size_t i = 0; i + 1 < cells.size(); ++i) {
      widths_[i] = std::max(widths_[i], cells[i].size());
    }
    rows_.push_back(std::move(cells));
  }
  std::string Text() const {
    std::string out;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        line += row[i];
        if (i + 1 < row.size()) {
          line.append(widths_[i] - row[i].size() + 2, ' ');
        }
      }
      while (line.ends_with(' ')) line.pop_back();
      out += line + "\n";
    }
    return out;
  }

 private:
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_COLUMNS_H_
