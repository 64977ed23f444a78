// Draws a schedule as text, with a line for each rank. Each tick of time has as
// many columns as the longest task name, and one space. If a task takes several
// ticks, dashes fill its further columns. A dot is an idle tick.
//
// For example, 1f1b on 2 ranks with 2 micro-batches. `1F0` is the forward pass
// (F) of stage 1 for micro-batch 0, and `1B0` is the backward pass, which takes
// two ticks:
//
//   rank 0 |0F0 0F1 .   .   0B0---- .   0B1----
//   rank 1 |.   1F0 1B0---- 1F1 1B1---- .   .
#include "emit/schedules/timeline_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace shardc {
namespace {

using schedule::Cell;
using schedule::Table;
using schedule::Timeline;

// Returns the name of a task, or both names of two overlapped tasks: "0F3;3B1".
std::string NameOf(const Cell& cell) {
  std::string out = schedule::TaskText(cell.task);
  if (cell.overlapped) out += ";" + schedule::TaskText(*cell.overlapped);
  return out;
}

double ShortestTask(const Timeline& timeline) {
  double out = std::numeric_limits<double>::infinity();
  for (const auto& row : timeline.cells) {
    for (const auto& cell : row) {
      if (cell.end > cell.begin) out = std::min(out, cell.end - cell.begin);
    }
  }
  return out;
}

size_t LongestName(const Table& table) {
  size_t out = 1;
  for (const auto& row : table.rows) {
    for (const Cell& cell : row) {
      out = std::max(out, schedule::TaskText(cell.task).size());
    }
  }
  return out;
}

// Returns the line of a rank, with `width` characters per tick.
std::string RowText(const std::vector<Cell>& row,
                    const std::vector<schedule::Interval>& cells, double tick,
                    size_t ticks, size_t width) {
  std::string out;
  for (size_t i = 0; i < ticks; ++i) {
    out += '.';
    out.append(width - 1, ' ');
  }
  for (size_t i = 0; i < row.size(); ++i) {
    const auto begin =
        static_cast<size_t>(std::llround(cells[i].begin / tick)) * width;
    const auto end =
        static_cast<size_t>(std::llround(cells[i].end / tick)) * width;
    if (end <= begin || end > out.size()) continue;
    std::string text = NameOf(row[i]).substr(0, end - begin - 1);
    text.append(end - begin - 1 - text.size(), '-');
    // Dashes show the duration of a task of several ticks. A task of one tick
    // with a short name is padded with blanks.
    if (end - begin == width) {
      std::replace(text.begin(), text.end(), '-', ' ');
    }
    out.replace(begin, end - begin, text + " ");
  }
  return out;
}

}  // namespace

std::optional<std::string> TimelineText(const Table& table,
                                        const Timeline& timeline,
                                        const PictureStyle& style) {
  const double tick = ShortestTask(timeline);
  const size_t width = LongestName(table) + 1;
  const double ranks = static_cast<double>(table.rows.size());
  const double wanted = std::isinf(tick) ? 0 : timeline.step / tick + 1;
  if (wanted * static_cast<double>(width) * ranks > kMostPicture) {
    return std::nullopt;
  }
  const auto ticks = static_cast<size_t>(
      std::isinf(tick) ? 0 : std::llround(timeline.step / tick));
  std::vector<std::string> lines;
  for (size_t rank = 0; rank < table.rows.size(); ++rank) {
    lines.push_back(
        RowText(table.rows[rank], timeline.cells[rank], tick, ticks, width));
  }
  const size_t name = std::to_string(table.rows.size() - 1).size();
  const size_t head = std::string("rank  |").size() + name;
  const size_t room = static_cast<size_t>(style.width) > head + width
                          ? static_cast<size_t>(style.width) - head
                          : width;
  const size_t block = std::max<size_t>(1, room / width);
  std::string out;
  for (size_t first = 0; first < ticks; first += block) {
    const size_t last = std::min(ticks, first + block);
    if (ticks > block) {
      if (first > 0) out += "\n";
      out += "ticks " + std::to_string(first) + " to " +
             std::to_string(last - 1) + "\n";
    }
    for (size_t rank = 0; rank < lines.size(); ++rank) {
      const std::string number = std::to_string(rank);
      std::string line =
          "rank " + std::string(name - number.size(), ' ') + number + " |" +
          lines[rank].substr(first * width, (last - first) * width);
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
  }
  return out;
}

}  // namespace shardc
