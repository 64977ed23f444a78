// Opens a file without blocking, so that a FIFO does not hang. The type of the
// open descriptor is checked, not the type of the path, so the checked file is
// also the file that is read. Reads use offsets, so that several threads can
// read one file. A read that returns too few bytes is continued. A path that is
// refused has a message such as
//
//   `.` is a directory, not a regular file
//
// For a path that does not exist, the help has the most similar name in its
// folder, or states that there is no folder.
#include "source/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "source/file.h"
#include "source/list.h"
#include "source/process.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::string KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

// Returns a name with each digit replaced by 0.
std::string WithoutNumbers(std::string name) {
  for (char& c : name) {
    if (IsDigit(c)) c = '0';
  }
  return name;
}

// Returns a name without case and separators, and with one spelling of YAML's
// ending: `V5e_64.yml` and `v5e-64.yaml` are the same plain name.
std::string PlainName(std::string_view name) {
  std::string out;
  for (const char c : FoldCase(name)) {
    if (c != '-' && c != '_' && c != ' ') out += c;
  }
  if (out.ends_with(".yml")) out.replace(out.size() - 3, 3, "yaml");
  return out;
}

// Returns the name in the sorted list `names` that the user probably meant by
// `name`, which is not in the list. This is `name` with `.gz` after it, or else
// a similar name with the same ending. A name that differs only in digits is
// not returned, because it is another file of the same set
// (`model-00001-of-00004.safetensors`).
std::optional<std::string> SimilarName(const std::string& name,
                                       const std::vector<std::string>& names) {
  const std::string compressed = name + ".gz";
  if (std::binary_search(names.begin(), names.end(), compressed)) {
    return compressed;
  }
  const std::string plain = PlainName(name);
  for (const std::string& one : names) {
    if (one != name && PlainName(one) == plain) return one;
  }
  const size_t dot = name.rfind('.');
  const std::string ending = dot == std::string::npos ? "" : name.substr(dot);
  std::vector<std::string> stems;
  for (const std::string& one : names) {
    // The same name with another ending: `mesh.yaml` for `mesh.yml`.
    if (dot != std::string::npos && one != name && one.find('.') == dot &&
        one.compare(0, dot, name, 0, dot) == 0) {
      return one;
    }
    if (one.ends_with(ending) && WithoutNumbers(one) != WithoutNumbers(name)) {
      stems.push_back(one.substr(0, one.size() - ending.size()));
    }
  }
  const auto stem = Nearest(std::string_view(name).substr(0, dot), stems);
  return stem ? std::optional(*stem + ending) : std::nullopt;
}

// Returns whether a path may be the name of a model on the Hugging Face Hub,
// such as `meta-llama/Llama-3.1-8B`.
bool MayBeHubName(const std::string& path) {
  const size_t slash = path.find('/');
  if (slash == 0 || slash == std::string::npos || path.starts_with('.') ||
      path.find('/', slash + 1) != std::string::npos ||
      slash + 1 == path.size()) {
    return false;
  }
  const size_t dot = path.rfind('.');
  static constexpr std::array<std::string_view, 6> kEndings = {
      ".json", ".yaml", ".yml", ".gz", ".safetensors", ".gguf"};
  return dot == std::string::npos ||
         !IsAmong(std::string_view(path).substr(dot), kEndings);
}

// Lists the first names, and how many more there are.
std::string ListOfSome(const std::vector<std::string>& names) {
  constexpr size_t kMostListed = 4;
  if (names.size() <= kMostListed) return ListInWords(names, Quote);
  return Join(First(names, kMostListed), ", ", Quote) + " and " +
         CountText(static_cast<int64_t>(names.size() - kMostListed)) + " more";
}

// Returns the help for a folder that is given in place of a file.
std::string HelpForFolder(const std::string& path) {
  std::error_code error;
  const auto names = NamesIn(path, error);
  if (!names) return "";
  if (IsAmong("config.json", *names)) {
    return "write `" + PathIn(path, "config.json") + "`";
  }
  std::vector<std::string> files;
  for (const std::string& one : *names) {
    if (one.find('.', 1) != std::string::npos) {
      files.push_back(PathIn(path, one));
    }
  }
  return files.empty() ? "give a file"
                       : "give a file; it has " + ListOfSome(files);
}

// Returns whether a path may be a revision of Git, such as `HEAD~1`.
bool IsRevision(std::string_view path) {
  constexpr std::string_view kHead = "HEAD";
  return path.starts_with(kHead) &&
         path.find_first_not_of("~^@{}0123456789", kHead.size()) == path.npos;
}

