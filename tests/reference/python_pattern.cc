// Rewrites Python patterns in one pass over their bytes. It remembers whether
// the last item can be repeated, how many groups are open, and the names of
// groups. Bytes of multi-byte characters are copied.
#include "reference/python_pattern.h"

#include <cctype>
#include <set>
#include <vector>

namespace shardc::reference {
namespace {

constexpr std::string_view kWord = R"(\p{L}\p{N}_)";
constexpr std::string_view kSpace = R"(\t\n\v\f\r\x1c-\x1f \x{85}\p{Z})";
constexpr int kRepeatLimit = 1000;  // RE2's

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsAlpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  PythonPattern Read() {
    while (syntax_ == PythonSyntax::kFine && at_ < text_.size()) Step();
    if (syntax_ == PythonSyntax::kFine && !open_.empty()) Invalid();
    if (syntax_ == PythonSyntax::kFine && python_only_) {
      syntax_ = PythonSyntax::kPythonOnly;
    }
    return {syntax_, std::move(out_)};
  }

 private:
  // The kind of the item before a quantifier.
  enum class Last : uint8_t { kNothing, kAnchor, kItem, kQuantified };

  void Invalid() { syntax_ = PythonSyntax::kInvalid; }
  // The rest of the pattern is still read, because it may be invalid.
  void PythonOnly() { python_only_ = true; }
  bool StartsWith(std::string_view prefix) const {
    return text_.substr(at_).starts_with(prefix);
  }
  void Copy(size_t count, Last last) {
    out_ += text_.substr(at_, count);
    at_ += count;
    last_ = last;
  }

  void Step() {
    if (!StartsWith("(?")) only_flags_ = false;
    switch (text_[at_]) {
      case '\\':
        return Escape();
      case '[':
        return Class();
      case '(':
        return Open();
      case ')':
        if (open_.empty()) return Invalid();
        open_.pop_back();
        return Copy(1, Last::kItem);
      case '|':
        return Copy(1, Last::kNothing);
      case '^':
      case '$':
        return Copy(1, Last::kAnchor);
      case '*':
      case '+':
      case '?':
        return Quantify(text_.substr(at_, 1), 1);
      case '{':
        return Braces();
      default:
        return Copy(1, Last::kItem);
    }
  }

  // `re2` is the quantifier as RE2 writes it; `length` is the number of bytes
  // that it has in the Python pattern.
  void Quantify(std::string_view re2, size_t length) {
    if (last_ != Last::kItem) return Invalid();
    out_ += re2;
    at_ += length;
    if (StartsWith("?")) {
      out_ += '?';
      ++at_;
    } else if (StartsWith("+")) {
      ++at_;  // possessive
      PythonOnly();
    }
    last_ = Last::kQuantified;
  }

  // Reads a brace. {m}, {m,}, {,n} and {m,n} are quantifiers; any other brace
  // is a literal.
  void Braces() {
    size_t end = at_ + 1;
    std::string low, high;
    while (end < text_.size() && IsDigit(text_[end])) low += text_[end++];
    const bool comma = end < text_.size() && text_[end] == ',';
    if (comma) {
      ++end;
      while (end < text_.size() && IsDigit(text_[end])) high += text_[end++];
    }
    const bool closed = end < text_.size() && text_[end] == '}';
    if (!closed || (low.empty() && !comma)) {
      out_ += "\\{";
      ++at_;
      last_ = Last::kItem;
      return;
    }
    auto number = [](const std::string& digits, int missing) {
      if (digits.empty()) return missing;
      return digits.size() > 6 ? 1'000'000 : std::stoi(digits);
    };
    const int least = number(low, 0);
    const int most = !comma ? least : number(high, least);
    if (most < least) return Invalid();
    if (most > kRepeatLimit) PythonOnly();
    std::string re2 = "{" + std::to_string(least);
    if (comma) re2 += ",";
    if (comma && !high.empty()) re2 += std::to_string(most);
    Quantify(re2 + "}", end + 1 - at_);
  }

