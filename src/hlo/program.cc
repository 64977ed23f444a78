// Reads an HLO module. Its text is a line of settings, tables of source lines,
// and computations:
//
//   HloModule jit_step, num_partitions=8
//   FileNames
//   1 "model.py"
//
//   ENTRY %main (p: f32[2]) -> f32[2] {
//     ROOT %p = f32[2]{0} parameter(0)
//   }
//
// A line that ends with `{` begins a computation, and a line that begins with
// `}` ends it. Each line between them is one complete instruction, because XLA
// writes even large constants on one line.
#include "hlo/program.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "hlo/groups.h"
#include "source/file.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::hlo {
namespace {

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

namespace {

constexpr std::string_view kHow =
    "write it with `jax.jit(f).lower(...).compile().as_text()`, or take a file "
    "`*after_optimizations.txt` of --xla_dump_to";

class ProgramReader {
 public:
  ProgramReader(const SourceRef& source, Findings& findings)
      : text_(source->text()), findings_(findings) {
    program_.source = source;
    program_.instructions = Instructions(text_);
  }

  std::optional<Program> Read() {
    if (!Head()) return std::nullopt;
    for (std::string_view line; Next(line);) {
      if (!(inside_ ? Body(line) : Outside(line))) return std::nullopt;
    }
    if (inside_) {
      return Refuse(program_.computations.back().name,
                    "the text ends inside the computation " +
                        ShortQuote(program_.computations.back().name),
                    "the file is cut off: write it again");
    }
    if (!has_entry_) {
      return Refuse(text_.substr(0, 0), "this module has no ENTRY computation",
                    kHow);
    }
    return std::move(program_);
  }

 private:
  std::nullopt_t Refuse(std::string_view at, std::string message,
                        std::string_view help) {
    findings_.Add(code::kForeignSyntax, program_.PlaceOf(at),
                  std::move(message), std::string(help));
    return std::nullopt;
  }

  bool Next(std::string_view& line) {
    if (at_ >= text_.size()) return false;
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    line = text_.substr(at_, end - at_);
    if (line.ends_with('\r')) line.remove_suffix(1);
    at_ = end + 1;
    return true;
  }

  bool Head() {
    std::string_view line;
    while (Next(line) && line.find_first_not_of(" \t") == line.npos) {
    }
    if (line.starts_with(kByteOrderMark)) {
      line.remove_prefix(kByteOrderMark.size());
    }
    if (!line.starts_with("HloModule ")) {
      if (ReportOtherText(program_.source, findings_, code::kForeignSyntax)) {
        return false;
      }
      const bool stable =
          line.starts_with("module ") || line.starts_with("#loc");
      Refuse(line.substr(0, std::min<size_t>(line.size(), 40)),
             stable ? "this is StableHLO, which no compiler has partitioned yet"
                    : "a compiled program's text begins with `HloModule`",
             kHow);
      return false;
    }
    line.remove_prefix(10);
    std::string_view item;
    NextItem(line, item);
    program_.name = item;
    int64_t partitions = 1, replicas = 1;
    while (NextItem(line, item)) {
      const size_t equals = item.find('=');
      if (equals == item.npos) continue;
      const std::string_view key = item.substr(0, equals);
      const bool counts = key == "num_partitions" || key == "replica_count";
      if (!counts) continue;
      const auto value = LeadingNumber(item.substr(equals + 1));
      const int64_t number = value.value_or(0);
      (key == "num_partitions" ? partitions : replicas) = number;
      if (number < 1 || number > kMostDevices) return TooMany(item);
    }
    program_.devices = partitions * replicas;
    return program_.devices <= kMostDevices || TooMany(program_.name);
  }

  bool TooMany(std::string_view at) {
    findings_.Add(
        code::kLimit, program_.PlaceOf(at),
        "a program runs on 1 to " + CountText(kMostDevices) + " devices",
        "is the file damaged? Write it again");
    return false;
  }

