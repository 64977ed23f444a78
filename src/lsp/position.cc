// Converts between byte offsets in a UTF-8 text and positions of the Language
// Server Protocol. Columns are counted in UTF-16 code units unless client and
// server agree on another unit. For example, the character U+1F600 has two code
// units in UTF-16 and four in UTF-8:
//
//   "a\n\U0001F600b", offset of `b`  ->  line 1, character 2 (in UTF-8, 4)
#include "lsp/position.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "source/file.h"
#include "source/list.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::lsp {
namespace {

constexpr std::pair<Encoding, std::string_view> kNames[] = {
    {Encoding::kUtf8, "utf-8"},
    {Encoding::kUtf16, "utf-16"},
    {Encoding::kUtf32, "utf-32"},
};

// In a long line, the column is stored at every kStep bytes. Other columns are
// counted from the nearest stored position before them.
constexpr size_t kStep = 4096;

struct Units {
  size_t bytes = 1;
  int64_t units = 1;
};

// Returns the size of the character at `at`, in bytes and in units of the
// encoding. An invalid byte is treated as one character.
Units UnitsAt(std::string_view text, size_t at, Encoding encoding) {
  // An ASCII character is one byte and one unit in every encoding.
  if (static_cast<unsigned char>(text[at]) < 0x80) return {};
  const CodePoint point = DecodeUtf8(text, at);
  if (point.length == 0) return {};
  if (encoding == Encoding::kUtf8) {
    return {point.length, static_cast<int64_t>(point.length)};
  }
  constexpr uint32_t kLastSingle = 0xFFFF;
  const bool pair = encoding == Encoding::kUtf16 && point.value > kLastSingle;
  return {point.length, pair ? 2 : 1};
}

}  // namespace

std::string_view EncodingName(Encoding encoding) {
  return kNames[static_cast<size_t>(encoding)].second;
}

std::optional<Encoding> ParseEncoding(std::string_view name) {
  for (const auto& [encoding, known] : kNames) {
    if (known == name) return encoding;
  }
  return std::nullopt;
}

size_t FindBreak(std::string_view text, size_t at) {
  while (at < text.size() && text[at] != '\n' && text[at] != '\r') ++at;
  return at;
}

size_t OffsetInLine(std::string_view line, int64_t column, Encoding encoding) {
  size_t at = 0;
  while (at < line.size() && column > 0) {
    const Units units = UnitsAt(line, at, encoding);
    if (column < units.units) break;
    column -= units.units;
    at += units.bytes;
  }
  return at;
}

int64_t UnitsOf(std::string_view text, Encoding encoding) {
  int64_t out = 0;
  for (size_t at = 0; at < text.size();) {
    const Units units = UnitsAt(text, at, encoding);
    at += units.bytes;
    out += units.units;
  }
  return out;
}

Lines::Lines(std::string_view text) : text_(text), starts_{0} {
  for (size_t at = FindBreak(text, 0); at < text.size();
       at = FindBreak(text, at)) {
    at += text.substr(at, 2) == "\r\n" ? 2 : 1;
    starts_.push_back(at);
  }
}

size_t Lines::End(size_t line) const {
  if (line + 1 == starts_.size()) return text_.size();
  size_t end = starts_[line + 1];
  if (text_[end - 1] == '\n') --end;
  if (end > starts_[line] && text_[end - 1] == '\r') --end;
  return end;
}

size_t Lines::LineOf(size_t offset) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
  return AsIndex(after - starts_.begin()) - 1;
}

size_t Lines::OffsetOf(Position position, Encoding encoding) const {
  if (position.line < 0) return 0;
  if (position.line >= static_cast<int64_t>(starts_.size())) {
    return text_.size();
  }
  const auto line = AsIndex(position.line);
  return Begin(line) + OffsetInLine(Text(line), position.character, encoding);
}

Position Lines::PositionOf(size_t offset, Encoding encoding) const {
  offset = std::min(offset, text_.size());
  const size_t line = LineOf(offset);
  // An offset inside a line break is treated as the end of the line, because
  // LSP has no position between \r and \n.
  const size_t to = std::min(offset, End(line));
  if (counted_.empty() || counted_line_ != line ||
      counted_encoding_ != encoding) {
    counted_line_ = line;
    counted_encoding_ = encoding;
    counted_.assign(1, {starts_[line], 0});
  }
  const auto after = std::upper_bound(
      counted_.begin(), counted_.end(), to,
      [](size_t value, const Counted& one) { return value < one.offset; });
  Counted at = *std::prev(after);
  while (at.offset < to) {
    const Units units = UnitsAt(text_, at.offset, encoding);
    if (at.offset + units.bytes > to) break;
    at.character += units.units;
    at.offset += units.bytes;
    if (at.offset >= counted_.back().offset + kStep) counted_.push_back(at);
  }
  return {static_cast<int64_t>(line), at.character};
}

namespace {

int Digit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsPlain(char c) {
  return IsLetter(c) || IsDigit(c) ||
         std::string_view("-._~/").find(c) != std::string_view::npos;
}

}  // namespace