  void Open() {
    if (!StartsWith("(?")) {
      ++groups_;
      open_.push_back(true);
      return Copy(1, Last::kNothing);
    }
    if (StartsWith("(?:")) return OpenPlain(3);
    for (std::string_view only : {"(?<=", "(?<!", "(?=", "(?!", "(?>"}) {
      if (!StartsWith(only)) continue;
      PythonOnly();
      return OpenPlain(only.size());
    }
    if (StartsWith("(?P=")) return NamedReference();
    if (StartsWith("(?(")) return Conditional();
    if (StartsWith("(?#")) {
      const size_t end = text_.find(')', at_);
      if (end == std::string_view::npos) return Invalid();
      at_ = end + 1;
      return;
    }
    if (StartsWith("(?P<")) return NamedGroup();
    Flags();
  }

  void OpenPlain(size_t length) {
    only_flags_ = false;
    open_.push_back(false);
    Copy(length, Last::kNothing);
  }

  void NamedReference() {
    only_flags_ = false;
    const size_t end = text_.find(')', at_);
    if (end == std::string_view::npos ||
        !names_.contains(text_.substr(at_ + 4, end - at_ - 4))) {
      return Invalid();
    }
    PythonOnly();
    Copy(end + 1 - at_, Last::kItem);
  }

  void Conditional() {
    const size_t end = text_.find(')', at_);
    if (end == std::string_view::npos) return Invalid();
    PythonOnly();
    OpenPlain(end + 1 - at_);
  }

  void NamedGroup() {
    only_flags_ = false;
    const size_t begin = at_ + 4;
    const size_t end = text_.find('>', begin);
    if (end == std::string_view::npos) return Invalid();
    const std::string_view name = text_.substr(begin, end - begin);
    if (name.empty() || IsDigit(name[0])) return Invalid();
    for (char c : name) {
      if (!IsAlpha(c) && !IsDigit(c) && c != '_') return Invalid();
    }
    if (!names_.insert(name).second) return Invalid();
    ++groups_;
    open_.push_back(true);
    Copy(end + 1 - at_, Last::kNothing);
  }

  // Reads flags: (?i) at the start, (?ms-i:...) anywhere. `a` and `u` choose
  // tables that names do not need.
  void Flags() {
    std::string kept;
    bool minus = false;
    size_t end = at_ + 2;
    for (; end < text_.size() && (IsAlpha(text_[end]) || text_[end] == '-');
         ++end) {
      const char c = text_[end];
      if (c == '-') {
        if (minus) return Invalid();
        minus = true;
        kept += c;
      } else if (c == 'x') {
        PythonOnly();  // comments and blanks: nothing more is known
        at_ = text_.size();
        open_.clear();
        return;
      } else if (c == 'i' || c == 'm' || c == 's') {
        kept += c;
      } else if (c != 'a' && c != 'u') {
        return Invalid();
      }
    }
    if (end >= text_.size() || end == at_ + 2) return Invalid();
    const bool scoped = text_[end] == ':';
    if (!scoped && (text_[end] != ')' || minus || !only_flags_)) {
      return Invalid();
    }
    if (scoped) only_flags_ = false;
    if (kept == "-") kept.clear();
    if (scoped) open_.push_back(false);
    if (!kept.empty() || scoped) out_ += "(?" + kept + (scoped ? ":" : ")");
    at_ = end + 1;
    last_ = Last::kNothing;
  }

  void Escape() {
    if (at_ + 1 >= text_.size()) return Invalid();
    const char c = text_[at_ + 1];
    const size_t begin = at_;
    at_ += 2;
    last_ = Last::kItem;
    switch (c) {
      case 'A':
      case 'b':
      case 'B':
        out_ += text_.substr(begin, 2);
        last_ = Last::kAnchor;
        return;
      case 'Z':
        out_ += "\\z";
        last_ = Last::kAnchor;
        return;
      case 'd':
        out_ += "\\p{Nd}";
        return;
      case 'D':
        out_ += "\\P{Nd}";
        return;
      case 'w':
        out_ += "[" + std::string(kWord) + "]";
        return;
      case 'W':
        out_ += "[^" + std::string(kWord) + "]";
        return;
      case 's':
        out_ += "[" + std::string(kSpace) + "]";
        return;
      case 'S':
        out_ += "[^" + std::string(kSpace) + "]";
        return;
      default:
        break;
    }
    if (c >= '1' && c <= '9') return BackReference(c);
    Character(c);
  }

