// Finds the lines of the user's Python program from which instructions come, so
// that a collective can be reported at such a line. Four tables at the start of
// the HLO text hold the Python stacks:
//
//   FileNames        FileLocations
//   1 "model.py"     1 {file_name_id=1 function_name_id=1 line=28 ...}
//   FunctionNames    StackFrames
//   1 "layer"        1 {file_location_id=1 parent_frame_id=1}
//
// The metadata of an instruction holds the number of its innermost frame. The
// value of `parent_frame_id` is the number of the parent frame plus one. For
// example, 3 refers to frame 2, and 1 means that the frame has no parent.
#include "hlo/frames.h"

#include <algorithm>
#include <optional>

#include "hlo/program.h"
#include "source/size.h"

namespace shardc::hlo {
namespace {

// StackOf reads at most this many frames.
constexpr size_t kDeepest = 256;

int64_t NumberOf(std::string_view braces, std::string_view key) {
  const auto value = MemberOf(braces, key);
  return value ? LeadingNumber(*value).value_or(0) : 0;
}

// Returns the entry with this number. The text numbers the entries of a table
// from 1. Returns null if the table has no such entry.
template <class T>
const T* FindIn(const std::vector<T>& table, int64_t number) {
  return number >= 1 && AsIndex(number) <= table.size()
             ? &table[AsIndex(number) - 1]
             : nullptr;
}

std::string_view WithoutQuotes(std::string_view text) {
  const size_t begin = text.find('"'), end = text.rfind('"');
  return begin < end ? text.substr(begin + 1, end - begin - 1)
                     : std::string_view();
}

}  // namespace

bool Frames::Begin(std::string_view heading) {
  constexpr std::string_view kHeadings[] = {"FileNames", "FunctionNames",
                                            "FileLocations", "StackFrames"};
  const auto* found = std::ranges::find(kHeadings, heading);
  if (found == std::end(kHeadings)) return false;
  table_ = static_cast<Table>(found - std::begin(kHeadings) + 1);
  return true;
}

void Frames::Add(std::string_view line) {
  const auto number = LeadingNumber(line);
  const size_t blank = line.find(' ');
  if (!number || blank == std::string_view::npos) return;
  const std::string_view value = line.substr(blank + 1);
  const auto add = [&](auto& table, auto entry) {
    if (AsIndex(*number) == table.size() + 1) table.push_back(entry);
  };
  switch (table_) {
    case Table::kNone:
      return;
    case Table::kFiles:
      return add(files_, WithoutQuotes(value));
    case Table::kFunctions:
      return add(functions_, WithoutQuotes(value));
    case Table::kLocations:
      return add(locations_, Location{NumberOf(value, "file_name_id"),
                                      NumberOf(value, "function_name_id"),
                                      NumberOf(value, "line")});
    case Table::kFrames:
      return add(
          frames_,
          Frame{NumberOf(value, "file_location_id"),
                std::max<int64_t>(NumberOf(value, "parent_frame_id"), 1) - 1});
  }
}

SourceLine Frames::LineOf(const Frame& frame) const {
  SourceLine out;
  const Location* location = FindIn(locations_, frame.location);
  if (location == nullptr) return out;
  const auto* file = FindIn(files_, location->file);
  const auto* function = FindIn(functions_, location->function);
  if (file != nullptr) out.file = *file;
  if (function != nullptr) out.function = *function;
  out.line = location->line;
  return out;
}

std::vector<SourceLine> Frames::StackOf(std::string_view metadata) const {
  std::vector<SourceLine> out;
  const auto add = [&](const SourceLine& line) {
    const bool known = std::ranges::any_of(out, [&](const SourceLine& other) {
      return other.file == line.file && other.line == line.line;
    });
    if (!line.file.empty() && !known) out.push_back(line);
  };
  int64_t number = NumberOf(metadata, "stack_frame_id");
  for (size_t depth = 0; depth < kDeepest; ++depth) {
    const Frame* frame = FindIn(frames_, number);
    if (frame == nullptr) break;
    add(LineOf(*frame));
    // XLA numbers a parent before the frames that it calls. If a parent does
    // not have a lower number, the frames could form a cycle, so the search
    // ends.
    if (frame->parent >= number) break;
    number = frame->parent;
  }
  if (out.empty()) {
    add({MemberOf(metadata, "source_file").value_or(std::string_view()),
         {},
         NumberOf(metadata, "source_line")});
  }
  return out;
}

bool IsInPackage(const SourceLine& line) {
  const auto in = [&](std::string_view folder) {
    return line.file.find(folder) != std::string_view::npos;
  };
  return in("site-packages/") || in("dist-packages/");
}

SourceLine UserLine(const std::vector<SourceLine>& stack) {
  for (const SourceLine& line : stack) {
    if (!IsInPackage(line)) return line;
  }
  return stack.empty() ? SourceLine() : stack.front();
}

}  // namespace shardc::hlo