std::optional<std::string> PathOfUri(std::string_view uri) {
  constexpr std::string_view kScheme = "file://";
  constexpr std::string_view kHost = "localhost";
  if (!uri.starts_with(kScheme)) return std::nullopt;
  uri.remove_prefix(kScheme.size());
  if (uri.starts_with(kHost)) uri.remove_prefix(kHost.size());
  if (!uri.starts_with('/')) return std::nullopt;
  std::string path;
  for (size_t i = 0; i < uri.size(); ++i) {
    if (uri[i] != '%') {
      path += uri[i];
      continue;
    }
    if (i + 2 >= uri.size()) return std::nullopt;
    const int high = Digit(uri[i + 1]);
    const int low = Digit(uri[i + 2]);
    if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
    path += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return path;
}

std::string UriOfPath(const std::string& path) {
  std::error_code error;
  const auto whole = std::filesystem::absolute(path, error);
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out = "file://";
  for (const char c : (error ? path : whole.lexically_normal().string())) {
    if (IsPlain(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 0xF];
  }
  return out;
}

// Finds the keys that enclose a cursor in a YAML text. The cursor's line is
// scanned up to the cursor for quotes, brackets and keys. Outer keys are on
// earlier lines with less indentation. A sequence is an exception: its dashes
// may have the same indentation as its key. Here `|` is the cursor:
//
//   rules:
//   - match: 'x'
//     spec: [FS|    ->  a value of `spec` in `rules`, the word `FS`

namespace {

using std::string_view;

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// Returns whether the byte can be in a word such as `fsdp`, `builtin:llama/hf`
// or `unanchored-pattern`.
bool IsWordPart(char c) {
  return IsWordByte(c) || c == ':' || c == '/' || c == '.' || c == '-';
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
  return std::any_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return IsAmong(key, any); });
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
  while (out.begin > begin && IsWordPart(text[out.begin - 1])) --out.begin;
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
    return IsWordByte(c) || c == '-' || c == '.';
  };
  while (out.begin > 0 && in_name(text[out.begin - 1])) --out.begin;
  while (out.end < text.size() && in_name(text[out.end])) ++out.end;
  return out;
}

void Documents::Open(std::string uri, std::string text,
                     std::optional<int64_t> version) {
  Document document;
  document.path = PathOfUri(uri).value_or("");
  document.text = std::move(text);
  document.version = version;
  document.uri = uri;
  document.file = FileIdOf(document.name());
  uris_[document.name()].insert(uri);
  open_.insert_or_assign(std::move(uri), std::move(document));
}

void Documents::Close(const std::string& uri) {
  const auto at = open_.find(uri);
  if (at == open_.end()) return;
  const auto named = uris_.find(at->second.name());
  named->second.erase(uri);
  if (named->second.empty()) uris_.erase(named);
  open_.erase(at);
}

void Documents::RefreshFiles() {
  for (auto& [uri, document] : open_) {
    document.file = FileIdOf(document.name());
  }
}

const Document* Documents::Find(const std::string& uri) const {
  const auto at = open_.find(uri);
  return at == open_.end() ? nullptr : &at->second;
}

Document* Documents::Find(const std::string& uri) {
  const auto at = open_.find(uri);
  return at == open_.end() ? nullptr : &at->second;
}

const Document* Documents::Showing(const std::string& path) const {
  const auto named = uris_.find(path);
  if (named != uris_.end()) return Find(*named->second.begin());
  const FileId file = FileIdOf(path);
  for (const auto& [uri, document] : open_) {
    if (!document.path.empty() && document.file == file) return &document;
  }
  return nullptr;
}

int64_t Documents::CountOf(const FileId& file) const {
  return std::count_if(open_.begin(), open_.end(), [&](const auto& one) {
    return one.second.file == file;
  });
}

FileTexts Documents::Texts() const {
  FileTexts out;
  for (const auto& [uri, document] : open_) {
    out[document.file] = document.text;
  }
  return out;
}

// Applies changes to a text. An editor may send thousands of changes in one
// message, for example when it replaces a word everywhere. The text is
// therefore divided once into blocks of about 2 KiB. A block stores its number
// of line breaks or, if it has none because it is a part of a longer line, its
// number of units of the encoding. The numbers give the blocks in which a
// change begins and ends. Only these two blocks are searched, and only the
// blocks from the first to the second are rebuilt:
//
//   blocks of 40, 38 and 41 lines; a change in line 50
//     ->  line 10 of the second block; the first and third are not read

namespace {

constexpr size_t kBlock = 2048;
constexpr size_t kLargest = 2 * kBlock;

// Returns the offset after the next line break, or npos.
size_t AfterBreak(std::string_view text, size_t at) {
  at = FindBreak(text, at);
  if (at == text.size()) return std::string_view::npos;
  return at + (text.substr(at, 2) == "\r\n" ? 2 : 1);
}

// Returns the end of the first block of a text that is longer than kLargest:
// after a line break, or else before any character.
size_t BlockEnd(std::string_view text) {
  const size_t end = AfterBreak(text.substr(0, kLargest), kBlock);
  if (end < kLargest) return end;  // npos is above all offsets
  size_t at = kBlock;
  while (at < text.size() &&
         ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80 ||
          text.substr(at - 1, 2) == "\r\n")) {
    ++at;
  }
  return at;
}

