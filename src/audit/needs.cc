// A traced program has the paths of files as the tracer saw them, often from
// the working directory, and a compiled program the paths of another machine.
// Two paths are of one file if one of them ends with the other:
//
//   models/block.py:41  and  /home/me/run/models/block.py:41
#include "audit/needs.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "source/size.h"

namespace shardc::audit {
namespace {

bool EndsWithPath(std::string_view path, std::string_view end) {
  return path.ends_with(end) && (path.size() == end.size() ||
                                 path[path.size() - end.size() - 1] == '/');
}

class ByLines {
 public:
  explicit ByLines(const Report& report) : report_(report) {}

  std::vector<LineNeeds> Run(std::span<const cost::ProgramTransfer> needs) {
    for (const cost::ProgramTransfer& one : needs) {
      files_.insert(one.line.substr(0, one.line.rfind(':')));
    }
    for (const cost::ProgramTransfer& one : needs) {
      LineNeeds& row = RowOf(one.line, one.kind, Named(one.axes));
      row.needed = (Size(row.needed) + one.sent).value();
      if (row.ops.find(one.op) == std::string::npos) {
        row.ops += (row.ops.empty() ? "" : ", ") + one.op;
      }
    }
    for (const Traffic& one : report_.traffic) {
      const std::string axes =
          one.members->named ? Named(one.members->axes) : one.members->text;
      LineNeeds& row = RowOf(LineOf(one), one.kind, axes);
      row.sent = (Size(row.sent) + one.sent).value();
    }
    std::vector<LineNeeds> out;
    for (auto& [key, row] : rows_) {
      if (row.needed != 0 || row.sent != 0) out.push_back(std::move(row));
    }
    std::ranges::stable_sort(out, [](const LineNeeds& a, const LineNeeds& b) {
      return std::abs(a.sent - a.needed) > std::abs(b.sent - b.needed);
    });
    return out;
  }

 private:
  // Returns the axes in the mesh's order.
  std::string Named(const AxisGroup& axes) const {
    AxisGroup out = axes;
    std::ranges::sort(out, {}, [&](const std::string& axis) {
      return report_.mesh->Find(axis).value_or(0);
    });
    return AxesText(out);
  }

  LineNeeds& RowOf(const std::string& line, Collective kind,
                   const std::string& axes) {
    LineNeeds& row = rows_[{line, kind, axes}];
    row.line = line;
    row.kind = kind;
    row.axes = axes;
    return row;
  }

  std::string LineOf(const Traffic& traffic) const {
    std::vector<hlo::SourceLine> stack{traffic.line};
    if (report_.frames != nullptr) {
      for (const hlo::SourceLine& line :
           report_.frames->StackOf(traffic.metadata)) {
        stack.push_back(line);
      }
    }
    for (const hlo::SourceLine& line : stack) {
      for (const std::string& file : files_) {
        if (file.empty() || line.file.empty()) continue;
        if (EndsWithPath(line.file, file) || EndsWithPath(file, line.file)) {
          return file + ":" + std::to_string(line.line);
        }
      }
    }
    return traffic.line.file.empty() ? ""
                                     : std::string(traffic.line.file) + ":" +
                                           std::to_string(traffic.line.line);
  }

  const Report& report_;
  std::set<std::string> files_;
  std::map<std::tuple<std::string, Collective, std::string>, LineNeeds> rows_;
};

}  // namespace

std::vector<LineNeeds> CompareWithNeeds(
    const Report& report, std::span<const cost::ProgramTransfer> needs) {
  return ByLines(report).Run(needs);
}

}  // namespace shardc::audit
