#include "emit/emit.h"

#include <algorithm>
#include <utility>

#include "source/wording.h"

namespace shardc {

std::string NotKnownLines(std::span<const NotKnown> facts) {
  std::string out;
  for (const NotKnown& fact : facts) {
    out += "not known: " + Printable(NotKnownText(fact)) + "\n";
  }
  return out;
}

void WriteNotKnown(JsonWriter& json, std::span<const NotKnown> facts) {
  json.Rows("not_known", facts, [&](const NotKnown& fact) {
    json.Members("what", fact.what, "params", fact.params, "bytes", fact.bytes,
                 "settled_by", TextOrNull(fact.settled_by));
  });
  json.Member("at_least", !facts.empty());
}

void Columns::Row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(cell);
  widths_.resize(std::max(widths_.size(), cells.size()));
  for (size_t i = 0; i < cells.size(); ++i) {
    if (align_ == Align::kLeft && i + 1 == cells.size()) break;
    widths_[i] = std::max(widths_[i], cells[i].size());
  }
  rows_.push_back(std::move(cells));
}

std::string Columns::Text() const {
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      std::string cell = row[i];
      if (align_ == Align::kRight) {
        cell = PadLeft(std::move(cell), widths_[i]);
      } else if (i + 1 < row.size()) {
        cell.resize(widths_[i], ' ');
      }
      line += (i > 0 ? "  " : "") + cell;
    }
    while (line.ends_with(' ')) line.pop_back();
    out += line + "\n";
  }
  return out;
}

}  // namespace shardc