size_t CountBreaks(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool pair = text[i] == '\n' && i > 0 && text[i - 1] == '\r';
    count += (text[i] == '\n' || text[i] == '\r') && !pair ? 1 : 0;
  }
  return count;
}

}  // namespace

// Divides a text into blocks that end at line breaks where lines are short. A
// text of at most kLargest bytes becomes one block.
std::vector<EditBuffer::Block> EditBuffer::Blocks(std::string_view text) {
  work_ += static_cast<int64_t>(text.size());
  std::vector<Block> out;
  const auto add = [&](std::string_view part) {
    const size_t breaks = CountBreaks(part);
    const int64_t units = breaks > 0 ? 0 : UnitsOf(part, encoding_);
    out.push_back({std::string(part), breaks, units});
  };
  while (text.size() > kLargest) {
    const size_t end = BlockEnd(text);
    add(text.substr(0, end));
    text.remove_prefix(end);
  }
  add(text);
  return out;
}

void EditBuffer::Divide(Encoding encoding) {
  if (!blocks_.empty()) return;
  encoding_ = encoding;
  blocks_ = Blocks(std::exchange(text_, {}));
}

EditBuffer::Spot EditBuffer::SpotOf(const Position& position) {
  if (position.line < 0) return {};
  const Spot end{blocks_.size() - 1, blocks_.back().text.size()};
  Spot spot;
  // The line begins after this number of line breaks.
  auto breaks = static_cast<uint64_t>(position.line);
  while (spot.block < end.block && breaks > blocks_[spot.block].breaks) {
    breaks -= blocks_[spot.block++].breaks;
  }
  if (breaks > blocks_[spot.block].breaks) return end;
  for (; breaks > 0; --breaks) {
    spot.offset = AfterBreak(blocks_[spot.block].text, spot.offset);
  }
  // The line may go on in the next blocks.
  for (int64_t column = std::max<int64_t>(0, position.character);;) {
    const std::string_view text(blocks_[spot.block].text);
    const bool whole = spot.offset == 0 && blocks_[spot.block].breaks == 0;
    const size_t stop = whole ? text.size() : FindBreak(text, spot.offset);
    const auto rest = text.substr(spot.offset, stop - spot.offset);
    if (!whole) work_ += static_cast<int64_t>(stop);
    const bool ends = stop < text.size() || spot.block == end.block;
    const int64_t units = ends    ? 0
                          : whole ? blocks_[spot.block].units
                                  : UnitsOf(rest, encoding_);
    if (ends || column < units) {
      if (whole) work_ += static_cast<int64_t>(stop);
      spot.offset += OffsetInLine(rest, column, encoding_);
      return spot;
    }
    column -= units;
    spot = {spot.block + 1, 0};
  }
}

void EditBuffer::Replace(Spot start, const Spot& end, std::string_view text) {
  // If the change begins at the start of a block and the previous block ends
  // with \r, both blocks are rebuilt. The inserted text may begin with \n,
  // which makes one line break together with that \r, and a line break must not
  // be divided.
  const bool joins = start.block > 0 && start.offset == 0 &&
                     blocks_[start.block - 1].text.ends_with('\r');
  if (joins) start = {start.block - 1, blocks_[start.block - 1].text.size()};
  const std::string_view last(blocks_[end.block].text);
  std::string joined = blocks_[start.block].text.substr(0, start.offset);
  joined += text;
  joined += last.substr(end.offset);
  auto blocks = Blocks(joined);
  const auto at = [&](size_t block) {
    return blocks_.begin() + static_cast<std::ptrdiff_t>(block);
  };
  // The usual case is that one block replaces one block. Then nothing is erased
  // or inserted, and no other block is moved in memory.
  blocks_[start.block] = std::move(blocks.front());
  blocks_.erase(at(start.block + 1), at(end.block + 1));
  blocks_.insert(at(start.block + 1),
                 std::make_move_iterator(blocks.begin() + 1),
                 std::make_move_iterator(blocks.end()));
}

void EditBuffer::Apply(Change change, Encoding encoding) {
  if (!change.range) {
    blocks_.clear();
    text_ = std::move(change.text);
    return;
  }
  Divide(encoding);
  const Spot start = SpotOf(change.range->start);
  const Spot end = std::max(start, SpotOf(change.range->end));
  Replace(start, end, change.text);
}

std::string EditBuffer::Take() {
  if (blocks_.empty()) return std::exchange(text_, {});
  size_t size = 0;
  for (const Block& block : blocks_) size += block.text.size();
  std::string out;
  out.reserve(size);
  for (const Block& block : blocks_) out += block.text;
  work_ += static_cast<int64_t>(size);
  blocks_.clear();
  return out;
}

}  // namespace shardc::lsp