  bool Outside(std::string_view line) {
    if (line.empty()) {
      program_.frames.End();
      return true;
    }
    if (program_.frames.Begin(line)) return true;
    if (program_.frames.reading()) {
      program_.frames.Add(line);
      return true;
    }
    if (!line.ends_with('{')) return true;
    std::string_view rest = line;
    const bool entry = rest.starts_with("ENTRY ");
    if (entry) rest.remove_prefix(6);
    if (rest.starts_with('%')) rest.remove_prefix(1);
    const std::string_view name = rest.substr(0, rest.find_first_of(" ({"));
    const auto index = static_cast<uint32_t>(program_.computations.size());
    if (!program_.by_name.emplace(name, index).second) {
      Refuse(name, "the computation " + ShortQuote(name) + " is defined twice",
             "a file holds one module: split the file");
      return false;
    }
    if (entry) program_.entry = index;
    has_entry_ = has_entry_ || entry;
    const auto first = static_cast<uint32_t>(program_.instructions.size());
    program_.computations.push_back({name, first, first, first});
    inside_ = true;
    return true;
  }

  bool Body(std::string_view line) {
    Computation& computation = program_.computations.back();
    const size_t first = line.find_first_not_of(" \t");
    if (first == line.npos) return true;
    const auto count = static_cast<uint32_t>(program_.instructions.size());
    if (line[first] == '}') {
      computation.end = count;
      if (!marked_ && count > computation.begin) computation.root = count - 1;
      inside_ = marked_ = false;
      return true;
    }
    const auto instruction = SplitInstruction(line);
    if (!instruction) {
      if (line.find(" = ") == line.npos) return true;
      Refuse(line.substr(first),
             "the brackets of this instruction do not match",
             "the file is damaged: write it again");
      return false;
    }
    if (instruction->root) {
      computation.root = count;
      marked_ = true;
    }
    program_.instructions.Add(*instruction);
    return true;
  }

