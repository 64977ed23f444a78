// Finds the keys that enclose a cursor in a YAML text. The cursor's line is
// scanned up to the cursor for quotes, brackets and keys. Outer keys are on
// earlier lines with less indentation. A sequence is an exception: its dashes
// may have the same indentation as its key. Here `|` is the cursor:
//
//   rules:
//   - match: 'x'
//     spec: [FS|    ->  a value of `spec` in `rules`, the word `FS`
#include "lsp/context.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lsp/position.h"
#include "source/after_last.h"

namespace shardc::lsp {
namespace {

using std::string_view;

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

// Returns whether the byte can be in a word such as `fsdp`, `builtin:llama/hf`
// or `unanchored-pattern`.
bool IsWordByte(char c) {
  return IsNameByte(c) || c == ':' || c == '/' || c == '.' || c == '-';
}

string_view TrimBlanks(string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

std::string Unquoted(string_view text) {
  text = TrimBlanks(text);
  if (text.size() >= 2 && (text[0] == '\'' || text[0] == '"') &&
      text.back() == text[0]) {
    text = text.substr(1, text.size() - 2);
  }
  return std::string(text);
}

// The columns at which a line's dash and its content begin.
struct Start {
  size_t first = 0;    // column of the first dash; `content` if there is none
  size_t content = 0;  // column after all spaces and dashes
  bool dash = false;
};

Start StartOf(string_view line) {
  Start out;
  size_t at = line.find_first_not_of(" \t");
  out.first = out.content = at == string_view::npos ? line.size() : at;
  at = out.content;
  while (at < line.size() && line[at] == '-' &&
         (at + 1 == line.size() || IsBlank(line[at + 1]))) {
    out.dash = true;
    ++at;
    while (at < line.size() && IsBlank(line[at])) ++at;
    out.content = at;
  }
  return out;
}

// The state of a scanner at the end of a line: whether it is in a comment or a
// value, and the keys that enclose it.
struct Scan {
  bool comment = false;
  size_t comment_begin = 0;
  std::vector<std::string> keys;  // keys of this line, outermost first
  bool value = false;             // whether the line ends in a value
  bool behind_colon = false;
  size_t piece = 0;  // offset of the text that is being typed
};

class Scanner {
 public:
  // `whole` is true for a complete line. If it is false, the line ends at the
  // cursor, so a colon at the end does not yet make a key.
  Scanner(string_view line, size_t from, bool whole)
      : line_(line), at_(from), whole_(whole) {
    out_.piece = from;
    levels_.push_back({});
  }

  Scan Run() {
    while (at_ < line_.size() && !out_.comment) Step();
    for (const Level& level : levels_) {
      if (!level.key.empty()) out_.keys.push_back(level.key);
    }
    const Level& last = levels_.back();
    out_.value = last.list || !last.key.empty();
    out_.behind_colon = !last.list && !last.key.empty();
    return std::move(out_);
  }

 private:
  struct Level {
    bool list = false;  // inside [], where a colon does not end a key
    std::string key;    // key whose value is being read; empty if none
  };

  void Step() {
    const char c = line_[at_];
    const bool fresh = at_ == out_.piece || TrimBlanks(Piece()).empty();
    if ((c == '\'' || c == '"') && fresh) {
      const size_t close = line_.find(c, at_ + 1);
      at_ = close == string_view::npos ? line_.size() : close + 1;
      return;
    }
    if (c == '#' && (at_ == 0 || IsBlank(line_[at_ - 1]))) {
      out_.comment = true;
      out_.comment_begin = at_;
      return;
    }
    if (c == ':' && EndsKey(at_ + 1) && levels_.back().key.empty()) {
      levels_.back().key = Unquoted(Piece());
      out_.piece = at_ + 1;
    } else if ((c == '[' || c == '{') && fresh) {
      levels_.push_back({c == '[', {}});
      out_.piece = at_ + 1;
    } else if ((c == ']' || c == '}') && levels_.size() > 1) {
      levels_.pop_back();
      out_.piece = at_ + 1;
    } else if (c == ',' && levels_.size() > 1) {
      levels_.back().key.clear();
      out_.piece = at_ + 1;
    }
    ++at_;
  }
  bool EndsKey(size_t next) const {
    return next == line_.size() ? whole_ : IsBlank(line_[next]);
  }
  string_view Piece() const {
    return line_.substr(out_.piece, at_ - out_.piece);
  }

  string_view line_;
  size_t at_;
  bool whole_;
  Scan out_;
  std::vector<Level> levels_;
};

// Returns the first key on a line, or nullopt if the line has no key. In block
// style, the lines below with more indentation belong to the value of this key.
std::optional<std::string> KeyOf(string_view line, size_t content) {
  const Scan scan = Scanner(line, content, true).Run();
  if (scan.keys.empty()) return std::nullopt;
  return scan.keys.front();
}

// Collects the keys on earlier lines whose values contain the cursor's line.
// The lines are read upwards, because a key with less indentation encloses the
// lines below it.
class Climb {
 public:
  Climb(const Lines& lines, size_t line, Start start)
      : lines_(lines), line_(line), limit_(start.first), equal_(start.dash) {}

  std::vector<std::string> Run() {
    while (line_ > 0 && (limit_ > 0 || equal_)) {
      --line_;
      Look(lines_.Text(line_));
    }
    std::reverse(keys_.begin(), keys_.end());
    return std::move(keys_);
  }

 private:
  void Look(string_view line) {
    const Start start = StartOf(line);
    if (start.content >= line.size() && !start.dash) return;
    if (start.content < line.size() && line[start.content] == '#') return;
    if (start.dash) {
      if (start.first >= limit_) return;
      if (start.content < limit_) Take(line, start);
      limit_ = start.first;
      equal_ = true;
    } else if (start.first < limit_ || (equal_ && start.first == limit_)) {
      Take(line, start);
      limit_ = start.first;
      equal_ = false;
    }
  }
  void Take(string_view line, const Start& start) {
    if (auto key = KeyOf(line, start.content)) keys_.push_back(std::move(*key));
  }

  const Lines& lines_;
  size_t line_;
  size_t limit_;  // the next outer key has less indentation than this
  bool equal_;    // whether its indentation may also be equal to limit_
  std::vector<std::string> keys_;
};

// Returns the keys of the top-level mapping of the file.
std::vector<std::string> TopKeys(string_view text) {
  std::vector<std::string> out;
  const Lines lines(text);
  for (size_t i = 0; i < lines.count(); ++i) {
    const string_view line = lines.Text(i);
    if (line.empty() || IsBlank(line[0]) || line[0] == '#' || line[0] == '-') {
      continue;
    }
    if (auto key = KeyOf(line, 0)) out.push_back(std::move(*key));
  }
  return out;
}

bool Has(const std::vector<std::string>& keys,
         std::initializer_list<string_view> any) {
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
    return std::find(any.begin(), any.end(), key) != any.end();
  });
}

bool Holds(string_view text, string_view part) {
  return text.find(part) != string_view::npos;
}

}  // namespace