// Returns the help for a path that names no file. A folder with more than
// kMostNames names is not searched, because each name is compared.
std::string HelpForMissing(const std::string& path) {
  constexpr size_t kMostNames = 10000;
  if (path.find("://") != std::string::npos) {
    return "files are read from this machine only: download it first";
  }
  if (path.find_first_of("*?") != std::string::npos) {
    return "no pattern is expanded here: give one file; of a checkpoint in "
           "several files that is `model.safetensors.index.json`";
  }
  if (IsRevision(path)) {
    return "if this is a revision of Git, write its file first: `git show " +
           path + ":FILE > before.json`";
  }
  std::string folder, name = path;
  if (const size_t slash = path.rfind('/'); slash != std::string::npos) {
    folder = path.substr(0, std::max<size_t>(slash, 1));
    name = path.substr(slash + 1);
  }
  std::error_code error;
  const auto names = NamesIn(folder.empty() ? "." : folder, error);
  if (!names) {
    const bool missing = error == std::errc::no_such_file_or_directory;
    if (!missing) return "";
    return "there is no folder " + Quote(folder) +
           (MayBeHubName(path)
                ? "; if it is a model of the Hugging Face Hub, `hf download " +
                      path + " config.json` prints the path of its config.json"
                : "");
  }
  if (names->size() > kMostNames) return "";
  const auto similar = SimilarName(name, *names);
  if (similar) return "did you mean " + Quote(PathIn(folder, *similar)) + "?";
  const size_t dot = name.rfind('.');
  std::vector<std::string> of_suffix;
  for (const std::string& one : *names) {
    if (dot != std::string::npos && one.ends_with(name.substr(dot))) {
      of_suffix.push_back(PathIn(folder, one));
    }
  }
  if (of_suffix.empty()) return "";
  return "the folder has " + ListOfSome(of_suffix);
}

void AddOpenFinding(const std::string& path, int error, Findings& findings) {
  const Place place{MakeSource(path, {})};
  if (error == ENOENT || error == ENOTDIR) {
    findings.Add(code::kMissing, place, "there is no file " + Quote(path),
                 HelpForMissing(path));
  } else if (error == ENXIO) {
    findings.Add(code::kNotRegular, place,
                 Quote(path) + " is not a regular file");
  } else {
    findings.Add(code::kUnreadable, place,
                 "cannot open " + Quote(path) + ": " + ::strerror(error));
  }
}

}  // namespace

std::optional<InputFile> InputFile::Open(const std::string& path,
                                         Findings& findings) {
  InputFile file;
  file.path_ = path;
  do {
    file.fd_ =
        ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  } while (file.fd_ < 0 && errno == EINTR);
  if (file.fd_ < 0) {
    AddOpenFinding(path, errno, findings);
    return std::nullopt;
  }
  const Place place{MakeSource(path, {})};
  struct stat status = {};
  if (::fstat(file.fd_, &status) != 0) {
    findings.Add(code::kUnreadable, place,
                 "cannot read " + Quote(path) + ": " + ::strerror(errno));
    return std::nullopt;
  }
  if (!S_ISREG(status.st_mode)) {
    findings.Add(
        code::kNotRegular, place,
        Quote(path) + " is " + KindOf(status.st_mode) + ", not a regular file",
        S_ISDIR(status.st_mode) ? HelpForFolder(path) : "");
    return std::nullopt;
  }
  file.size_ = status.st_size;
  findings.NoteRead(FileIdOf(status));
  NoteFileRead(path);
  if (file.size_ >= kLargeInputBytes) PreferLargePages();
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept { *this = std::move(other); }

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool InputFile::ReadAt(int64_t offset, char* out, size_t count,
                       Findings& findings) const {
  while (count > 0) {
    const ssize_t got = ::pread(fd_, out, count, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      findings.Add(code::kUnreadable, Place{MakeSource(path_, {})},
                   "cannot read " + Quote(path_) + ": " +
                       (got < 0 ? ::strerror(errno)
                                : "it ends at byte " + CountText(offset) +
                                      ", so it was truncated after it was"
                                      " opened"));
      return false;
    }
    out += got;
    offset += got;
    count -= static_cast<size_t>(got);
  }
  return true;
}

std::optional<std::string> InputFile::Head(size_t count,
                                           Findings& findings) const {
  std::string out(std::min(count, static_cast<size_t>(size_)), '\0');
  if (!ReadAt(0, out.data(), out.size(), findings)) return std::nullopt;
  return out;
}

}  // namespace shardc
