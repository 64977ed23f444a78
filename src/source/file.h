// Files in, whole, and out, whole or not at all.
#ifndef SHARDC_SOURCE_FILE_H_
#define SHARDC_SOURCE_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"
#include "source/source.h"

namespace shardc {

inline constexpr int64_t kTextLimitBytes = int64_t{2} << 30;

// Reads a regular file (or standard input for "-"), inflating it when it is
// gzipped, up to `limit_bytes` of text. FIFOs, devices and directories are
// refused. Findings: missing, unreadable, not-regular, limit.
SourceRef ReadSource(const std::string& path, Findings& findings,
                     int64_t limit_bytes = kTextLimitBytes);

// Writes to a temporary file beside `path`, syncs it and renames it. On
// failure the old file is untouched, nothing is left behind and a finding
// (`write`) says why. "-" writes to standard output.
bool WriteWhole(const std::string& path, std::string_view bytes,
                Findings& findings);

// Writes to a file descriptor until all is out; false with errno set.
bool WriteAll(int fd, std::string_view bytes);

// Gzip (one or several members) to bytes; nothing on broken or oversized
// input, with the reason in `*why`.
std::optional<std::string> Inflate(std::string_view gzip, int64_t limit_bytes,
                                   std::string* why);
bool IsGzip(std::string_view bytes);

// "a/b" for ("a/x.yaml", "b"); absolute paths stay. Lexical only.
std::string PathBeside(const std::string& file, const std::string& relative);

}  // namespace shardc

#endif  // SHARDC_SOURCE_FILE_H_
