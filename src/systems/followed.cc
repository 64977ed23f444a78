// Reads the files that a configuration names, and puts their settings before
// its own. A setting replaces those of the named files whose keys end in the
// same word, whatever the mappings around them:
//
//   model: glm5.yaml                     (num_layers: 78, num_experts: 256)
//   overrides: {num_layers: 4}     ->    num_experts: 256, num_layers: 4
#include "systems/followed.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "source/file.h"
#include "source/finding.h"
#include "source/list.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::systems {
namespace {

constexpr int kDeepestNamed = 8;
constexpr int kMostNamed = 64;
constexpr int64_t kLongestNamed = int64_t{256} << 10;
// Variables of the environment that a script sets.
constexpr std::string_view kOfEnvironment = "env.";

std::string_view LastWord(std::string_view key) {
  const size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

// Returns the file that a configuration names: next to it, or in one of the
// folders of the row, below any folder above the configuration. Returns an
// empty path if there is none.
std::string FindNamed(const Elsewhere& row, const std::string& of,
                      const std::string& name) {
  if (row.folders.empty() || name.empty()) return {};
  const auto is_file = [&](const std::string& path) {
    return path != of && IsThere(path, nullptr);
  };
  if (name[0] == '/') return is_file(name) ? name : std::string();
  for (const std::string& folder : row.folders) {
    const std::string relative = folder == "." ? name : PathIn(folder, name);
    std::string above = of;
    for (;;) {
      const std::string path = PathNextTo(above, relative);
      if (is_file(path)) return path;
      const size_t slash = above.rfind('/');
      // A path that begins with a slash ends at the root of the file system.
      if (folder == "." || slash == std::string::npos || slash == 0) break;
      above.resize(slash);
    }
  }
  return {};
}

class Follower {
 public:
  explicit Follower(const System& system) : system_(system) {}

  std::vector<Unshown> Take() { return std::move(unshown_); }

  // Returns the settings of the files that a configuration names, and then its
  // own.
  std::vector<Setting> SettingsOf(const ConfigText& text,
                                  const Environment& environment, int depth) {
    std::vector<Setting> out;
    for (const Setting& setting : text.settings) {
      const Elsewhere* row = RowOf(setting);
      if (row == nullptr) continue;
      const std::vector<std::string> names = NamesOf(setting);
      if (names.empty()) Add(*row, setting);
      for (const std::string& name : names) {
        const SourceRef file = Open(*row, name, text, depth);
        Findings unread;
        auto texts = file == nullptr
                         ? std::vector<ConfigText>()
                         : ReadConfigTexts(file, unread, environment);
        // A file with several configurations does not say which one it is.
        if (texts.size() != 1) {
          Add(*row, setting);
        } else {
          Put(SettingsOf(texts.front(), environment, depth + 1), out);
        }
      }
    }
    std::vector<Setting> own;
    for (const Setting& setting : text.settings) {
      const bool key = system_.FindKey(setting.key) != nullptr;
      if (key || RowOf(setting) == nullptr) own.push_back(setting);
    }
    Put(std::move(own), out);
    return out;
  }

 private:
  const Elsewhere* RowOf(const Setting& setting) const {
    const auto at = std::ranges::find_if(
        system_.elsewhere,
        [&](const Elsewhere& row) { return FitsGlob(row.key, setting.key); });
    if (at == system_.elsewhere.end()) return nullptr;
    constexpr std::array<std::string_view, 5> kNone = {"null", "None", "~",
                                                       "false", "False"};
    if (setting.values.empty() || !setting.values[0].unknown.empty()) {
      return &*at;
    }
    const std::string& text = setting.values[0].text;
    if (text.empty() || IsAmong(text, kNone)) return nullptr;
    // A variable of this name may have another purpose.
    constexpr std::array<std::string_view, 4> kEndings = {".yaml", ".yml",
                                                          ".toml", ".json"};
    const bool file = std::ranges::any_of(
        kEndings, [&](std::string_view end) { return text.ends_with(end); });
    return !setting.key.starts_with(kOfEnvironment) || file ? &*at : nullptr;
  }

  // Returns the names that a setting states: one, or those of a list such as
  // `[a.yaml, b.yaml]`. Returns none if they are not known.
  static std::vector<std::string> NamesOf(const Setting& setting) {
    if (setting.values.empty() || setting.conditional) return {};
    const Word& value = setting.values[0];
    if (!value.unknown.empty() || value.conditional) return {};
    std::string_view text = value.text;
    if (!text.starts_with('[') || !text.ends_with(']')) return {value.text};
    text = text.substr(1, text.size() - 2);
    std::vector<std::string> out;
    while (!text.empty()) {
      const size_t end = std::min(text.find(','), text.size());
      out.emplace_back(Trim(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
  }

  SourceRef Open(const Elsewhere& row, const std::string& name,
                 const ConfigText& text, int depth) {
    if (depth >= kDeepestNamed || files_ >= kMostNamed) return nullptr;
    const std::string path = FindNamed(row, text.source->name(), name);
    if (path.empty()) return nullptr;
    ++files_;
    Findings unread;
    return ReadSource(path, unread, kLongestNamed);
  }

  void Add(const Elsewhere& row, const Setting& setting) {
    const bool known = std::ranges::any_of(
        unshown_, [&](const Unshown& one) { return one.row == &row; });
    if (known) return;
    const std::string value =
        setting.values.empty() ? "" : " " + setting.values[0].text;
    unshown_.push_back({&row,
                        ShortQuote(setting.written + value) + " " + row.does +
                            ", which may state it",
                        setting.place});
  }

  // Appends settings, and removes those that they replace.
  static void Put(std::vector<Setting> more, std::vector<Setting>& out) {
    std::set<std::string, std::less<>> replaced;
    for (const Setting& setting : more) {
      if (!setting.key.starts_with(kOfEnvironment)) {
        replaced.emplace(LastWord(setting.key));
      }
    }
    std::erase_if(out, [&](const Setting& setting) {
      return replaced.contains(LastWord(setting.key));
    });
    std::ranges::move(more, std::back_inserter(out));
  }

  const System& system_;
  std::vector<Unshown> unshown_;
  int files_ = 0;
};

}  // namespace

Followed Follow(const System& system, const ConfigText& text) {
  Followed out{text, {}};
  if (system.elsewhere.empty()) return out;
  Follower follower(system);
  out.text.settings = follower.SettingsOf(
      text, text.variables == nullptr ? Environment() : *text.variables, 0);
  out.unshown = follower.Take();
  return out;
}

}  // namespace shardc::systems