  std::string_view text_;
  Findings& findings_;
  Program program_;
  size_t at_ = 0;
  bool inside_ = false, marked_ = false, has_entry_ = false;
};

// Returns the first line of the text that is not blank. This line states the
// settings of the module.
std::string_view HeadOf(const Source& source) {
  std::string_view text = source.text();
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text.substr(0, text.find('\n'));
}

}  // namespace

Place Program::PlaceOf(std::string_view part) const {
  const auto begin = static_cast<size_t>(part.data() - source->text().data());
  return {source, begin, begin + part.size()};
}

bool Program::IsScheduled() const {
  return HeadOf(*source).find("is_scheduled=true") != std::string_view::npos;
}

bool Program::HasTiles() const {
  return HeadOf(*source).find(":T(") != std::string_view::npos;
}

std::optional<Program> ReadProgram(const SourceRef& source,
                                   Findings& findings) {
  if (source->text().find_first_not_of(" \t\r\n") == std::string_view::npos) {
    findings.Add(code::kEmpty, {source}, "this file holds no program",
                 std::string(kHow));
    return std::nullopt;
  }
  return ProgramReader(source, findings).Read();
}

// Splits a line of HLO text, which is an instruction, into its parts. Types and
// operands have nested brackets, and strings may contain brackets that do not
// count. The parts are therefore found by matching brackets outside strings:
//
//   %s = ((f32[2]{0}), f32[4]{0}) all-gather-start(%x), channel_id=1
//
// The type ends where all its brackets are closed. The operands end at the
// parenthesis that matches the one after the opcode. The attributes, which are
// the longest part of most lines, are not split here.

namespace {

enum class Class : uint8_t { kOther, kOpens, kCloses, kQuote, kComma };

// The class of each character. A table makes it fast to scan long lines of
// constants.
constexpr auto kClasses = [] {
  std::array<Class, 256> out = {};
  for (const char c : {'(', '[', '{'}) out[size_t(c)] = Class::kOpens;
  for (const char c : {')', ']', '}'}) out[size_t(c)] = Class::kCloses;
  out['"'] = Class::kQuote;
  out[','] = Class::kComma;
  return out;
}();

Class ClassOf(char c) { return kClasses[static_cast<unsigned char>(c)]; }

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Returns whether the text is a byte in three octal digits, such as `303`.
bool IsOctalByte(std::string_view text) {
  return text.size() == 3 && text[0] <= '3' &&
         text.find_first_not_of("01234567") == std::string_view::npos;
}

// Returns the position after the end of the string that begins at `at`.
size_t EndOfString(std::string_view text, size_t at) {
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return text.size();
}

// Returns the position after the bracket that matches the bracket at `at`; npos
// if no bracket matches.
size_t EndOfBrackets(std::string_view text, size_t at) {
  size_t depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    switch (ClassOf(text[i])) {
      case Class::kOpens:
        ++depth;
        break;
      case Class::kCloses:
        if (--depth == 0) return i + 1;
        break;
      case Class::kQuote:
        i = EndOfString(text, i) - 1;
        break;
      case Class::kOther:
      case Class::kComma:
        break;
    }
  }
  return std::string_view::npos;
}

void SkipBlanks(std::string_view& text) {
  size_t count = 0;
  while (count < text.size() && IsBlank(text[count])) ++count;
  text.remove_prefix(count);
}

// Removes blanks, and comments such as `/*index=5*/`, from the start of the
// text.
void SkipComments(std::string_view& text) {
  SkipBlanks(text);
  while (text.starts_with("/*")) {
    const size_t end = text.find("*/");
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
    SkipBlanks(text);
  }
}

bool TakeWord(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

}  // namespace

std::optional<Instruction> SplitInstruction(std::string_view line) {
  Instruction out;
  SkipBlanks(line);
  out.root = TakeWord(line, "ROOT ");
  SkipBlanks(line);
  TakeWord(line, "%");
  const size_t equals = line.find(" = ");
  if (equals == std::string_view::npos) return std::nullopt;
  out.name = line.substr(0, equals);
  for (const char c : out.name) {
    if (IsBlank(c) || c == '(' || c == '"' || c == '{') return std::nullopt;
  }
  line.remove_prefix(equals + 3);
  SkipBlanks(line);
  const size_t type =
      line.starts_with('(') ? EndOfBrackets(line, 0) : line.find(' ');
  if (type == std::string_view::npos) return std::nullopt;
  out.type = line.substr(0, type);
  line.remove_prefix(type);
  SkipBlanks(line);
  const size_t open = line.find('(');
  if (open == std::string_view::npos) return std::nullopt;
  out.opcode = line.substr(0, open);
  const size_t close = EndOfBrackets(line, open);
  if (close == std::string_view::npos) return std::nullopt;
  out.operands = line.substr(open + 1, close - open - 2);
  line.remove_prefix(close);
  TakeWord(line, ",");
  out.attributes = line;
  return out;
}

bool NextItem(std::string_view& list, std::string_view& item) {
  SkipComments(list);
  if (list.empty()) return false;
  size_t depth = 0, i = 0;
  for (bool ends = false; i < list.size(); ++i) {
    switch (ClassOf(list[i])) {
      case Class::kOpens:
        ++depth;
        break;
      case Class::kCloses:
        if (depth > 0) --depth;
        break;
      case Class::kQuote:
        i = EndOfString(list, i) - 1;
        break;
      case Class::kComma:
        ends = depth == 0;
        break;
      case Class::kOther:
        break;
    }
    if (ends) break;
  }
  size_t end = i;
  while (end > 0 && IsBlank(list[end - 1])) --end;
  item = list.substr(0, end);
  list.remove_prefix(std::min(i + 1, list.size()));
  return true;
}

std::string_view NameOfOperand(std::string_view operand) {
  size_t begin = operand.size();
  while (begin > 0 && !IsBlank(operand[begin - 1])) --begin;
  operand.remove_prefix(begin);
  TakeWord(operand, "%");
  return operand;
}

std::optional<std::string_view> AttributeOf(std::string_view attributes,
                                            std::string_view key) {
  for (std::string_view item; NextItem(attributes, item);) {
    if (TakeWord(item, key) && TakeWord(item, "=")) return item;
  }
  return std::nullopt;
}

std::optional<std::string_view> MemberOf(std::string_view braces,
                                         std::string_view key) {
  if (!TakeWord(braces, "{")) return std::nullopt;
  if (braces.ends_with('}')) braces.remove_suffix(1);
  while (!braces.empty()) {
    SkipBlanks(braces);
    const size_t equals = braces.find('=');
    if (equals == std::string_view::npos) break;
    const std::string_view name = braces.substr(0, equals);
    braces.remove_prefix(equals + 1);
    const bool quoted = braces.starts_with('"');
    size_t end = braces.find(' ');
    if (quoted) end = EndOfString(braces, 0);
    if (braces.starts_with('{')) end = EndOfBrackets(braces, 0);
    std::string_view value = braces.substr(0, end);
    braces.remove_prefix(value.size());
    if (name != key) continue;
    if (quoted) {
      value.remove_prefix(1);
      if (value.ends_with('"')) value.remove_suffix(1);
    }
    return value;
  }
  return std::nullopt;
}

std::optional<int64_t> LeadingNumber(std::string_view text) {
  int64_t out = 0;
  const auto read =
      std::from_chars(text.data(), text.data() + text.size(), out);
  if (read.ec != std::errc()) return std::nullopt;
  return out;
}

std::string Unescaped(std::string_view text) {
  // The text in which only escaped quotes and backslashes are replaced. It is
  // returned if the bytes that are written in octal are not valid UTF-8.
  std::string quotes;
  // The text in which bytes in octal are replaced as well. It is returned if it
  // is valid UTF-8.
  std::string all;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i + 1, 3);
    if (text[i] == '\\' && IsOctalByte(rest)) {
      int byte = 0;
      for (const char digit : rest) byte = byte * 8 + (digit - '0');
      all += static_cast<char>(byte);
      quotes += text.substr(i, 1 + rest.size());
      i += rest.size();
      continue;
    }
    const bool quote =
        text[i] == '\\' && !rest.empty() &&
        std::string_view("'\"\\").find(rest[0]) != std::string_view::npos;
    if (quote) ++i;
    all += text[i];
    quotes += text[i];
  }
  return IsUtf8(all) ? all : quotes;
}

