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
#include <string>

#include "hlo/groups.h"
#include "source/checked.h"
#include "source/other_text.h"
#include "source/wording.h"

namespace shardc::hlo {
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

}  // namespace shardc::hlo
