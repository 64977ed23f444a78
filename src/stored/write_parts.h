// The part of writing a checkpoint that all formats share. One process keeps
// the chunks of a killed run, writes the other chunks of its share, and
// completes the checkpoint if it is the only process.
#ifndef SHARDC_STORED_WRITE_PARTS_H_
#define SHARDC_STORED_WRITE_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"
#include "stored/chunk_journal.h"
#include "stored/new_folder.h"
#include "stored/tree.h"
#include "stored/write.h"

namespace shardc::stored {

// All chunks that the processes have written for a checkpoint, in the order of
// arrays and chunks.
struct WrittenParts {
  std::vector<std::string> files;  // names of data files, indexed by process
  std::vector<WrittenChunk> chunks;
  NewFile first;  // the open file files[0], to which a format may append
};

// The steps of writing that differ between formats.
class PartsFormat {
 public:
  virtual ~PartsFormat() = default;
  virtual WriteForm form() const = 0;
  // Returns the name of a process's data file in the folder, such as
  // "d/values".
  virtual std::string DataFile(int64_t process, int64_t processes) const = 0;
  // Returns the size in bytes up to which encoded chunks are stored in the
  // journal instead of the data file. Returns -1 if all chunks are stored in
  // the data file.
  virtual int64_t held_bytes() const = 0;
  // Returns the encoded form of a chunk, which is stored. Several threads call
  // it at once.
  virtual std::string Encode(const Array& array, const Box& box,
                             std::string elements) const = 0;
  // Writes the metadata that completes a checkpoint after all chunks have been
  // written. Returns false after a finding.
  virtual bool Complete(WrittenParts parts, const NewFolder& folder,
                        Findings& findings) = 0;
};

// Runs one of the processes that write a checkpoint. If WriteOptions::finalize
// is set, completes the checkpoint instead. Returns false after a finding.
bool WriteParts(std::span<const Array> arrays, const BoxSource& source,
                const WriteOptions& options, PartsFormat& format,
                Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_WRITE_PARTS_H_
