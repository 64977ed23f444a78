// Writes and reads the names of configurations. The characters that separate
// options are escaped inside of values, as in addresses: `%26` is `&`.
#include "parse/config_name.h"

#include <algorithm>
#include <charconv>

namespace shardc {
namespace {

constexpr std::string_view kEscaped = "%&?";

std::string Escaped(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (kEscaped.find(c) == std::string_view::npos) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[byte / 16];
    out += kDigits[byte % 16];
  }
  return out;
}

std::string Unescaped(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    int value = 0;
    const bool escape = text[at] == '%' && at + 2 < text.size();
    const auto read =
        escape ? std::from_chars(text.data() + at + 1, text.data() + at + 3,
                                 value, 16)
               : std::from_chars_result{nullptr, std::errc::invalid_argument};
    if (read.ec == std::errc() && read.ptr == text.data() + at + 3) {
      out += static_cast<char>(value);
      at += 2;
    } else {
      out += text[at];
    }
  }
  return out;
}

}  // namespace

std::string ConfigNameOf(const ConfigOrigin& origin) {
  std::string out =
      std::string(kConfigPrefix) + origin.system + ":" + Escaped(origin.file);
  char sign = '?';
  const auto add = [&](std::string_view key, const std::string& value) {
    if (value.empty()) return;
    out += sign;
    out += std::string(key) + "=" + Escaped(value);
    sign = '&';
  };
  if (origin.devices) add("devices", std::to_string(*origin.devices));
  add("symbol", origin.symbol);
  add("model", origin.model);
  add("manifest", origin.manifest);
  add("families", origin.families);
  for (const std::string& one : origin.set) add("set", one);
  return out;
}

std::optional<ConfigOrigin> ParseConfigName(std::string_view name) {
  if (!IsConfigName(name)) return std::nullopt;
  name.remove_prefix(kConfigPrefix.size());
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  ConfigOrigin out;
  out.system = name.substr(0, colon);
  name.remove_prefix(colon + 1);
  const size_t options = std::min(name.find('?'), name.size());
  out.file = Unescaped(name.substr(0, options));
  name.remove_prefix(std::min(options + 1, name.size()));
  while (!name.empty()) {
    const size_t end = std::min(name.find('&'), name.size());
    const std::string_view option = name.substr(0, end);
    name.remove_prefix(std::min(end + 1, name.size()));
    const size_t equals = option.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view key = option.substr(0, equals);
    const std::string value = Unescaped(option.substr(equals + 1));
    if (key == "devices") {
      int64_t devices = 0;
      const auto read =
          std::from_chars(value.data(), value.data() + value.size(), devices);
      if (read.ec != std::errc() || devices < 1) return std::nullopt;
      out.devices = devices;
    } else if (key == "symbol") {
      out.symbol = value;
    } else if (key == "model") {
      out.model = value;
    } else if (key == "manifest") {
      out.manifest = value;
    } else if (key == "families") {
      out.families = value;
    } else if (key == "set") {
      out.set.push_back(value);
    } else {
      return std::nullopt;
    }
  }
  if (out.system.empty() || out.file.empty()) return std::nullopt;
  return out;
}

}  // namespace shardc
