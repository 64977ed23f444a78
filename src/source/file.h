// Reads input files into memory.
#ifndef SHARDC_SOURCE_FILE_H_
#define SHARDC_SOURCE_FILE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "source/finding.h"
#include "source/source.h"

struct stat;

namespace shardc {

inline constexpr int64_t kTextLimitBytes = int64_t{2} << 30;

// Reads a regular file, or standard input for "-", and inflates gzip. Neither
// the file nor its inflated text may have more than `limit_bytes`. A path of a
// FIFO, a device or a directory is refused. On failure, adds the error missing,
// unreadable, not-regular or limit to `findings` and returns null. The text of
// standard input is kept and returned again by later calls.
SourceRef ReadSource(const std::string& path, Findings& findings,
                     int64_t limit_bytes = kTextLimitBytes);

// Inflates gzip data of one or several members. Returns nullopt if the data is
// damaged or inflates to more than `limit_bytes`. `*why` is then the reason;
// `why` may be null.
std::optional<std::string> Inflate(std::string_view gzip, int64_t limit_bytes,
                                   std::string* why);
bool IsGzip(std::string_view bytes);

// Returns an identity of the file that is the same for every path that leads to
// the file. Returns the path itself for "-", and if stat() fails.
FileId FileIdOf(const std::string& path);
FileId FileIdOf(const struct stat& status);

// Return a time in nanoseconds since 1970. ModifiedNs returns when the file's
// contents were last modified (mtime). ChangedNs returns when its contents or
// attributes last changed (ctime).
int64_t ModifiedNs(const struct stat& status);
int64_t ChangedNs(const struct stat& status);

// Resolves `relative` against the folder of `file`: "a/b" for ("a/x.yaml",
// "b"). Absolute paths are returned unchanged. The file system is not read.
std::string PathNextTo(const std::string& file, const std::string& relative);

// Maps the identity of a file (FileIdOf) to the text that replaces its content.
using FileTexts = std::map<FileId, std::string>;

// Reads a file as ReadSource of source/file.h does, but returns the replacement
// text if `texts` has one for this file. `texts` may be null.
SourceRef ReadSource(const std::string& path, const FileTexts* texts,
                     Findings& findings);

// Returns whether `path` exists or has a replacement text.
bool IsThere(const std::string& path, const FileTexts* texts);

// Looks for the reason why a parser of JSON or YAML has rejected a text. The
// text may have the markers of a merge conflict of Git. It may also be a Git
// LFS pointer, a web page, a zip archive, a pickle, or a file of numpy or HDF5.
// In these cases, adds an error with `code` that names the reason, and returns
// true. Otherwise returns false.
bool ReportOtherText(const SourceRef& source, Findings& findings,
                     const Code& code = code::kJsonSyntax);

// Returns all names but `.` and `..`, sorted. Returns nullopt if the directory
// cannot be read, with the reason in `error`.
std::optional<std::vector<std::string>> NamesIn(const std::string& directory,
                                                std::error_code& error);

// Returns the path of a name in a directory: `ckpt/a` for `a` in `ckpt` or
// `ckpt/`. If `directory` is empty, returns the name.
std::string PathIn(std::string_view directory, std::string_view name);

struct EmbeddedFile {
  std::string_view name;  // without folders: `llama.flax.yaml`
  std::string_view text;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_FILE_H_