  void BackReference(char first) {
    int number = first - '0';
    // Three octal digits are a character, but \12 is group 12.
    if (first <= '3' && at_ + 1 < text_.size() && IsOctal(text_[at_]) &&
        IsOctal(text_[at_ + 1])) {
      out_ += "\\" + std::string(1, first) + std::string(text_.substr(at_, 2));
      at_ += 2;
      return;
    }
    if (at_ < text_.size() && IsDigit(text_[at_])) {
      number = number * 10 + (text_[at_++] - '0');
    }
    if (number > groups_) return Invalid();
    PythonOnly();
    last_ = Last::kItem;
  }

  static bool IsOctal(char c) { return c >= '0' && c <= '7'; }

  // Appends an escape that means one character, inside or outside of a class.
  // `c` and its backslash have already been read.
  void Character(char c) {
    switch (c) {
      case 'a':
      case 'f':
      case 'n':
      case 'r':
      case 't':
      case 'v':
        out_ += std::string("\\") + c;
        return;
      case '0': {
        std::string digits = "0";
        while (digits.size() < 3 && at_ < text_.size() && IsOctal(text_[at_])) {
          digits += text_[at_++];
        }
        AppendCode(std::stoul(digits, nullptr, 8));
        return;
      }
      case 'x':
        return Hex(2);
      case 'u':
        return Hex(4);
      case 'U':
        return Hex(8);
      case 'N':
        return NamedCharacter();
      default:
        break;
    }
    if (IsAlpha(c) || IsDigit(c)) return Invalid();
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && c != '_' && c != ' ') out_ += '\\';
    out_ += c;
  }

  // Reads \N{DIGIT ONE}; RE2 has no table of such names.
  void NamedCharacter() {
    const size_t end = text_.find('}', at_);
    if (!StartsWith("{") || end == std::string_view::npos) return Invalid();
    at_ = end + 1;
    PythonOnly();
  }

  void Hex(size_t digits) {
    const std::string text(text_.substr(at_, digits));
    if (text.size() < digits) return Invalid();
    for (char c : text) {
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return Invalid();
    }
    at_ += digits;
    AppendCode(std::stoul(text, nullptr, 16));
  }

  void AppendCode(unsigned long code) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string hex;
    do {
      hex.insert(hex.begin(), kDigits[code % 16]);
      code /= 16;
    } while (code > 0);
    out_ += "\\x{" + hex + "}";
  }

  void Class() {
    out_ += '[';
    ++at_;
    if (StartsWith("^")) {
      out_ += '^';
      ++at_;
    }
    bool first = true;
    for (; at_ < text_.size(); first = false) {
      const char c = text_[at_];
      if (c == ']' && !first) {
        out_ += ']';
        ++at_;
        last_ = Last::kItem;
        return;
      }
      if (c == '\\') {
        ClassEscape();
        if (syntax_ != PythonSyntax::kFine) return;
        continue;
      }
      // Python has no classes such as [:alpha:]; a bracket inside a set is an
      // ordinary character.
      if (c == '[' || c == ']') out_ += '\\';
      out_ += c;
      ++at_;
    }
    Invalid();
  }

  void ClassEscape() {
    if (at_ + 1 >= text_.size()) return Invalid();
    const char c = text_[at_ + 1];
    at_ += 2;
    switch (c) {
      case 'd':
        out_ += "\\p{Nd}";
        return;
      case 'D':
        out_ += "\\P{Nd}";
        return;
      case 'w':
        out_ += kWord;
        return;
      case 's':
        out_ += kSpace;
        return;
      case 'W':
      case 'S':
        // A negated set inside a set: by ASCII, as RE2 has it.
        out_ += std::string("\\") + c;
        return;
      case 'b':
        out_ += "\\x08";
        return;
      default:
        break;
    }
    if (IsOctal(c) && c != '0') {
      std::string digits(1, c);
      while (digits.size() < 3 && at_ < text_.size() && IsOctal(text_[at_])) {
        digits += text_[at_++];
      }
      const unsigned long code = std::stoul(digits, nullptr, 8);
      if (code > 0377) return Invalid();
      return AppendCode(code);
    }
    Character(c);
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string out_;
  PythonSyntax syntax_ = PythonSyntax::kFine;
  bool python_only_ = false;
  bool only_flags_ = true;  // nothing but comments and global flags so far
  Last last_ = Last::kNothing;
  int groups_ = 0;
  std::vector<bool> open_;
  std::set<std::string_view> names_;
};

}  // namespace

PythonPattern ReadPythonPattern(std::string_view text) {
  return Reader(text).Read();
}

}  // namespace shardc::reference
