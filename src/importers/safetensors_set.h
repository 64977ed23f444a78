// Reads a checkpoint of one or several safetensors files as one list of
// tensors. The checkpoint's path is the path of a file, of a Hugging Face
// index, or of a folder that contains an index or files.
#ifndef SHARDC_IMPORTERS_SAFETENSORS_SET_H_
#define SHARDC_IMPORTERS_SAFETENSORS_SET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "importers/safetensors.h"
#include "source/finding.h"

namespace shardc {

struct SafetensorsFile {
  std::string path;
  SafetensorsHeader header;
};

struct SafetensorsSet {
  struct Tensor {
    std::string name;
    // The entry is files[file].header.entries[entry]. Both numbers are -1 if
    // the index was read without its files, so that only names are known.
    int32_t file = -1;
    int32_t entry = -1;
  };
  std::vector<SafetensorsFile> files;
  // Tensors with distinct names, in the order of the index or of the files.
  std::vector<Tensor> tensors;
  std::vector<std::string> notes;

  bool NamesOnly() const { return files.empty() && !tensors.empty(); }
  const SafetensorsEntry& EntryOf(const Tensor& tensor) const {
    return files[static_cast<size_t>(tensor.file)]
        .header.entries[static_cast<size_t>(tensor.entry)];
  }
};

// Returns whether the file at `path` is inside the checkpoint's `folder` after
// links are resolved. If not, adds a finding (path). In Hugging Face's cache,
// the files of a snapshot are links to the folder `blobs` next to the snapshot,
// and such links are accepted. Broken links, and links to anything but a
// regular file, are accepted as well, because opening them fails.
bool IsInFolder(const std::string& folder, const std::string& path,
                Findings& findings);

// Reads a `.safetensors` file, a directory or an index (`*.json`). The files of
// an index must contain exactly the tensors that the index lists. If the folder
// has none of the files, only the names are known, and a note reports this. A
// set with missing files is refused, and so is the path of a single file of a
// larger set (set_folder.h). Returns nullopt after a finding.
std::optional<SafetensorsSet> ReadSafetensorsSet(const std::string& path,
                                                 bool header_only,
                                                 Findings& findings);
std::optional<SafetensorsSet> ReadIndexedSet(const HfIndex& index,
                                             const std::string& index_path,
                                             bool header_only,
                                             Findings& findings);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_SAFETENSORS_SET_H_