std::string_view MetadataOf(const Instruction& instruction) {
  return AttributeOf(instruction.attributes, "metadata")
      .value_or(std::string_view());
}

std::optional<std::string> OpNameOf(const Instruction& instruction) {
  const auto name = MemberOf(MetadataOf(instruction), "op_name");
  return name ? std::optional(Unescaped(*name)) : std::nullopt;
}

// Stores the instructions of a program in little memory. Each instruction has a
// row with the position of its name in the text and the lengths of its parts.
// To find the parts after the name, the characters between parts are skipped in
// the text. For example, the name of this instruction is `a.1`:
//
//   ROOT %a.1 = f32[8]{0} add(%x, %y), metadata={...}
//
// The type begins after the name, the three characters ` = ` and any further
// blanks. The attributes begin after the operands, `)` and a comma.

namespace {

const char* AfterBlanks(const char* at) {
  while (*at == ' ' || *at == '\t' || *at == '\r') ++at;
  return at;
}

}  // namespace

Instruction Instructions::operator[](size_t index) const {
  const Row& row = At(index);
  Instruction out;
  const char* at = text_ + row.begin;
  out.name = {at, row.name};
  at = AfterBlanks(at + row.name + 3);
  out.type = {at, row.type};
  at = AfterBlanks(at + row.type);
  out.opcode = opcodes_[row.opcode];
  at += out.opcode.size() + 1;
  out.operands = {at, row.operands};
  at += row.operands + 1;
  // The operands of an instruction without attributes may end the text, so no
  // character after them is read.
  if (row.attributes > 0) {
    if (*at == ',') ++at;
    out.attributes = {at, row.attributes};
  }
  out.root = row.root != 0;
  return out;
}

std::string_view Instructions::NameOf(size_t index) const {
  const Row& row = At(index);
  return {text_ + row.begin, row.name};
}

void Instructions::Add(const Instruction& instruction) {
  if (size_ >> kChunkBits == chunks_.size()) {
    chunks_.push_back(std::make_unique<Row[]>(kChunk));
  }
  const auto [number, added] = numbers_.try_emplace(
      instruction.opcode, static_cast<uint32_t>(opcodes_.size()));
  if (added) opcodes_.push_back(instruction.opcode);
  const auto length = [](std::string_view part) {
    return static_cast<uint32_t>(part.size());
  };
  Row& row = chunks_.back()[size_ & (kChunk - 1)];
  row.begin = static_cast<uint32_t>(instruction.name.data() - text_);
  row.name = length(instruction.name);
  row.type = length(instruction.type);
  row.operands = length(instruction.operands);
  row.attributes = length(instruction.attributes);
  row.opcode = number->second & 0x7fffffff;
  row.root = instruction.root ? 1 : 0;
  ++size_;
}

}  // namespace shardc::hlo
