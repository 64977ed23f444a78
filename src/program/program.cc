#include "program/program.h"

#include <algorithm>
#include <string>

#include "program/read.h"

namespace shardc::program {

std::span<const int64_t> Op::Of(Attr attr) const {
  for (const auto& [key, list] : numbers) {
    if (key == attr) return list;
  }
  return {};
}

int64_t Op::NumberOf(Attr attr, int64_t otherwise) const {
  const auto list = Of(attr);
  return list.empty() ? otherwise : list.front();
}

std::string NameOf(const Op& op) {
  const std::string name(RowOf(op.kind).name);
  return op.word.empty() || op.kind == OpKind::kOpaque ? name
                                                       : name + " " + op.word;
}

bool Region::IsManual(std::string_view axis) const {
  return manual_axes.empty() ||
         std::ranges::find(manual_axes, axis) != manual_axes.end();
}

bool HasDim(std::span<const int64_t> list, size_t dim) {
  return std::ranges::find(list, static_cast<int64_t>(dim)) != list.end();
}

std::string Program::LineText(const Line& line) const {
  if (!line.known()) return "";
  return files[static_cast<size_t>(line.file)] + ":" +
         std::to_string(line.line);
}

std::optional<size_t> ParamOfState(const Program& program, const Input& state) {
  std::optional<size_t> out;
  size_t longest = 0;
  size_t next = 0;
  for (const Input& input : program.inputs) {
    if (input.kind != InputKind::kParam) continue;
    const size_t index = next++;
    const bool longer = !out || input.name.size() > longest;
    if (longer && state.name.ends_with(input.name) &&
        program.ShapeOf(input.value) == program.ShapeOf(state.value)) {
      out = index;
      longest = input.name.size();
    }
  }
  return out;
}

Manifest ManifestOf(const Program& program) {
  ManifestBuilder builder;
  bool slash = false;
  bool dot = false;
  for (const Input& input : program.inputs) {
    if (input.kind != InputKind::kParam) continue;
    const Value& value = program.values[input.value];
    builder.Add(input.name, {value.shape, value.dtype});
    slash = slash || input.name.find('/') != std::string::npos;
    dot = dot || input.name.find('.') != std::string::npos;
  }
  builder.manifest().separator = slash ? '/' : dot ? '.' : '\0';
  return builder.Take();
}

}  // namespace shardc::program