FileKind KindOf(string_view path, string_view text) {
  constexpr string_view kProject = "shardc.yaml";
  const string_view name = AfterLast(path, '/');
  if (name == kProject || Holds(text, "$schema=project.schema")) {
    return FileKind::kProject;
  }
  if (Holds(text, "$schema=rules.schema")) return FileKind::kRules;
  if (Holds(text, "$schema=mesh.schema")) return FileKind::kMesh;
  const auto keys = TopKeys(text);
  // Other tools also use `rules` and `extends`, so these keys are not enough to
  // recognise a rules file.
  if (Has(keys, {"register", "bundles"}) ||
      (Has(keys, {"rules"}) && Holds(text, "match:")) ||
      (Has(keys, {"extends"}) && Holds(text, "builtin:"))) {
    return FileKind::kRules;
  }
  if (Has(keys, {"axes"})) {
    const bool rules = Has(keys, {"rules", "extends", "policy", "separator"});
    return rules ? FileKind::kRules : FileKind::kMesh;
  }
  return FileKind::kOther;
}

bool Context::In(std::initializer_list<string_view> path) const {
  return std::equal(path.begin(), path.end(), keys.begin(), keys.end(),
                    [](string_view wanted, const std::string& key) {
                      return wanted == "*" || wanted == key;
                    });
}

Context ContextAt(string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  const Lines lines(text);
  const size_t line = lines.LineOf(offset);
  const size_t begin = lines.Begin(line);
  const string_view before = text.substr(begin, offset - begin);
  Context out;
  out.begin = offset;
  while (out.begin > begin && IsWordByte(text[out.begin - 1])) --out.begin;
  const Start start = StartOf(before);
  Scan scan = Scanner(before, start.content, false).Run();
  if (scan.comment) {
    const string_view comment = before.substr(scan.comment_begin);
    const size_t open = comment.rfind("shardc: ignore[");
    const bool inside = open != string_view::npos &&
                        comment.find(']', open) == string_view::npos;
    out.at = inside ? Context::At::kIgnore : Context::At::kComment;
  } else if (scan.value) {
    out.at = Context::At::kValue;
  }
  out.behind_colon = scan.behind_colon;
  out.keys = Climb(lines, line, start).Run();
  // The keys of the cursor's own line are the innermost. Text after a dash, or
  // alone on a line, may become a key or a value. For such text `at` stays
  // kKey, and both are completed.
  std::move(scan.keys.begin(), scan.keys.end(), std::back_inserter(out.keys));
  return out;
}

Word WordAt(string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  Word out{offset, offset};
  const auto in_name = [](char c) {
    return IsNameByte(c) || c == '-' || c == '.';
  };
  while (out.begin > 0 && in_name(text[out.begin - 1])) --out.begin;
  while (out.end < text.size() && in_name(text[out.end])) ++out.end;
  return out;
}

}  // namespace shardc::lsp
