// Reads a set of GGUF files. llama.cpp splits a model into files
// `NAME-00001-of-00003.gguf`, and loads the complete model if the user passes
// the name of one of them. shardc does the same, and the other files must be in
// the same folder. The metadata of a file may also state its number and the
// number of files. Both must then agree with the file's name:
//
//   llama-00001-of-00003.gguf, and 00002 is absent  ->  1 file is missing
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include "importers/gguf.h"
#include "importers/safetensors_set.h"
#include "importers/set_folder.h"
#include "source/directory.h"
#include "source/wording.h"

namespace shardc {
namespace {

class GgufSetReader {
 public:
  // `name` is the name of one file of the set, which is in `folder`. `folder`
  // ends in a slash or is empty.
  GgufSetReader(std::string folder, const NumberedName& name, bool header_only,
                Findings& findings)
      : folder_(std::move(folder)),
        name_(name),
        header_only_(header_only),
        findings_(findings) {}

  std::optional<Manifest> Read() {
    const std::string place = folder_.empty() ? "." : folder_;
    std::error_code error;
    const auto names = NamesIn(place, error);
    if (!names) {
      findings_.Add(code::kUnreadable, Place{MakeSource(place, {})},
                    "cannot list `" + place + "`: " + error.message());
      return std::nullopt;
    }
    const auto files = FilesOfSeries(name_, *names);
    if (RefuseGaps(Place{MakeSource(place, {})}, files, findings_)) {
      return std::nullopt;
    }
    for (const std::string& file : files) {
      if (!IsInFolder(place, folder_ + file, findings_) || !Add(file)) {
        return std::nullopt;
      }
      ++number_;
    }
    return Finish();
  }

 private:
  bool Refuse(const std::string& file, const Code& code, std::string message) {
    findings_.Add(code, Place{MakeSource(folder_ + file, {})},
                  "`" + file + "` " + std::move(message),
                  "download the files again: they are not of one set");
    return false;
  }

  bool Add(const std::string& file) {
    GgufSplit split;
    const auto part =
        ReadGgufFile(folder_ + file, header_only_, &split, findings_);
    if (!part) return false;
    if (split.number.value_or(number_) != number_ ||
        split.count.value_or(name_.count) != name_.count) {
      return Refuse(file, code::kMissing,
                    "has the number " +
                        CountText(split.number.value_or(number_) + 1) + " of " +
                        CountText(split.count.value_or(name_.count)) +
                        " in its metadata");
    }
    if (number_ > 0 && split.tensors != tensors_) {
      return Refuse(file, code::kMissing,
                    "states another number of tensors than the first file");
    }
    // The metadata of the model is in the first file.
    if (number_ == 0) config_ = part->config;
    tensors_ = split.tensors;
    for (const Tensor& tensor : part->tensors) {
      if (!known_.emplace(tensor.name).second) {
        return Refuse(file, code::kDuplicateKey,
                      "holds `" + std::string(tensor.name) +
                          "`, which an earlier file holds, too");
      }
      builder_.Add(tensor.name, part->TypeOf(tensor));
    }
    last_ = file;
    return true;
  }

  std::optional<Manifest> Finish() {
    const auto count = static_cast<int64_t>(known_.size());
    if (tensors_ && *tensors_ != count) {
      Refuse(last_, code::kTensorMissing,
             "and the other files hold " + Counted(count, "tensor") + " of " +
                 CountText(*tensors_));
      return std::nullopt;
    }
    Manifest manifest = builder_.Take();
    manifest.source = MakeSource(folder_ + last_, {});
    manifest.naming = "gguf";
    manifest.config = std::move(config_);
    return manifest;
  }

  std::string folder_;
  const NumberedName& name_;
  bool header_only_;
  Findings& findings_;
  ManifestBuilder builder_;
  std::unordered_set<std::string> known_;
  // The number of tensors in all files, as the metadata of the last file that
  // was read states it.
  std::optional<int64_t> tensors_;
  std::string config_;
  int64_t number_ = 0;  // index of the next file, counted from 0
  std::string last_;
};

}  // namespace

std::optional<Manifest> ReadGguf(const std::string& path, bool header_only,
                                 Findings& findings) {
  GgufSplit split;
  auto alone = ReadGgufFile(path, header_only, &split, findings);
  if (!alone) return std::nullopt;
  const size_t slash = path.rfind('/');
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  const std::string base = path.substr(begin);
  const auto name = ParseNumberedName(base);
  const bool numbered = name && name->suffix == ".gguf";
  const int64_t stated = split.count.value_or(0);
  if (stated <= 1 && (!numbered || name->count == 1)) return alone;
  if (numbered) {
    return GgufSetReader(path.substr(0, begin), *name, header_only, findings)
        .Read();
  }
  findings.Add(code::kUsage, Place{MakeSource(path, {})},
               "`" + base + "` is one of the " + CountText(stated) +
                   " files of a model, and its name does not have the form "
                   "`NAME-00001-of-00005.gguf`",
               "rename the files as llama.cpp does, so that the others are "
               "found");
  return std::nullopt;
}

}  // namespace shardc
