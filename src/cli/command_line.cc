// Finds the places of findings about options. The command line is written as
// one line and quoted for a shell, and places are in this line. The message of
// a finding contains names of options, and values in backticks. Each of these
// is searched for after the command's name, as a complete word or list item.
// The finding is placed at the first name or value that the command line
// contains. If it contains none of them, an error is placed at the command's
// name:
//
//   `4` of `--processes` has no device
//     --> <command line>:1:26
//    1 | shardc split --processes 4 --plan plan.json
//      |                          ^
#include "cli/command_line.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emit/findings/formats.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    "-_./:,=+@%^";
constexpr std::string_view kBoundaries = " ,=:'";

// Returns the words of a message that may be in the command line, in order: the
// texts in backticks, and the names of options (`--plan`) outside of backticks.
std::vector<std::string_view> QuotedIn(std::string_view message) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < message.size();) {
    if (message[at] == '`') {
      const size_t end = message.find('`', at + 1);
      if (end == std::string_view::npos) break;
      if (end > at + 1) out.push_back(message.substr(at + 1, end - at - 1));
      at = end + 1;
    } else if (message.substr(at).starts_with("--")) {
      const size_t end =
          std::min(message.find_first_of(" ,:=", at), message.size());
      out.push_back(message.substr(at, end - at));
      at = end;
    } else {
      ++at;
    }
  }
  return out;
}

// Returns the first position of `word` in `line`, not before `from`, at which
// the word has a separator on both sides.
std::optional<size_t> FindWord(std::string_view line, size_t from,
                               std::string_view word) {
  const auto ends_at = [&](size_t at) {
    return at == line.size() ||
           kBoundaries.find(line[at]) != std::string_view::npos;
  };
  for (size_t at = line.find(word, from); at != std::string_view::npos;
       at = line.find(word, at + 1)) {
    if (ends_at(at - 1) && ends_at(at + word.size())) return at;
  }
  return std::nullopt;
}

}  // namespace

std::string ShellWord(std::string_view word) {
  const std::string shown = Printable(word);
  if (!shown.empty() && shown.find_first_not_of(kPlain) == std::string::npos) {
    return shown;
  }
  std::string out = "'";
  for (const char c : shown) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

CommandLine::CommandLine(int argc, const char* const* argv) {
  if (argc < 2) return;
  std::string line = "shardc";
  program_size_ = line.size() + 1;
  for (int i = 1; i < argc; ++i) line += " " + ShellWord(argv[i]);
  source_ = MakeSource("<command line>", std::move(line));
}

Place CommandLine::PlaceOf(const Finding& finding) const {
  const std::string_view line = source_->text();
  // The search starts after the command's name, because messages may contain
  // the command's name too. If an option precedes that name by mistake, the
  // search starts at the option.
  const size_t command_end =
      std::min(line.find(' ', program_size_), line.size());
  const size_t begin = line[program_size_] == '-' ? program_size_ : command_end;
  for (const std::string_view word : QuotedIn(finding.message)) {
    for (const std::string& written : {Printable(word), ShellWord(word)}) {
      if (const auto at = FindWord(line, begin, written)) {
        return At(*at, written.size());
      }
    }
  }
  if (finding.level != Level::kError) return {};
  return At(program_size_, command_end - program_size_);
}

Findings CommandLine::Placed(Findings findings) const {
  const auto lacks_place = [](const Finding& finding) {
    return finding.place.source == nullptr && !IsFile(finding.main_file);
  };
  // A copy of the findings would copy the names of all their parameters.
  if (source_ == nullptr || std::ranges::none_of(findings.all(), lacks_place)) {
    return findings;
  }
  Findings out;
  out.NoteReadsOf(findings);
  for (Finding finding : findings.all()) {
    if (lacks_place(finding)) finding.place = PlaceOf(finding);
    out.Add(std::move(finding));
  }
  return out;
}

}  // namespace shardc::cli
