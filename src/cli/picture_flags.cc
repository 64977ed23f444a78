#include "cli/picture_flags.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cli/output.h"

namespace shardc::cli {
namespace {

constexpr int64_t kLeastWidth = 60, kMostWidth = 1000, kUsualWidth = 80;

// Returns whether the locale's character set is UTF-8.
bool IsUtf8Locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string text(value);
    std::transform(text.begin(), text.end(), text.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return text.find("utf-8") != std::string::npos ||
           text.find("utf8") != std::string::npos;
  }
  return false;
}

int64_t TerminalWidth() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kUsualWidth;
  }
  return std::clamp<int64_t>(size.ws_col, kLeastWidth, kMostWidth);
}

}  // namespace

Options OptionsOf(PictureFlags& flags) {
  return {{.name = "--ascii",
           .to = &flags.ascii,
           .help = "draw with ASCII only (default: if a terminal's locale is "
                   "not UTF-8)"},
          {.name = "--width",
           .to = &flags.width,
           .value = "N",
           .help = "width of the drawing in columns, 60 to 1000 (default: the "
                   "terminal's, else 80)"}};
}

std::optional<PictureStyle> StyleOf(const PictureFlags& flags,
                                    const Common& common, Findings& findings) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  PictureStyle out;
  out.ascii = flags.ascii || (terminal && !IsUtf8Locale());
  out.color = UsesColor(common, STDOUT_FILENO);
  if (flags.width.empty()) {
    out.width = terminal ? TerminalWidth() : kUsualWidth;
    return out;
  }
  const auto width =
      ParseInteger("--width", flags.width, kLeastWidth, findings);
  if (!width) return std::nullopt;
  out.width = std::min(*width, kMostWidth);
  return out;
}

}  // namespace shardc::cli
